"""The tiny recipe from end to end: two supervised models, reinforcement learning from the better one, measurements, the report.

Every stage resumes where it was killed. Both supervised models are trained at the same time, one process each, for the same
number of optimizer steps; every model answers the same questions with the same seeds. Only the last measurements touch the
held-out worlds.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from sanderling import __version__
from sanderling.agent.journal import Journal
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import to_toml
from sanderling.core.errors import UserError
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.reports import pages
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate
from sanderling.judge.verdict import verdict_of
from sanderling.merge.run import merge, require_mergekit
from sanderling.merge.settings import MergeSettings, Method
from sanderling.recipes import tiny
from sanderling.recipes.tiny import TinyConfig, TinyRun
from sanderling.rl.config import RolloutConfig
from sanderling.rl.rollouts import Actor
from sanderling.runs.progress import Report, machine
from sanderling.runs.stages import Stage, StageRecord, run_stages
from sanderling.train.launch import followed, run_tasks, run_team
from sanderling.train.metrics import read_metrics

NAMES = {"base": "Base model", "sft-all": "SFT on everything", "sft-correct": "SFT on correct ones only", "rl": "RL"}
"""What the table calls each stage."""
_NOTES = {
    "base": "language modelling on pages only: it has seen no question, trajectory or tool call",
    "merge": "the mean of their weights",
    "sft-all": "every trajectory of the imperfect teacher, and the text among them",
    "sft-correct": "those whose answer was right; as many steps",
    "rl": "from the arm that did better on the validation world",
}


def run_tiny(config: TinyConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet, write the report, and print its table.

    Raises UserError when the directory holds a run with other settings.
    """
    run = TinyRun(directory.resolve(), config)
    if config.sft.max_steps is None:
        raise UserError("The two SFT arms are compared at equal steps: set sft.max_steps.")
    run.check()
    stages = [
        *supervised_stages(run, command, report),
        Stage("rl", "Reinforcement learning", lambda: reinforce(run, "", report)),
        Stage("measure", "Every stage on the held-out worlds", lambda: measure_stages(run, list(NAMES), command, report)),
        *(further_stages(run, command, report) if config.full else ()),
    ]
    # A run that was not full may go on as one.
    records = run_stages(stages, run.root, config.model_dump(mode="json", exclude={"full"}), report)
    found = tiny_report(run, records, command)
    page = pages.write_report(found, run.root)
    pages.print_stages(report.console, found)
    report.say(f"The report is {page}.")


def supervised_stages(run: TinyRun, command: str, report: Report) -> list[Stage]:
    """From worlds to the SFT model that RL starts from."""
    return [
        Stage("worlds", "Worlds and questions", lambda: tiny.build_worlds(run, report)),
        Stage("teach", "Trajectories of an imperfect teacher", lambda: tiny.teach(run, report)),
        Stage("data", "What the arms are trained on", lambda: tiny.curate(run, report)),
        Stage("sft", "SFT on everything, and on what was right", lambda: train_arms(run, report)),
        Stage("choose", "Which arm RL starts from", lambda: choose_arm(run, command, report)),
    ]


def further_stages(run: TinyRun, command: str, report: Report) -> Iterator[Stage]:
    """Other ways of RL, and the merge of both SFT models, each measured like the rest."""
    require_mergekit()
    variants = run.config.variants
    if any(variant.curriculum for variant in variants.values()):
        yield Stage("difficulty", "Which questions a curriculum keeps", lambda: sort_questions(run, command, report))
    for name, variant in variants.items():
        yield Stage(rl_stage(name), variant.label, partial(reinforce, run, name, report))
    yield Stage("merge", "Merge of both SFT models", lambda: merge_arms(run, command))
    stages = [*map(rl_stage, variants), "merge"]
    yield Stage("measure-further", "These on the held-out worlds", lambda: measure_stages(run, stages, command, report))


def rl_stage(variant: str) -> str:
    """The name of a variant's stage, and of its directory; of none, of the recipe's own RL."""
    return f"rl-{variant}" if variant else "rl"


