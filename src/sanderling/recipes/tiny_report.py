"""The tiny recipe's report: what the stages left behind, as data for the page and the table. Computes no new measurement."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sanderling import __version__
from sanderling.core.config import to_toml
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.reports.reading import Reading, pick_three, reading_of
from sanderling.evaluate.reports.recipe import Chart, FactSheet, RecipeReport, RunFacts, Series, Stage, better, compare
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import verdict_of
from sanderling.recipes.tiny import ARMS, JUDGE, TinyRun
from sanderling.runs.provenance import machine
from sanderling.runs.stages import StageRecord
from sanderling.train.metrics import read_metrics

NAMES = {"base": "Base model", "sft-all": "SFT on everything", "sft-correct": "SFT on correct ones only", "rl": "RL"}
"""What the table calls each stage."""
NOTES = {
    "base": "language modelling on pages only: it has seen no question, trajectory or tool call",
    "sft-all": "every trajectory of the imperfect teacher",
    "sft-correct": "those whose answer was right; as many steps",
    "rl": "from the arm that did better on the validation world",
}


def tiny_report(run: TinyRun, records: Sequence[StageRecord], command: str) -> RecipeReport:
    """Everything that `evaluate.reports.recipe` shows of a finished run."""
    done = {record.name: record for record in records}
    results = {stage: EvalResult.load(RunLog(run.measurement(stage, run.held_out)).result_file) for stage in NAMES}
    seed = run.config.evaluation.seed
    rl, arms = (NAMES["rl"], results["rl"]), [(NAMES[arm], results[arm]) for arm in ARMS]
    return RecipeReport(
        title=run.config.title,
        summary=(
            "A language model of 1.5 million parameters learns to research an invented encyclopedia: it searches, visits "
            "pages and answers questions of one to three hops. Measured on a world none of whose names it ever saw."
        ),
        run=RunFacts(
            command=command,
            seed=seed,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=machine(),
            version=__version__,
            seconds=sum(record.seconds for record in records),
        ),
        sheets=_sheets(run, done),
        stages=tuple(
            Stage(name=NAMES[stage], result=result, seconds=_seconds(stage, result, done), note=NOTES[stage])
            for stage, result in results.items()
        ),
        comparison=compare(rl, better(*arms), seed=seed),
        other_comparisons=(compare(arms[1], arms[0], seed=seed), compare(arms[0], (NAMES["base"], results["base"]), seed=seed)),
        remarks=_remarks(done),
        charts=_charts(run),
        readings=_readings(run, seed),
        settings=to_toml(run.config),
    )


def _seconds(stage: str, result: EvalResult, done: dict[str, StageRecord]) -> float:
    """Making the stage and measuring it. The two arms were trained at the same time, so each is given the whole stage."""
    made = {"base": 0.0, "rl": done["rl"].seconds}.get(stage, done["sft"].seconds)
    return made + result.seconds


def _sheets(run: TinyRun, done: dict[str, StageRecord]) -> tuple[FactSheet, ...]:
    worlds, teach, sft = done["worlds"].figures, done["teach"].figures, done["sft"].figures
    share = teach["correct"] / max(1, teach["trajectories"])
    modes = run.config.teacher.modes.model_dump()
    return (
        _sheet(
            "Worlds",
            {
                "training worlds": len(run.training),
                "pages in all": worlds["pages"],
                "held-out SHA-256": worlds["held_out_sha256"][:16],
                "held-out questions by hops": ", ".join(f"{k}: {v}" for k, v in worlds["held_out_hops"].items()),
            },
        ),
        _sheet(
            "Teacher",
            {
                "trajectories": teach["trajectories"],
                "right": f"{share:.0%}",
                "right by hops": ", ".join(f"{k}: {v:.0%}" for k, v in teach["correct_by_hops"].items()),
                "faults, per decision": ", ".join(f"{name} {value:g}" for name, value in modes.items()),
            },
        ),
        _sheet("SFT", {NAMES[arm]: f"{sft[arm]['rows']} rows, {sft[arm]['tokens_seen']:,} tokens seen" for arm in ARMS}),
        _sheet(
            "RL",
            {
                "starts from": NAMES[done["choose"].figures["chosen"]],
                "steps": done["rl"].figures["steps"],
                "rollouts": done["rl"].figures["rollouts"],
                "estimator": run.config.rl.estimator.kind,
            },
        ),
    )


def _sheet(title: str, facts: dict[str, Any]) -> FactSheet:
    return FactSheet(title=title, facts={label: str(value) for label, value in facts.items()})


def _remarks(done: dict[str, StageRecord]) -> tuple[str, ...]:
    resumed = [record.name for record in done.values() if record.resumed]
    remarks = ["A person's bare name is accepted as an answer even where the world holds a namesake of another trade."]
    if resumed:
        remarks.append(f"Interrupted and taken up again: {', '.join(resumed)}; their seconds are estimates.")
    return tuple(remarks)


def _charts(run: TinyRun) -> tuple[Chart, ...]:
    rl = read_metrics(run.root / "rl" / "metrics.jsonl")
    sft = {arm: read_metrics(run.root / arm / "metrics.jsonl") for arm in ARMS}
    return (
        Chart(
            title="SFT: loss on the agent's tokens",
            x_label="optimizer step",
            y_label="nats per token",
            series=tuple(_series(NAMES[arm], lines, "nll") for arm, lines in sft.items()),
            smooth=5,
            log=True,
        ),
        Chart(
            title="RL: right answers among rollouts",
            x_label="step",
            y_label="share",
            series=(_series("reward", rl, "reward"),),
            smooth=7,
            percent=True,
        ),
        Chart(
            title="RL: what the agent does",
            x_label="step",
            y_label="share",
            series=(_series("visits among tool turns", rl, "browse_share"), _series("malformed turns", rl, "malformed_share")),
            smooth=7,
            percent=True,
        ),
        Chart(
            title="RL: entropy",
            x_label="step",
            y_label="nats per token",
            series=(_series("entropy", rl, "entropy"),),
            smooth=7,
        ),
    )


def _series(name: str, lines: Sequence[dict[str, float]], key: str) -> Series:
    return Series(name=name, x=tuple(line["step"] for line in lines), y=tuple(line.get(key) for line in lines))


def _readings(run: TinyRun, seed: int) -> tuple[Reading, ...]:
    """Three of the RL model's episodes, drawn by the seed and not by how good they look."""
    trajectories = list(RunLog(run.measurement("rl", run.held_out)).records())
    random.Random(seed).shuffle(trajectories)
    picked = pick_three((trajectory, verdict_of(trajectory, JUDGE.name)) for trajectory in trajectories)
    return tuple(reading_of(trajectory, title, correct=correct) for title, trajectory, correct in picked)
