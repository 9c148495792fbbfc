"""The supervised model that every arm begins with: the better arm of the tiny recipe, made once, or one that was given.

Made by the tiny recipe's own stages with its own settings, in ``start/``; the ablation's held-out world is not touched.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sanderling.core.config import load_config
from sanderling.policy.model_directory import check_model
from sanderling.recipes.ablation.layout import Layout
from sanderling.recipes.tiny.config import TinyConfig
from sanderling.recipes.tiny.data import build_worlds, curate, teach
from sanderling.recipes.tiny.layout import Layout as TinyLayout
from sanderling.recipes.tiny.reinforce import choose_arm
from sanderling.recipes.tiny.supervised import train_arms
from sanderling.runs.progress import Report
from sanderling.runs.run_record import content_hash
from sanderling.runs.stages import Stage, run_stages


def begin_with(layout: Layout, command: str, report: Report) -> dict[str, Any]:
    """Make the model, or look at the one that was given; returns its place and what stands for its weights."""
    model, told = (layout.config.start, {}) if layout.config.start is not None else _made(layout, command, report)
    check_model(model)
    weights = {file.name: content_hash(file) for file in sorted(model.glob("*.safetensors"))}
    return {"model": str(model.resolve()), "weights": weights, **told}


def _made(layout: Layout, command: str, report: Report) -> tuple[Path, dict[str, Any]]:
    """The tiny recipe up to the choice of its arm; each stage once."""
    text = (Path(__file__).parent.parent / "tiny.toml").read_text(encoding="utf-8")
    workers = f"workers={layout.config.workers}"
    config = load_config(TinyConfig, text, "tiny.toml", [workers, *layout.config.start_settings])
    tiny = TinyLayout(layout.start_root, config)

    def stage(name: str, title: str, run: Callable[[], dict[str, Any]]) -> Stage:
        return Stage(name, title, run, config.workers)

    stages = [
        stage("worlds", "The tiny recipe's worlds and questions", lambda: build_worlds(tiny, report)),
        stage("teach", "Trajectories of its teacher", lambda: teach(tiny, report)),
        stage("data", "What its arms are trained on", lambda: curate(tiny, report)),
        stage("sft", "Its two arms", lambda: train_arms(tiny, report)),
        stage("choose", "Which of them everything begins with", lambda: choose_arm(tiny, command, report)),
    ]
    settings = config.model_dump(mode="json", exclude={"workers"})
    records = run_stages(stages, layout.start_root, settings, report)
    return tiny.model(records[-1].figures["chosen"]), records[-1].figures
