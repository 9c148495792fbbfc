"""The tiny recipe from end to end: its stages in order. Each stage is a function of its own module."""

from pathlib import Path
from typing import Any

from sanderling.evaluate.report import write_report
from sanderling.evaluate.table import print_stages
from sanderling.recipes.tiny.config import TinyConfig
from sanderling.recipes.tiny.data import build_worlds, curate, teach
from sanderling.recipes.tiny.layout import Layout
from sanderling.recipes.tiny.measure import figures, measure_all
from sanderling.recipes.tiny.reinforce import choose_arm, reinforce, stages_to_measure
from sanderling.recipes.tiny.report import NAMES, tiny_report
from sanderling.recipes.tiny.supervised import ARMS, train_arms
from sanderling.runs.progress import Report
from sanderling.runs.stages import Stage, read_record, run_stages


def run_tiny(config: TinyConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet, write the report, and print its table.

    Raises UserError when the directory holds a run with other settings.
    """
    layout = Layout(directory.resolve(), config)
    layout.check()

    def measured() -> dict[str, Any]:
        attempts = config.evaluation.attempts
        results = measure_all(layout, stages_to_measure(layout), layout.held_out, attempts, command, report)
        return {stage: figures(result) for stage, result in results.items()}

    def reinforced() -> dict[str, Any]:
        return reinforce(layout, read_record(layout.root, "choose").figures["chosen"], report)

    arms = min(config.workers, len(ARMS))
    stages = [
        Stage("worlds", "Worlds and questions", lambda: build_worlds(layout, report)),
        Stage("teach", "Trajectories of an imperfect teacher", lambda: teach(layout, report)),
        Stage("data", "What the arms are trained on", lambda: curate(layout, report)),
        Stage("sft", "SFT on everything, and on what was right", lambda: train_arms(layout, report), arms),
        Stage("choose", "Which arm RL starts from", lambda: choose_arm(layout, command, report), arms),
        Stage("rl", "Reinforcement learning", reinforced, config.rl_processes),
        Stage("measure", "Every stage on the held-out world", measured, min(config.workers, len(NAMES))),
    ]

    records = run_stages(stages, layout.root, config.model_dump(mode="json"), report)
    told = tiny_report(layout, records, command)
    page = write_report(told, layout.root)
    print_stages(report.console, told.stages, told.comparison, title=told.title)
    report.say(f"The report is {page}.")