# -- supervised training -------------------------------------------------------------------------------------------------


def train_arms(run: TinyRun, report: Report) -> dict[str, Any]:
    """Train both arms, each in a process of its own."""
    steps, logs = run.config.sft.max_steps, [run.root / arm / "metrics.jsonl" for arm in tiny.ARMS]
    assert steps is not None, "run_tiny asked for it"
    steps *= len(tiny.ARMS)
    with followed(report, "SFT, two arms", steps, lambda: (sum(len(read_metrics(log)) for log in logs), "")) as poll:
        done = run_tasks([partial(train_arm, run, arm) for arm in tiny.ARMS], run.config.workers, poll)
        return dict(zip(tiny.ARMS, done, strict=True))


def train_arm(run: TinyRun, arm: str) -> dict[str, Any]:
    """One arm, from its trajectories to a model directory; resumes where it was killed."""
    from sanderling.recipes.tiny_text import text_among
    from sanderling.train.row_source import sft_rows
    from sanderling.train.rows import Encoding, Limit
    from sanderling.train.sft import run_sft

    trajectories = run.training_set(arm)
    encoding = Encoding(load_tokenizer(run.base), run.profile)
    rows = sft_rows(trajectories, encoding, Limit(run.profile.budgets.max_context_tokens))
    rows = [*rows, *text_among(sum(len(row.ids) for row in rows), run.config.text_share, encoding.tokenizer)]
    run_sft(run.config.sft, rows, run.base, run.root / arm)
    metrics = read_metrics(run.root / arm / "metrics.jsonl")
    return {
        "trajectories": len(trajectories),
        "rows": len(rows),
        "tokens_seen": int(sum(line["tokens"] for line in metrics)),
        "steps": len(metrics),
        "final_nll": metrics[-1]["nll"],
    }


# -- reinforcement learning ----------------------------------------------------------------------------------------------


def choose_arm(run: TinyRun, command: str, report: Report) -> dict[str, Any]:
    """Measure both arms on the validation world; RL starts from the better one."""
    results = measure_all(run, {arm: run.model(arm) for arm in tiny.ARMS}, tiny.VALIDATION, command, report)
    scores = {arm: result.pass_at_1.value or 0.0 for arm, result in results.items()}
    return {"chosen": max(tiny.ARMS, key=lambda arm: scores[arm]), "validation_pass_at_1": scores}


def sort_questions(run: TinyRun, command: str, report: Report) -> dict[str, Any]:
    """Keep the training questions that the chosen SFT model gets right sometimes, and not always."""
    start, most = run.chosen(), run.config.questions.curriculum
    tried = [one for plan in run.training for one in read_questions(run.questions_file(plan.name))[:most]]
    write_questions(run.questions_file(tiny.TRIED), tried)
    result = measure_all(run, {start: run.model(start)}, tiny.TRIED, command, report)[start]
    between = {one.id for one in result.questions if 0 < one.correct < one.scored}
    kept = [one for one in tried if one.id in between] or tried  # a model that is never right has nothing to choose from
    write_questions(run.questions_file(tiny.CURRICULUM), kept)
    return {"tried": len(tried), "kept": len(kept)}


def merge_arms(run: TinyRun, command: str) -> dict[str, Any]:
    """The mean of both SFT models' weights."""
    settings = MergeSettings(method=Method.LINEAR, models=tuple(run.model(arm) for arm in tiny.ARMS))
    return {"sha256": merge(settings, run.model("merge"), command).sha256}


def reinforce(run: TinyRun, variant: str, report: Report) -> dict[str, Any]:
    """Run RL from the chosen arm's model into ``rl/``, or a variant's directory; several processes share out each step."""
    start, log = run.chosen(), run.root / rl_stage(variant) / "metrics.jsonl"
    with followed(report, "RL", run.config.rl_of(variant).steps, lambda: (len(read_metrics(log)), "")) as poll:
        run_team(reinforce_rank, (run, start, variant), run.config.rl_processes, poll)
    lines = read_metrics(log)
    return {"start": start, "steps": len(lines), "rollouts": sum(int(line["rollouts"]) for line in lines)}


