"""The tiny recipe from end to end: two supervised models, reinforcement learning from the better one, measurements, the report.

Every stage resumes where it was killed. Both supervised models are trained at the same time, one process each, for the same
number of optimizer steps; every model answers the same questions with the same seeds. The held-out world is touched by the last
measurements alone.
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from sanderling import __version__
from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import to_toml
from sanderling.core.errors import UserError
from sanderling.core.record import Seeds, Trajectory
from sanderling.data.questions import read_questions
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.reports.pages import (
    Chart,
    Reading,
    RecipeReport,
    better,
    compare,
    pick_three,
    print_stages,
    write_report,
)
from sanderling.evaluate.reports.pages import Stage as Row
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate
from sanderling.judge.verdict import verdict_of
from sanderling.recipes.tiny import ARMS, JUDGE, TinyConfig, TinyRun, WorldPlan, build_worlds, curate, teach
from sanderling.rl.rollouts import Actor, Ask
from sanderling.runs.progress import Report, machine
from sanderling.runs.stages import Stage, StageRecord, read_record, run_stages
from sanderling.train.launch import Task, run_tasks, run_team
from sanderling.train.metrics import read_metrics

NAMES = {"base": "Base model", "sft-all": "SFT on everything", "sft-correct": "SFT on correct ones only", "rl": "RL"}
"""What the table calls each stage."""
_NOTES = {
    "base": "language modelling on pages only: it has seen no question, trajectory or tool call",
    "sft-all": "every trajectory of the imperfect teacher",
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

    def chosen() -> str:
        return read_record(run.root, "choose").figures["chosen"]

    stages = [
        Stage("worlds", "Worlds and questions", lambda: build_worlds(run, report)),
        Stage("teach", "Trajectories of an imperfect teacher", lambda: teach(run, report)),
        Stage("data", "What the arms are trained on", lambda: curate(run, report)),
        Stage("sft", "SFT on everything, and on what was right", lambda: train_arms(run, report)),
        Stage("choose", "Which arm RL starts from", lambda: choose_arm(run, command, report)),
        Stage("rl", "Reinforcement learning", lambda: reinforce(run, chosen(), report)),
        Stage("measure", "Every stage on the held-out world", lambda: measure_stages(run, command, report)),
    ]
    records = run_stages(stages, run.root, config.model_dump(mode="json"), report)
    found = tiny_report(run, records, command)
    page = write_report(found, run.root)
    print_stages(report.console, found)
    report.say(f"The report is {page}.")


# -- supervised training -------------------------------------------------------------------------------------------------


@contextmanager
def polled(report: Report, title: str, total: int, count: Callable[[], int]) -> Iterator[Callable[[], None]]:
    """A progress bar over what other processes do; what it gives looks how many units are done by now."""
    with report.task(title, total) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            now = count()
            if now != seen:
                advance(now - seen)
                seen = now

        yield poll


def train_arms(run: TinyRun, report: Report) -> dict[str, Any]:
    """Train both arms, each in a process of its own."""
    steps, logs = run.config.sft.max_steps, [run.root / arm / "metrics.jsonl" for arm in ARMS]
    assert steps is not None, "run_tiny asked for it"
    with polled(report, "SFT, two arms", steps * len(ARMS), lambda: sum(len(read_metrics(log)) for log in logs)) as poll:
        return dict(zip(ARMS, run_tasks([Task(train_arm, (run, arm)) for arm in ARMS], run.config.workers, poll), strict=True))


def train_arm(run: TinyRun, arm: str) -> dict[str, Any]:
    """One arm, from its trajectories to a model directory; resumes where it was killed."""
    from sanderling.train.row_source import sft_rows
    from sanderling.train.rows import Encoding, Limit
    from sanderling.train.sft import run_sft

    trajectories = run.training_set(arm)
    encoding = Encoding(load_tokenizer(run.base), run.profile)
    rows, _ = sft_rows(trajectories, encoding, Limit(run.profile.budgets.max_context_tokens))
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
    results = measure_all(run, {arm: run.model(arm) for arm in ARMS}, run.validation, command, report)
    scores = {arm: result.pass_at_1.value or 0.0 for arm, result in results.items()}
    return {"chosen": max(ARMS, key=lambda arm: scores[arm]), "validation_pass_at_1": scores}


def reinforce(run: TinyRun, start: str, report: Report) -> dict[str, Any]:
    """Run RL from one arm's model into ``rl/``; several processes share out each step."""
    log = run.root / "rl" / "metrics.jsonl"
    with polled(report, "RL", run.config.rl.steps, lambda: len(read_metrics(log))) as poll:
        run_team(reinforce_rank, (run, start), run.config.rl_processes, poll)
    lines = read_metrics(log)
    return {"start": start, "steps": len(lines), "rollouts": sum(int(line["rollouts"]) for line in lines)}


