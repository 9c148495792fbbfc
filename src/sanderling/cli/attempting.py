"""What commands share that let an agent attempt questions: options, what they open, what is told. Thin.

The first Ctrl-C stops the episodes under way and keeps their turns; a second one interrupts at once.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.agent.opening import AgentConfig, profile_of, stop_on_interrupt
from sanderling.cli import exits
from sanderling.cli.asking import PRICE_HELP, Spending, spent_line
from sanderling.cli.backend import Backend, Place, closing
from sanderling.cli.eval_progress import Shown, showing
from sanderling.cli.extractor import ExtractorChoice, opened_extractor
from sanderling.cli.judges import opened_judges, required
from sanderling.cli.watch import show_retry
from sanderling.core.asking import placed
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, TINY
from sanderling.core.record import Question
from sanderling.core.text import visible
from sanderling.core.types import SystemClock
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import Made, Watch
from sanderling.evaluate.live import Live
from sanderling.judge.prompts import DEFAULT_PROMPT
from sanderling.judge.verdict import Judge
from sanderling.policy.budget import Prices
from sanderling.policy.budget import Spending as Account
from sanderling.policy.contract import Policy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import beside
from sanderling.synth.generate import GenerateConfig, generate_file
from sanderling.synth.teacher import ModeShares, TeacherPolicy
from sanderling.tools.page_reader import PageReader
from sanderling.world.encyclopedia import generate_encyclopedia
from sanderling.world.guard import Guard
from sanderling.world.sources.kinds import EncyclopediaSource

AnySpending = Spending | Account
_SCRIPTED = "teacher:"
MODEL_HELP = "http://host:port/v1#model, a model's directory, or teacher:SIZE/SEED for the questions of encyclopedia:SIZE/SEED."

WorldDirectory = Annotated[Path | None, typer.Option("--world", help="Directory of a world; or --web.")]
ProfileName = Annotated[str, typer.Option("--profile", help=f"Prompt, tools and budgets: {', '.join(PROFILES)}.")]
Each = Annotated[int, typer.Option("--attempts", min=1, help="Attempts at each question.")]
Seed = Annotated[int, typer.Option("--seed", help="Equal seeds give equal episodes.")]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Episodes at the same time.")]
AgentPrice = Annotated[str | None, typer.Option("--price", help=f"What the agent costs {PRICE_HELP}")]


@dataclass(frozen=True)
class Budget:
    """The options of what may be spent, and where replies are kept."""

    price: str | None
    judge_price: list[str] | None
    max_tokens: int | None
    max_cost: float | None
    cache: Path | None
    private: bool = False
    """They are kept for their owner alone."""


@dataclass(frozen=True)
class Given:
    """What making attempts needs, opened."""

    agent: Agent
    judge: Judge
    second: Judge | None
    journal: Journal
    watch: Watch | None
    cancel: asyncio.Event


@dataclass(frozen=True)
class Attempting:
    """The options that every such command has."""

    out: Path
    """The store of trajectories, or the directory of a run."""
    model: str
    judges: list[str]
    place: Place
    profile: str
    attempts: int
    concurrency: int
    budget: Budget
    about: str = "generating"
    """What the progress view calls it."""
    guard: Guard | None = None
    """Hides what gives a question away."""
    form: str = DEFAULT_PROMPT
    """How a judging model is asked."""
    second: tuple[str, ...] = ()
    """Judges to compare with; they decide nothing."""
    reader: ExtractorChoice | None = None
    """A model that reads pages for the agent."""
    max_turns: int | None = None
    max_context: int | None = None
    """Instead of the profile's."""
    progress: bool = True
    run: Path | None = None
    """The run's directory; None: beside the store."""

    def made(self, asked: Sequence[Question], make: Callable[[Given], Awaitable[Made]]) -> tuple[Made, Spending]:
        """Open everything, let ``make`` make the attempts, close everything. Raises UserError."""
        from sanderling.policy.budget import MeteredPolicy
        from sanderling.policy.load import open_policy, place_of, weights_of

        profile = profile_of(
            AgentConfig(model=self.model, profile=self.profile, max_turns=self.max_turns, max_context=self.max_context)
        )
        if self.run is None and self.out.suffix != ".jsonl":
            raise UserError(f"{self.out} is no .jsonl file: trajectories are added to it one by one, so end its name in that.")
        backend = self.place.open(profile, self.guard)
        if self.run is None:
            TrajectoryStore(self.out).prepare()
        budget = self.budget
        spending = Spending(self.run or beside(self.out), budget.max_tokens, budget.max_cost, budget.cache, budget.private)
        console = Console(stderr=True)
        live = Live(len(asked) * self.attempts, self.concurrency, time.monotonic) if self.progress else None
        on_retry = partial(show_retry, console) if live is None else live.warned
        scripted = self.model.startswith(_SCRIPTED)
        policy = _teacher(self.model, asked) if scripted else open_policy(self.model, on_retry=on_retry)
        (cost,) = [Prices()] if scripted else spending.prices([self.budget.price] if self.budget.price else [], 1)
        agent = Agent(
            MeteredPolicy(policy, spending.ledger, cost),
            backend.tools(None),
            profile,
            SystemClock(),
            backend.name,
            backend.fingerprint,
            self.model if scripted else place_of(self.model),
        )
        about = f"{self.model if scripted else weights_of(self.model)} over {backend.fingerprint}"
        about += f" read by {self.reader.spec}" if self.reader else ""
        with spending.alone(), Journal(spending.run, about) as journal:
            work = self._make(live, agent, backend, spending, journal, console, make)
            try:
                made = asyncio.run(closing(work, policy, backend))
            except KeyboardInterrupt:
                console.print("Interrupted. What is stored stays; the same command goes on, at the turns that it had reached.")
                raise
        return made, spending

    async def _make(
        self,
        live: Live | None,
        agent: Agent,
        backend: Backend,
        spending: Spending,
        journal: Journal,
        console: Console,
        make: Callable[[Given], Awaitable[Made]],
    ) -> Made:
        """Open the reader and the judge, and run."""
        opening = opened_judges(
            self.judges,
            self.second,
            self.budget.judge_price,
            spending,
            concurrency=self.concurrency,
            console=console,
            form=self.form,
            on_retry=live and live.warned,
        )
        async with opened_extractor(self.reader, console) as extractor, opening as (judge, second):
            agent = _read_by(self.reader, agent, backend, extractor)
            with stop_on_interrupt() as stop:
                given = Given(agent, required(judge), second, journal, live, stop)
                if live is None:
                    return await make(given)
                async with showing(Shown(live, self.about, lambda: spending.ledger.spent.cost), console, stop):
                    return await make(given)


