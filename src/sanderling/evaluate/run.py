"""A run of an evaluation: an agent's attempts at questions, logged, judged and figured.

    result = evaluate(agent, read_questions(path), "exact", Path("runs/mine"), attempts=4)
    print(result.pass_at_1.value, result.pass_at_k[4].interval)

The same call goes on with what the run's directory holds. `run_benchmark` does the same for a benchmark's file.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.agent.opening import AgentConfig, check_agent, journal_identity, opened_agent
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, check_all
from sanderling.core.record import Question
from sanderling.core.types import BudgetSpentError, placed
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import PAUSES, Attempts, Made, Watch, rollout_of
from sanderling.evaluate.benchmark_files import Loaded
from sanderling.evaluate.benchmarks import Benchmark, leaks
from sanderling.evaluate.judging import Judges, conclude, judge_again, with_book
from sanderling.evaluate.log import JUDGE, NO_GUARD, About, GuardFacts, RunLog, RunState, check_same_setup, sha256_of_questions
from sanderling.evaluate.result import EvalResult
from sanderling.judge.book import ByHand
from sanderling.judge.opening import JudgeConfig, check_judges, opened_judges
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import Judge
from sanderling.policy.budget import BudgetConfig, Spending, read_prices
from sanderling.runs.jsonl import JsonlLog
from sanderling.runs.progress import command_line
from sanderling.world.filters import read_blocklist
from sanderling.world.guard import Blocklist, Guard, GuardLine


async def run_evaluation(
    log: RunLog,
    state: RunState,
    questions: Sequence[Question],
    agent: Agent,
    judges: Judges,
    journal: Journal,
    *,
    concurrency: int = 8,
    pauses: Sequence[float] = PAUSES,
    unscored_limit: float = 0.02,
    together: bool = False,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts that are missing of a run that `RunLog.begin` began; when none is, write the result.

    Raises UserError as `Attempts` does, and for another agent or world than the run was begun with.
    """
    judge, began = judges.first, time.monotonic()
    if judge is None:
        raise UserError("No judge is named: give --judge.")
    setup = {**agent.as_json(), JUDGE: placed(judge.name, judge.places)}
    check_same_setup(log.run, setup, log.episodes(), log.root)
    state = state.model_copy(update={"unscored_limit": unscored_limit})
    log.write_state(state, questions)
    rollout = rollout_of(agent, state.about.seed, journal=journal, cancel=cancel)
    how: dict[str, Any] = {"pauses": pauses, "on_stored": journal.stored, "watch": watch, "cancel": cancel}
    attempts = Attempts(questions, state.attempts, state.about.seed, rollout, judge, log, together, **how)
    made = await attempts.make(concurrency)
    if made.stopped:
        return made
    episodes = [made.episodes[one.id, attempt] for one in questions for attempt in range(state.attempts)]
    took = {"seconds": time.monotonic() - began, "resumed": made.resumed}
    pace: dict[str, Any] = {"concurrency": concurrency, "pauses": pauses}
    pace["on_judged"] = watch and (lambda count: watch((), f"{count:,} judged"))
    try:
        await conclude(log, state, episodes, judges, **took, **pace)
    except BudgetSpentError as error:
        return replace(made, stopped=str(error))
    log.finish(state)
    correct = {one.key: one.correct for one in log.verdicts()}  # a person's word may stand before the judge's
    return replace(made, episodes={key: replace(one, correct=correct[key]) for key, one in made.episodes.items()})


def evaluate(
    agent: Agent, questions: Sequence[Question], judge: Judge | str = "exact", out: Path | None = None, **settings: Any
) -> EvalResult:
    """An agent's figures on questions, for other programs; ``settings`` are keywords of :func:`evaluate_async`.

    Example: ``evaluate(agent, questions, "exact", Path("runs/mine"), attempts=4).pass_at_k[4].interval``
    """
    return asyncio.run(evaluate_async(agent, questions, judge, out, **settings))