def reinforce_rank(rank: int, size: int, meeting: Path, run: TinyRun, start: str) -> None:
    """What each process of the RL stage does."""
    from sanderling.policy.transformers_policy import TransformersPolicy
    from sanderling.policy.weight_sync import InPlace
    from sanderling.rl.run import run_rl
    from sanderling.train.rows import Encoding
    from sanderling.train.team import join_team

    settings, out = run.config.rl, run.root / "rl"
    encoding = Encoding(load_tokenizer(run.base), run.profile)
    groups = math.ceil(settings.questions_per_step / size) * (settings.pipeline.max_staleness + 1)
    questions = [question for plan in run.training for question in read_questions(run.questions_file(plan.name))]
    places = {plan.generate().name: run.place(plan) for plan in run.training}

    with join_team(rank, size, meeting) as team, Journal(out, across_versions=True, rank=rank, locked=True) as journal:

        def connect(model: Any) -> Actor:
            """The actor of a model; it samples all turns of its rollouts together."""
            policy = TransformersPolicy(model, encoding.tokenizer, name="rl", max_batch=groups * settings.group_size)
            agent = Agent(policy, {}, run.profile, run.clock(), places=places)

            async def rollout(ask: Ask) -> Trajectory:
                seeds = Seeds(run=settings.seed, episode=ask.seed, attempt=ask.attempt)
                return await agent.run(ask.question, seeds, journal=journal, finish_early=ask.finish_early)

            return Actor(rollout, InPlace(policy), journal.stored, forget=journal.forget)

        asyncio.run(run_rl(settings, questions, connect, encoding, run.model(start), out, team=team))


# -- measurements --------------------------------------------------------------------------------------------------------


def measure_stages(run: TinyRun, command: str, report: Report) -> dict[str, Any]:
    """Everything that gets a row in the table, on the held-out world."""
    models = {"base": run.base, **{arm: run.model(arm) for arm in ARMS}, "rl": run.model("rl")}
    results = measure_all(run, models, run.held_out, command, report)
    return {
        stage: {"pass_at_1": one.pass_at_1.value, "turns": one.mean_turns, "browse_share": one.visit_share}
        for stage, one in results.items()
    }


def measure_all(
    run: TinyRun, models: Mapping[str, Path], plan: WorldPlan, command: str, report: Report
) -> dict[str, EvalResult]:
    """Measure several models at the same time, a process each."""
    files = [RunLog(run.measurement(stage, plan)).result_file for stage in models]
    with polled(report, f"Measure on {plan.name}", len(models), lambda: sum(file.is_file() for file in files)) as poll:
        tasks = [Task(measure, (run, stage, model, plan, command)) for stage, model in models.items()]
        return dict(zip(models, run_tasks(tasks, run.config.workers, poll), strict=True))


