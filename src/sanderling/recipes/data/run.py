"""The data pipeline, whole: raw files to supervised rows, resumable step by step, one report with the numbers of each."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.data.distributions import Portrait, portray
from sanderling.data.files import open_trajectories
from sanderling.evaluate.data_page import Step, data_page, figures_table
from sanderling.evaluate.provenance import machine
from sanderling.recipes.data.config import DataConfig
from sanderling.recipes.data.inputs import run_fingerprint
from sanderling.recipes.data.judging import RULES_ONLY, Judges, judge
from sanderling.recipes.data.layout import Layout
from sanderling.recipes.data.left_out import write_left_out
from sanderling.recipes.data.steps import STEPS
from sanderling.recipes.progress import Report
from sanderling.recipes.stages import Stage, StageRecord, run_stages
from sanderling.runs.files import replace_file

RECIPES = ("dr-venus", "literesearcher", "agentcpm")
"""The named recipes, each a file beside this one."""
PAGE, NUMBERS = "report.html", "data.json"


def find_data_recipe(name: str, overrides: Sequence[str] = ()) -> DataConfig:
    """The settings of a named recipe or of a TOML file, with overrides laid over them. Raises UserError."""
    if name.endswith(".toml"):
        return read_config(DataConfig, Path(name), overrides)
    if name not in RECIPES:
        raise UserError(f"There is no data recipe {name!r}: choose {', '.join(RECIPES)}, or give a .toml file.")
    text = (Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return load_config(DataConfig, text, f"{name}.toml", overrides)


def run_data(layout: Layout, report: Report, command: str, judges: Judges = RULES_ONLY) -> Path:
    """Run what is not done yet and write the report; returns its page. Raises UserError.

    ``judges``: who opens the judges, where models are among them.
    """
    layout.check()
    work = {"judge": partial(judge, layout, report, judges)}
    stages = [
        Stage(name, title, work.get(name) or partial(step, layout, report), layout.config.workers)
        for name, title, step in STEPS
    ]

    def announce(stage: Stage, record: StageRecord | None) -> None:
        done = f" (done before, {record.seconds:.0f} s)" if record else ""
        report.console.print(f"[bold]{stage.title}[/bold][dim]{done}[/dim]", highlight=False)

    records = run_stages(stages, layout.root, run_fingerprint(layout), announce)
    portraits = _portraits(layout)
    numbers = {
        "command": command,
        "machine": machine(),
        "settings": layout.config.model_dump(mode="json"),
        "steps": [{"name": one.name, "seconds": round(one.seconds, 2), **one.figures} for one in records],
        "left_out": write_left_out(layout),
        "sets": [one.as_json() for one in portraits],
    }
    replace_file(layout.root / NUMBERS, json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    steps = [Step(one.name, one.figures["came_in"], one.figures["went_out"], one.figures["told"]) for one in records]
    title = f"From raw files to rows: {layout.config.title}"
    replace_file(layout.root / PAGE, data_page(title, portraits, command=command, steps=steps))
    report.console.print(figures_table([portraits[0], portraits[1], portraits[-1]]))
    for step in steps:
        report.say(f"{step.name:<9} {step.came_in:>9,} → {step.went_out:>9,}  {step.told}")
    report.say(f"{numbers['left_out']:,} were left out: {visible(str(layout.all_left_out))} says which and why.")
    report.say(f"The report is {visible(str(layout.root / PAGE))}.")
    return layout.root / PAGE


def _portraits(layout: Layout) -> list[Portrait]:
    """What came out of each step that changes the set."""
    last = layout.benchmark_free if layout.config.against else layout.unlike
    files = {"imported": layout.imported, "cleaned": layout.cleaned, "judged": layout.judged, "deduped": last}
    files[layout.parts[0]] = layout.parted / f"{layout.parts[0]}.jsonl"
    files["resampled"] = layout.resampled
    return [portray(name, open_trajectories(path), layout.measure) for name, path in files.items()]