def reinforce_rank(rank: int, size: int, meeting: Path, run: TinyRun, start: str, variant: str) -> None:
    """What each process of the RL stage does."""
    from sanderling.policy.transformers_policy import TransformersPolicy
    from sanderling.policy.weight_sync import InPlace
    from sanderling.rl.act import acting
    from sanderling.rl.run import run_rl
    from sanderling.train.rows import Encoding
    from sanderling.train.team import join_team

    settings, out = run.config.rl_of(variant), run.root / rl_stage(variant)
    # Sampled as trained, which may be more boldly than models are measured.
    profile = RolloutConfig(temperature=settings.trainer.temperature).applied(run.profile)
    encoding, questions = Encoding(load_tokenizer(run.base), profile), run.rl_questions(variant)

    with join_team(rank, size, meeting) as team, Journal(out, across_versions=True, rank=rank, locked=True) as journal:

        def connect(model: Any) -> Actor:
            """The actor of a model; it samples all turns of its rollouts together."""
            policy = TransformersPolicy(model, encoding.tokenizer, name="rl", max_batch=settings.under_way(size))
            agent = replace(run.agent(policy, *run.training), profile=profile)
            return acting(agent, InPlace(policy), journal, settings.seed)

        asyncio.run(run_rl(settings, questions, connect, encoding, run.model(start), out, team=team))


# -- measurements --------------------------------------------------------------------------------------------------------


def measure_stages(run: TinyRun, stages: Sequence[str], command: str, report: Report) -> dict[str, Any]:
    """Models that get a row in the table, on the held-out worlds."""
    models = {stage: run.base if stage == "base" else run.model(stage) for stage in stages}
    results = measure_all(run, models, tiny.HELD_OUT, command, report)
    return {
        stage: {"pass_at_1": one.pass_at_1.value, "turns": one.mean_turns, "browse_share": one.visit_share}
        for stage, one in results.items()
    }


def measure_all(run: TinyRun, models: Mapping[str, Path], split: str, command: str, report: Report) -> dict[str, EvalResult]:
    """Measure several models at the same time, a process each."""
    files = [RunLog(run.measurement(stage, split)).result_file for stage in models]
    with followed(report, f"Measure: {split}", len(models), lambda: (sum(file.is_file() for file in files), "")) as poll:
        tasks = [partial(measure, run, stage, model, split, command) for stage, model in models.items()]
        return dict(zip(models, run_tasks(tasks, run.config.workers, poll), strict=True))


def measure(run: TinyRun, stage: str, model: Path, split: str, command: str) -> EvalResult:
    """Evaluate a model directory on held-out or validation questions; resumes, amid an episode too; once done, does nothing.

    The run's directory is one that `sanderling eval report`, `judge` and `export` open.
    """
    log = RunLog(run.measurement(stage, split))
    was = log.read()
    if was is not None and was.finished:
        return EvalResult.load(log.result_file)
    from sanderling.policy.transformers_policy import TransformersPolicy  # brings torch

    settings, file = run.config.evaluation, run.questions_file(split)
    questions = read_questions(file)
    asked = {"file": file.name, "questions": len(questions), "questions_sha256": sha256_of_questions(questions)}
    about = About(benchmark="world", split=split, seed=settings.seed, **asked)
    worlds = {tiny.HELD_OUT: run.held_out, tiny.VALIDATION: [run.validation], tiny.TRIED: run.training}[split]
    agent = run.agent(TransformersPolicy.load(model, max_batch=settings.concurrency), *worlds)
    how = settings.model_dump() | {"about": about, "command": command}
    return evaluate(agent, questions, tiny.JUDGE, log.root, together=True, **how)


# -- the report ----------------------------------------------------------------------------------------------------------