def measure(run: TinyRun, stage: str, model: Path, plan: WorldPlan, command: str) -> EvalResult:
    """Evaluate a model directory on a world's questions; resumes, amid an episode too, and does nothing when it was done.

    The run's directory is one that `sanderling eval report`, `judge` and `export` open.
    """
    from sanderling.policy.transformers_policy import TransformersPolicy

    log = RunLog(run.measurement(stage, plan))
    was = log.read()
    if was is not None and was.finished:
        return EvalResult.load(log.result_file)
    settings, file = run.config.evaluation, run.questions_file(plan.name)
    questions = read_questions(file)
    asked = {"file": file.name, "questions": len(questions), "questions_sha256": sha256_of_questions(questions)}
    about = About(benchmark="world", split=plan.name, seed=settings.seed, **asked)
    agent = run.agent(TransformersPolicy.load(model, max_batch=settings.concurrency), plan)
    return evaluate(agent, questions, JUDGE, log.root, together=True, about=about, command=command, **settings.model_dump())


# -- the report ----------------------------------------------------------------------------------------------------------


def tiny_report(run: TinyRun, records: Sequence[StageRecord], command: str) -> RecipeReport:
    """Everything that `evaluate.reports.pages` shows of a finished run. Computes no new measurement."""
    done = {record.name: record for record in records}
    results = {stage: EvalResult.load(RunLog(run.measurement(stage, run.held_out)).result_file) for stage in NAMES}
    seed, named = run.config.evaluation.seed, [(NAMES[stage], result) for stage, result in results.items()]
    base, everything, correct, rl = named
    made = dict.fromkeys(ARMS, done["sft"].seconds) | {"base": 0.0, "rl": done["rl"].seconds}
    return RecipeReport(
        title=run.config.title,
        summary=(
            "A language model of 1.5 million parameters learns to research an invented encyclopedia: it searches, visits "
            "pages and answers questions of one to three hops. Measured on a world none of whose names it ever saw."
        ),
        command=command,
        seed=seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        version=__version__,
        seconds=sum(record.seconds for record in records),
        stages=tuple(
            Row(name=NAMES[stage], result=result, seconds=made[stage] + result.seconds, note=_NOTES[stage])
            for stage, result in results.items()
        ),
        comparisons=tuple(
            compare(one, other, seed=seed)
            for one, other in ((rl, better(everything, correct)), (correct, everything), (everything, base))
        ),
        remarks=("A person's bare name is accepted as an answer even where the world holds a namesake of another trade.",),
        charts=_charts(run),
        readings=_readings(run, seed),
        settings=to_toml(run.config),
    )


def _charts(run: TinyRun) -> tuple[Chart, ...]:
    lines = {stage: read_metrics(run.root / stage / "metrics.jsonl") for stage in (*ARMS, "rl")}

    def line(stage: str, key: str) -> dict[float, float | None]:
        """What was not measured, or is not finite, is a gap."""
        values = {one["step"]: one.get(key) for one in lines[stage]}
        return {step: None if value is None or not isfinite(value) else value for step, value in values.items()}

    def of_rl(title: str, unit: str, **keys: str) -> Chart:
        drawn = {name.replace("_", " "): line("rl", key) for name, key in keys.items()}
        return Chart(title=f"RL: {title}", x_label="step", y_label=unit, lines=drawn, smooth=7, percent=unit == "share")

    arms = {NAMES[arm]: line(arm, "nll") for arm in ARMS}
    steps, nats = "optimizer step", "nats per token"
    return (
        Chart(title="SFT: loss on the agent's tokens", x_label=steps, y_label=nats, lines=arms, smooth=5),
        of_rl("right answers among rollouts", "share", reward="reward"),
        of_rl("what the agent does", "share", visits_among_tool_turns="browse_share", malformed_turns="malformed_share"),
        of_rl("entropy", nats, entropy="entropy"),
    )


def _readings(run: TinyRun, seed: int) -> tuple[Reading, ...]:
    """Three of the RL model's episodes, drawn by the seed and not by how good they look."""
    trajectories = list(RunLog(run.measurement("rl", run.held_out)).records())
    random.Random(seed).shuffle(trajectories)
    return tuple(pick_three((trajectory, verdict_of(trajectory, JUDGE.name)) for trajectory in trajectories))