async def evaluate_async(
    agent: Agent,
    questions: Sequence[Question] | str | Path,
    judge: Judge | str = "exact",
    out: Path | None = None,
    *,
    attempts: int = 1,
    seed: int = 0,
    weights: str = "",
    command: str | None = None,
    about: About | None = None,
    **how: Any,
) -> EvalResult:
    """Evaluate an agent, or go on with what the run's directory ``out`` already holds.

    ``questions``: they, or their file. ``judge``: one, or the name of a rule. ``out`` None: nothing is kept. ``weights`` tells
    the model from others of its name. ``how``: keywords of :func:`run_evaluation`. A finished run repeats nothing but attempts
    that met outages. Raises UserError also when a budget was spent before every attempt was made: figures over a part would
    mislead.
    """
    if isinstance(questions, str | Path):
        questions = read_questions(Path(questions))
    about = about or About(benchmark="", questions=len(questions), questions_sha256=sha256_of_questions(questions), seed=seed)
    with ExitStack() as stack:
        log = RunLog(out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sanderling-"))))
        stack.enter_context(log.exclusive())
        journal = stack.enter_context(Journal(log.root, weights))
        state = log.begin(about, questions, attempts, command or command_line())
        judges = with_book(log, rule_judge(judge) if isinstance(judge, str) else judge, None, ByHand())
        made = await run_evaluation(log, state, questions, agent, judges, journal, **how)
        if made.stopped:
            raise UserError(f"{made.stopped} What is done is kept, and the next run goes on.")
        return EvalResult.load(log.result_file)


# Benchmarks ---------------------------------------------------------------------------------------------------------------


class EvalConfig(Frozen):
    """Settings of ``sanderling eval run``."""

    agent: AgentConfig = AgentConfig()
    judging: JudgeConfig = JudgeConfig()
    """Without a judge the publisher's own rule, where it is one."""
    budget: BudgetConfig = BudgetConfig()
    attempts: int = Field(default=1, ge=1)
    """Attempts at each question."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many questions."""
    sample_seed: int | None = None
    """With ``limit``: a random sample by this seed instead."""
    split: str = ""
    """Split of the file, if its name does not say it."""
    columns: str = ""
    """Names of columns: ``question=Prompt,answer=Gold``."""
    canary: str = ""
    """Key of an encrypted file that does not hold its own canary."""
    unscored_limit: float = Field(default=0.02, ge=0.0, le=1.0)
    """Above this share of unscored attempts the run is invalid."""
    guard: bool = True
    """Hide known leak sites, and pages that quote the question."""
    blocklist: tuple[Path, ...] = ()
    """More sites to hide: files with a host, URL or ``*/path`` on each line."""


def check_run(config: EvalConfig, benchmark: Benchmark, questions: Sequence[Question]) -> None:
    """Raises UserError, which tells all that is wrong with model, profile, worlds and judges."""
    check_all(lambda: check_agent(config.agent, questions), lambda: check_judges(judges_or_own(benchmark, config.judging)))


async def run_benchmark(
    benchmark: Benchmark,
    loaded: Loaded,
    config: EvalConfig,
    log: RunLog,
    spending: Spending,
    *,
    command: str,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Let an agent try a benchmark's questions, or go on with it; of a run that is done ``log.result_file`` has the figures.

    Raises UserError.
    """
    agent_config, concurrency = config.agent, config.agent.concurrency
    facts, guard = guard_of(benchmark, loaded, config, log.guard_file)
    about, questions = prepare(loaded, config, facts)
    judging = judges_or_own(benchmark, config.judging)
    check_run(config, benchmark, questions)  # what is wrong is told before anything is written down, or a model is loaded
    prices = read_prices([agent_config.price], 1)[0] if agent_config.price else None
    state = log.begin(about, questions, config.attempts, command, prices)
    async with AsyncExitStack() as stack:
        opening = opened_agent(agent_config, questions, guard=guard, private=about.private, spending=spending)
        agent = await stack.enter_async_context(opening)
        journal = stack.enter_context(Journal(log.root, journal_identity(agent_config, agent)))
        judges = opened_judges(judging, spending, prompt=benchmark.form, concurrency=concurrency)
        first, second = await stack.enter_async_context(judges)
        how = {"concurrency": concurrency, "unscored_limit": config.unscored_limit}
        chosen = with_book(log, first, second, log.by_hand())
        return await run_evaluation(log, state, questions, agent, chosen, journal, **how, watch=watch, cancel=cancel)


def guard_of(benchmark: Benchmark, loaded: Loaded, config: EvalConfig, log: Path) -> tuple[GuardFacts, Guard | None]:
    """What hides the known leaks, further blocklists and, where a page with the question is one, such pages; None: nothing.

    It writes into a log. Raises UserError for a blocklist that is none.
    """
    if not config.guard:
        if config.blocklist:
            raise UserError("blocklist adds to the guard, and guard=false switches it off: leave one of them out.")
        return NO_GUARD, None
    blocklist, lines = Blocklist.parse(leaks()), JsonlLog(log, durable=False)  # a loss of power may take the last lines
    for file in config.blocklist:
        if not file.is_file():
            raise UserError(f"There is no blocklist at {file}: check the path.")
        blocklist |= read_blocklist(file) or Blocklist()

    def write(line: GuardLine) -> None:
        lines.append(line.model_dump(mode="json"))

    texts = {question.id: question.text for question in loaded.questions} if benchmark.verbatim else {}
    guard = Guard(blocklist, texts, loaded.canaries, write)
    return GuardFacts(on=True, verbatim=bool(texts), fingerprint=guard.fingerprint), guard


class RejudgeConfig(Frozen):
    """Settings of ``sanderling eval judge``."""

    judging: JudgeConfig = JudgeConfig()
    """Without a judge, what whoever judged before has said."""
    budget: BudgetConfig = BudgetConfig()
    concurrency: int = Field(default=8, ge=1)
    """Requests to models at the same time."""
    unscored_limit: float | None = Field(default=None, ge=0.0, le=1.0)
    """Above this share of unscored attempts the run is invalid; by default as before (at first 0.02)."""


async def rejudge(
    log: RunLog,
    benchmark: Benchmark | None,
    config: RejudgeConfig,
    spending: Spending,
    by_hand: ByHand,
    *,
    anew: bool,
    command: str,
    on_judged: Callable[[int], None] | None = None,
) -> EvalResult:
    """A finished run's figures by the judges that are named, or by whoever judged before; ``anew`` as in `with_book`.

    Raises UserError, and BudgetSpentError before anything is written.
    """
    prompt, concurrency = benchmark.form if benchmark else "", config.concurrency
    async with opened_judges(config.judging, spending, prompt=prompt, concurrency=concurrency) as (first, second):
        judges = with_book(log, first, second, by_hand, anew=anew)
        return await judge_again(log, judges, command, config.unscored_limit, concurrency=concurrency, on_judged=on_judged)


def prepare(loaded: Loaded, config: EvalConfig, guard: GuardFacts = NO_GUARD) -> tuple[About, list[Question]]:
    """What a run on a benchmark's file measures, and the questions chosen. Raises UserError."""
    chosen, how_chosen = chosen_of(loaded.questions, config)
    about = {"chosen": how_chosen, "questions": len(chosen), "questions_sha256": sha256_of_questions(chosen)}
    return About(**loaded.facts, **about, seed=config.agent.seed, guard=guard), chosen


def judges_or_own(benchmark: Benchmark | None, judging: JudgeConfig) -> JudgeConfig:
    """The judges that somebody named, else the publisher's own rule. Raises UserError where there is none.

    A figure by a judge that nobody chose would mislead, so there is no other default.
    """
    if judging.judges:
        return judging
    if benchmark is None or benchmark.key == "jsonl":  # which stands for any file
        raise UserError("Without a benchmark nothing says who judges: name a rule or a model with --judge.")
    if not benchmark.own_rule:
        raise UserError(
            f"{benchmark.title} is scored by a model (its publisher's: {benchmark.published_judge}): name one with --judge, "
            "or a rule, and say so beside the figure."
        )
    return judging.model_copy(update={"judges": (benchmark.own_rule,)})


def chosen_of(questions: Sequence[Question], config: EvalConfig) -> tuple[list[Question], str]:
    """Those that are asked, and how they were chosen: of all, or of those with an answer where some have none."""
    chosen, how = _chosen(questions, config.limit, config.sample_seed)
    if all(question.answers for question in chosen):
        return chosen, how
    answered = [question for question in questions if question.answers]
    if not answered:
        raise UserError(f"None of the {len(questions):,} questions has an accepted answer: nothing can be scored.")
    chosen, how = _chosen(answered, config.limit, config.sample_seed)
    return chosen, f"{how} with an answer"


def _chosen(questions: Sequence[Question], limit: int | None, sample_seed: int | None) -> tuple[list[Question], str]:
    """Some of the questions, in the file's order, and how they were chosen. Raises UserError."""
    if limit is None and sample_seed is not None:
        raise UserError("sample_seed draws a sample: say with limit how large it is.")
    if limit is None or limit >= len(questions):
        return list(questions), "all"
    if sample_seed is None:
        return list(questions[:limit]), f"first {limit}"
    places = sorted(random.Random(sample_seed).sample(range(len(questions)), limit))
    return [questions[place] for place in places], f"{limit} by seed {sample_seed}"