def tiny_report(run: TinyRun, records: Sequence[StageRecord], command: str) -> pages.RecipeReport:
    """Everything that `evaluate.reports.pages` shows of a finished run. Computes no new measurement."""
    seconds = {record.name: record.seconds for record in records}
    seconds |= dict.fromkeys(tiny.ARMS, seconds["sft"])
    labels = dict(NAMES)
    if "measure-further" in seconds:
        labels |= {rl_stage(name): variant.label for name, variant in run.config.variants.items()}
        labels["merge"] = "Both SFT models, merged"
    results = {stage: EvalResult.load(RunLog(run.measurement(stage, tiny.HELD_OUT)).result_file) for stage in labels}
    seed, named = run.config.evaluation.seed, {stage: (labels[stage], result) for stage, result in results.items()}
    base, everything, correct, rl = (named[stage] for stage in NAMES)
    supervised = pages.better(everything, correct)
    further = [(named[stage], supervised if stage == "merge" else rl) for stage in labels if stage not in NAMES]
    notes = _NOTES | {rl_stage(name): variant.note for name, variant in run.config.variants.items()}
    if run.base != tiny.SHIPPED_BASE:
        notes["base"] = f"{run.base.name}, which both SFT models go on from"
    return pages.RecipeReport(
        title=run.config.title,
        summary=(
            "A language model of 1.5 million parameters learns to research an invented encyclopedia: it searches, visits "
            "pages and answers questions. Measured on worlds none of whose names it ever saw."
        ),
        command=command,
        seed=seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        version=__version__,
        seconds=sum(record.seconds for record in records),
        stages=tuple(
            pages.Stage(name=labels[stage], result=result, seconds=seconds.get(stage, 0.0) + result.seconds, note=notes[stage])
            for stage, result in results.items()
        ),
        comparisons=tuple(
            pages.compare(one, other, seed=seed)
            for one, other in ((rl, supervised), (correct, everything), (everything, base), *further)
        ),
        remarks=("A person's bare name is accepted as an answer even where the world holds a namesake of another trade.",),
        charts=_charts(run, labels),
        readings=_readings(run, seed),
        settings=to_toml(run.config),
    )


def _charts(run: TinyRun, labels: Mapping[str, str]) -> tuple[pages.Chart, ...]:
    ways = [stage for stage in labels if stage.startswith("rl")]
    lines = {stage: read_metrics(run.root / stage / "metrics.jsonl") for stage in (*tiny.ARMS, *ways)}

    def line(stage: str, key: str) -> dict[float, float | None]:
        """What was not measured, or is not finite, is a gap."""
        values = {one["step"]: one.get(key) for one in lines[stage]}
        return {step: None if value is None or not isfinite(value) else value for step, value in values.items()}

    def of_rl(title: str, unit: str, drawn: dict[str, dict[float, float | None]]) -> pages.Chart:
        return pages.Chart(title=f"RL: {title}", x_label="step", y_label=unit, lines=drawn, smooth=7, percent=unit == "share")

    rewards = {labels[way]: line(way, "reward") for way in ways}
    habits = {"visits among tool turns": line("rl", "browse_share"), "malformed turns": line("rl", "malformed_share")}
    arms = {NAMES[arm]: line(arm, "nll") for arm in tiny.ARMS}
    steps, nats = "optimizer step", "nats per token"
    return (
        pages.Chart(title="SFT: loss on the agent's tokens", x_label=steps, y_label=nats, lines=arms, smooth=5),
        of_rl("right answers among rollouts", "share", rewards),
        of_rl("what the agent does", "share", habits),
        of_rl("entropy", nats, {"entropy": line("rl", "entropy")}),
    )


def _readings(run: TinyRun, seed: int) -> tuple[pages.Reading, ...]:
    """Three of the RL model's episodes, drawn by the seed and not by how good they look."""
    trajectories = list(RunLog(run.measurement("rl", tiny.HELD_OUT)).records())
    random.Random(seed).shuffle(trajectories)
    return tuple(pages.pick_three((trajectory, verdict_of(trajectory, tiny.JUDGE.name)) for trajectory in trajectories))
