"""The tiny recipe's measurements: a model on the held-out (or validation) world, as `sanderling eval run` measures.

Every stage answers the same questions with the same seeds and the sampling of the profile; each measurement is a run's
directory, which `sanderling eval report`, `judge` and `export` open. Knows no training.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import Counting, Rollout, rollout_of
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.policy.contract import Policy
from sanderling.recipes.tiny.layout import Layout, WorldPlan
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report
from sanderling.tools.contract import Tool
from sanderling.tools.world_tools import world_tools
from sanderling.train.parallel.workers import Task, run_tasks
from sanderling.world.contract import World

JUDGE = RuleJudge("exact", exact_match)


def agent_of(layout: Layout, policy: Policy, tools: Mapping[str, Tool], world: str, fingerprint: str = "") -> Agent:
    """A model as every stage lets it research."""
    return Agent(policy, tools, layout.profile, layout.clock(), world, fingerprint)


def agent_over(layout: Layout, policy: Policy, world: World) -> Agent:
    """The same in a world, with its tools."""
    return agent_of(layout, policy, world_tools(world, layout.profile), world.name, world.fingerprint)


def rollout_over(layout: Layout, policy: Policy, world: World, run_seed: int, journal: Journal | None = None) -> Rollout:
    """One attempt at one question, with everything else fixed."""
    return rollout_of(agent_over(layout, policy, world), run_seed, journal=journal)


def measure(layout: Layout, stage: str, model: Path, plan: WorldPlan, attempts: int, command: str) -> EvalResult:
    """Evaluate a model directory on a world's questions; resumes, amid an episode too, and does nothing when it was done."""
    from sanderling.policy.transformers_policy import TransformersPolicy

    log = run_of(layout, stage, plan)
    was = log.read()
    if was is not None and was.finished:
        return EvalResult.load(log.result_file)
    settings = layout.config.evaluation
    policy = TransformersPolicy.load(model, max_batch=settings.concurrency)
    file = layout.questions_file(plan.name)
    questions = read_questions(file)
    about = About(
        benchmark="world",
        split=plan.name,
        file=file.name,
        questions=len(questions),
        questions_sha256=sha256_of_questions(questions),
        seed=settings.seed,
    )
    counter = _counter(log)
    watch = Counting(len(questions) * attempts, lambda progress: replace_file(counter, str(progress.done)))
    agent = agent_over(layout, policy, layout.open_world(plan))
    pace = {"seed": settings.seed, "concurrency": settings.concurrency, "together": True}
    return evaluate(agent, questions, JUDGE, log.root, attempts=attempts, about=about, command=command, watch=watch, **pace)


def measure_all(
    layout: Layout, stages: dict[str, Path], plan: WorldPlan, attempts: int, command: str, report: Report
) -> dict[str, EvalResult]:
    """Measure several models at the same time, a process each."""
    count = len(read_questions(layout.questions_file(plan.name)))
    files = [_counter(run_of(layout, stage, plan)) for stage in stages]
    with report.task(f"Measure on {plan.name}", count * attempts * len(stages)) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(int(file.read_text() or 0) for file in files if file.is_file())
            advance(done - seen)
            seen = done

        tasks = [Task(measure, (layout, stage, model, plan, attempts, command)) for stage, model in stages.items()]
        return dict(zip(stages, run_tasks(tasks, layout.config.workers, poll), strict=True))


def run_of(layout: Layout, stage: str, plan: WorldPlan) -> RunLog:
    """The directory of a measurement."""
    return RunLog(layout.root / "evaluation" / f"{stage}.{plan.name}")


def _counter(log: RunLog) -> Path:
    """Beside it, since another process asks for it before it is there."""
    return log.root.with_suffix(log.root.suffix + ".count")


def figures(result: EvalResult) -> dict[str, Any]:
    """The short form for a stage's marker."""
    return {"pass_at_1": result.pass_at_1.value, "turns": result.mean_turns, "browse_share": result.browse.overall}
