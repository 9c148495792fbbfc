"""The recipes by name, written out, and how one is found. Importable without torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.recipes.tiny.config import TinyConfig
from sanderling.runs.progress import Report

_HERE = Path(__file__).parent

QUICK = (
    "title='tiny, quick'",
    "worlds.train=4",
    "questions.per_world=60",
    "questions.held_out=40",
    "questions.validation=16",
    "sft.max_steps=30",
    "rl.steps=3",
)
"""What `--quick` lays over the recipe: every stage runs, and nothing is learnt well enough to claim."""

MERGE_TINY = "merge-tiny"
MERGE_QUICK = (
    "title='merge-tiny, quick'",
    "worlds.train=4",
    "questions.per_world=30",
    "questions.validation=6",
    "questions.held_out=10",
    "ancestor.max_steps=20",
    "specialist.max_steps=10",
    "sweep.values=[0.0, 0.5, 1.0]",
)

ABLATION_TINY = "ablation-tiny"
ABLATION_QUICK = (
    "title='ablation-tiny, quick'",
    "seeds=[1]",
    "worlds.train=2",
    "questions.per_world=20",
    "questions.validation=4",
    "questions.held_out=6",
    "rl.steps=2",
    "rl.questions_per_step=2",
    "rl.group_size=2",
    "tuning.lrs=[1e-4]",
    "tuning.steps=1",
    "measuring.every=1",
    "measuring.attempts=2",
    "measuring.validation_attempts=1",
    "criterion.resamples=200",
    "start_settings=['worlds.train=2','questions.per_world=20','questions.validation=4','sft.max_steps=4']",
)


@dataclass(frozen=True)
class Recipe:
    """A recipe that can be run."""

    name: str
    run: Callable[[Path, Report, str], None]
    """``run(directory, report, command)``."""
    reads: tuple[Path, ...] = ()
    """What it was told to read."""


def find_recipe(name: str, *, quick: bool = False, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or the tiny one with the settings of a TOML file. Raises UserError."""
    from sanderling.recipes.tiny.run import run_tiny

    if name == MERGE_TINY:
        return _merge_tiny(quick, overrides)
    if name == ABLATION_TINY:
        return _ablation_tiny(quick, overrides)
    laid_over = [*(QUICK if quick else ()), *overrides]
    if name == "tiny":
        text = (_HERE / "tiny.toml").read_text(encoding="utf-8")
        config = load_config(TinyConfig, text, "tiny.toml", laid_over)
    elif name.endswith(".toml"):
        config = read_config(TinyConfig, Path(name), laid_over)
    else:
        raise UserError(
            f"There is no recipe {name!r}: choose tiny or {MERGE_TINY} or {ABLATION_TINY}, or give a .toml file with tiny's "
            "settings."
        )
    return Recipe(
        "tiny" if name == "tiny" else Path(name).stem,
        lambda out, report, command: run_tiny(config, out, report, command),
        () if config.base is None else (config.base,),
    )


def _merge_tiny(quick: bool, overrides: Sequence[str]) -> Recipe:
    """The recipe on forgetting, with its own settings."""
    from sanderling.recipes.merge_tiny.config import MergeTinyConfig
    from sanderling.recipes.merge_tiny.run import run_merge_tiny

    text = (_HERE / f"{MERGE_TINY}.toml").read_text(encoding="utf-8")
    config = load_config(MergeTinyConfig, text, f"{MERGE_TINY}.toml", [*(MERGE_QUICK if quick else ()), *overrides])
    reads = () if config.base is None else (config.base,)
    return Recipe(MERGE_TINY, lambda out, report, command: run_merge_tiny(config, out, report, command), reads)


def _ablation_tiny(quick: bool, overrides: Sequence[str]) -> Recipe:
    """The ablation of RL's parts, with its own settings."""
    from sanderling.recipes.ablation.config import AblationConfig
    from sanderling.recipes.ablation.run import run_ablation

    text = (_HERE / f"{ABLATION_TINY}.toml").read_text(encoding="utf-8")
    config = load_config(AblationConfig, text, f"{ABLATION_TINY}.toml", [*(ABLATION_QUICK if quick else ()), *overrides])
    reads = () if config.start is None else (config.start,)
    return Recipe(ABLATION_TINY, lambda out, report, command: run_ablation(config, out, report, command), reads)
