"""The tiny recipe from end to end: two supervised models, reinforcement learning from the better one, measurements, the table.

Every stage resumes where it was killed. Both supervised models are trained at the same time, one process each, for the same
number of optimizer steps; every model answers the same questions with the same seeds. The held-out world is touched by the last
measurements alone.
"""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.chat import load_tokenizer
from sanderling.core.record import Seeds, Trajectory
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import Counting
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.reports.recipe import print_stages, write_report
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate
from sanderling.recipes.tiny import ARMS, JUDGE, TinyConfig, TinyRun, WorldPlan, build_worlds, curate, teach
from sanderling.recipes.tiny_report import NAMES, tiny_report
from sanderling.rl.contract import Actor, Ask
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report
from sanderling.runs.stages import Stage, read_record, run_stages
from sanderling.train.metrics import read_metrics
from sanderling.train.parallel.workers import Task, run_tasks, run_team


def run_tiny(config: TinyConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet, write the report, and print its table.

    Raises UserError when the directory holds a run with other settings.
    """
    run = TinyRun(directory.resolve(), config)
    run.check()
    arms = min(config.workers, len(ARMS))

    def chosen() -> str:
        return read_record(run.root, "choose").figures["chosen"]

    stages = [
        Stage("worlds", "Worlds and questions", lambda: build_worlds(run, report)),
        Stage("teach", "Trajectories of an imperfect teacher", lambda: teach(run, report)),
        Stage("data", "What the arms are trained on", lambda: curate(run, report)),
        Stage("sft", "SFT on everything, and on what was right", lambda: train_arms(run, report), arms),
        Stage("choose", "Which arm RL starts from", lambda: choose_arm(run, command, report), arms),
        Stage("rl", "Reinforcement learning", lambda: reinforce(run, chosen(), report), config.rl_processes),
        Stage(
            "measure",
            "Every stage on the held-out world",
            lambda: measure_stages(run, command, report),
            min(config.workers, len(NAMES)),
        ),
    ]
    records = run_stages(stages, run.root, config.model_dump(mode="json"), report)
    found = tiny_report(run, records, command)
    page = write_report(found, run.root)
    print_stages(report.console, found.stages, found.comparison, title=found.title)
    report.say(f"The report is {page}.")


# -- supervised training -------------------------------------------------------------------------------------------------


def train_arms(run: TinyRun, report: Report) -> dict[str, Any]:
    """Train both arms, each in a process of its own."""
    steps = run.config.sft.max_steps
    if steps is None:
        raise ValueError("the arms are compared at equal steps: sft.max_steps must be set")
    with report.task("SFT, two arms", steps * len(ARMS)) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(len(read_metrics(run.root / arm / "metrics.jsonl")) for arm in ARMS)
            advance(done - seen)
            seen = done

        tasks = [Task(train_arm, (run, arm)) for arm in ARMS]
        return dict(zip(ARMS, run_tasks(tasks, run.config.workers, poll), strict=True))


def train_arm(run: TinyRun, arm: str) -> dict[str, Any]:
    """One arm, from its trajectories to a model directory; resumes where it was killed."""
    from sanderling.train.encoding import Encoding, Limit
    from sanderling.train.row_source import sft_rows
    from sanderling.train.sft.loop import run_sft

    trajectories = run.training_set(arm)
    encoding = Encoding(load_tokenizer(run.base), run.profile)
    rows, counts = sft_rows(trajectories, encoding, Limit(run.profile.budgets.max_context_tokens))
    run_sft(run.config.sft, rows, run.base, run.root / arm)
    metrics = read_metrics(run.root / arm / "metrics.jsonl")
    return {
        "trajectories": len(trajectories),
        "rows": len(rows),
        "too_long": counts.too_long,
        "tokens": int(sum(len(row.ids) for row in rows)),
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
    seen = len(read_metrics(log))
    with report.task("RL", run.config.rl.steps, start=seen) as advance:

        def poll() -> None:
            nonlocal seen
            lines = read_metrics(log)
            if len(lines) != seen:
                advance(len(lines) - seen, f"right {lines[-1]['reward']:.2f}" if lines else None)
                seen = len(lines)

        run_team(reinforce_rank, (run, start), run.config.rl_processes, poll)
    lines = read_metrics(log)
    return {"start": start, "steps": len(lines), "rollouts": sum(int(line["rollouts"]) for line in lines)}


def reinforce_rank(rank: int, size: int, meeting: Path, run: TinyRun, start: str) -> None:
    """What each process of the RL stage does."""
    from sanderling.policy.transformers_policy import TransformersPolicy
    from sanderling.policy.weight_sync import InPlace
    from sanderling.rl.run import run_rl
    from sanderling.train.encoding import Encoding
    from sanderling.train.parallel.team import join_team

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
        stage: {"pass_at_1": one.pass_at_1.value, "turns": one.mean_turns, "browse_share": one.browse.overall}
        for stage, one in results.items()
    }


def measure_all(
    run: TinyRun, models: Mapping[str, Path], plan: WorldPlan, command: str, report: Report
) -> dict[str, EvalResult]:
    """Measure several models at the same time, a process each."""
    count = len(read_questions(run.questions_file(plan.name))) * run.config.evaluation.attempts
    files = [_counter(run.measurement(stage, plan)) for stage in models]
    with report.task(f"Measure on {plan.name}", count * len(models)) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(int(file.read_text() or 0) for file in files if file.is_file())
            advance(done - seen)
            seen = done

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
    about = About(
        benchmark="world",
        split=plan.name,
        file=file.name,
        questions=len(questions),
        questions_sha256=sha256_of_questions(questions),
        seed=settings.seed,
    )
    return evaluate(
        run.agent(TransformersPolicy.load(model, max_batch=settings.concurrency), plan),
        questions,
        JUDGE,
        log.root,
        attempts=settings.attempts,
        seed=settings.seed,
        concurrency=settings.concurrency,
        together=True,
        about=about,
        command=command,
        watch=Counting(len(questions) * settings.attempts, lambda now: replace_file(_counter(log.root), str(now.done))),
    )


def _counter(directory: Path) -> Path:
    """Attempts that are made, for the process that shows them; beside the run, since that asks before it is there."""
    return directory.with_suffix(directory.suffix + ".count")