def _read_by(choice: ExtractorChoice | None, agent: Agent, backend: Backend, extractor: PageReader | None) -> Agent:
    """The agent with a model that reads its pages; its attempts go on with that model alone."""
    from sanderling.policy.load import place_of

    if choice is None:
        return agent
    reader = placed(f"{choice.spec.rpartition('#')[2]}, {choice.on_outage.value}", [place_of(choice.spec)])
    return replace(agent, tools=backend.tools(extractor), reader=reader)


def profile_for(name: str | None, model: str) -> str:
    """The profile that was named, else the one of models in this process. Raises UserError for an endpoint without one."""
    from sanderling.policy.load import is_endpoint

    if name is None and is_endpoint(model):
        raise UserError(f"Name the profile that {model} was trained with: --profile with one of {', '.join(PROFILES)}.")
    return name or TINY.name


def live_run(
    attempts: int,
    concurrency: int,
    about: str,
    spending: AnySpending,
    work: Callable[[Watch | None, asyncio.Event, Callable[[str], None]], Awaitable[Made]],
    *,
    progress: bool = True,
) -> Made:
    """Let ``work`` make so many attempts under a live view: it gets what watches, what stops it, and who hears of retries."""
    console = Console(stderr=True)
    live = Live(attempts, concurrency, time.monotonic) if progress else None

    async def run() -> Made:
        with stop_on_interrupt() as stop:
            if live is None:
                return await work(None, stop, partial(show_retry, console))
            async with showing(Shown(live, about, lambda: spending.ledger.spent.cost), console, stop):
                return await work(live, stop, live.warned)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        console.print("Interrupted. What is stored stays; the same command goes on, at the turns that it had reached.")
        raise


def generated(config: GenerateConfig, about: str, *, progress: bool) -> int:
    """Make the attempts of ``data generate`` and say what came of it; the exit status that is then due. Raises UserError."""
    total = len(read_questions(config.questions)) * config.attempts
    spending = Account(beside(config.out), config.budget)
    made = live_run(
        total,
        config.agent.concurrency,
        about,
        spending,
        lambda watch, cancel, on_retry: generate_file(config, spending, watch=watch, cancel=cancel, on_retry=on_retry),
        progress=progress,
    )
    console = Console(highlight=False, soft_wrap=True)
    tell_attempts(console, made, total, config.out, spending)
    try:
        end_unfinished(console, made)
    except typer.Exit as unfinished:
        return unfinished.exit_code
    return 0


def _teacher(spec: str, questions: Sequence[Question]) -> Policy:
    """The scripted teacher of a generated encyclopedia. Raises UserError."""
    source = EncyclopediaSource(spec.removeprefix(_SCRIPTED))
    world = generate_encyclopedia(source.size, source.seed)
    return TeacherPolicy(world, {question.id: question for question in questions}, ModeShares())


def tell_attempts(console: Console, made: Made, total: int, out: Path, spending: AnySpending) -> None:
    """How many attempts there are, how they ended, and what they took."""
    correct = [episode.correct for episode in made.episodes.values()]
    console.print(
        f"{len(correct):,} of {total:,} attempts in {visible(str(out))} ({made.resumed:,} from earlier runs): "
        f"{correct.count(True):,} correct, {correct.count(False):,} incorrect, {correct.count(None):,} unscored",
        markup=False,
    )
    endings = Counter(episode.ending for episode in made.episodes.values())
    for ending, count in endings.most_common():
        console.print(f"  {ending.value if ending else 'not recorded'}: {count:,}", markup=False)
    console.print(spent_line(spending) if isinstance(spending, Spending) else str(spending), markup=False)


def end_unfinished(console: Console, made: Made) -> None:
    """Say how to go on, and exit, where attempts are missing or met outages."""
    correct = [episode.correct for episode in made.episodes.values()]
    if made.stopped:
        console.print(f"{made.stopped} The same command goes on where this one stopped.", markup=False)
        raise typer.Exit(exits.INTERRUPTED if made.cancelled else exits.UNFINISHED)
    if None in correct:
        console.print("Run the same command again: it tries the unscored attempts once more, and repeats nothing else.")
        raise typer.Exit(exits.UNFINISHED)
