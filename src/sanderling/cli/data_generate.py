"""``sanderling data generate``: a teacher's trajectories over questions. Thin: `synth.generate` makes them.

Exit status: 0 when every attempt is made, 3 when a budget was spent or attempts met outages, 130 after Ctrl-C. The first Ctrl-C
stops the episodes under way and keeps their turns; a second one interrupts at once.
"""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from sanderling.agent.journal import Journal
from sanderling.cli import exits
from sanderling.cli.ask import stop_on_interrupt
from sanderling.cli.asking import PRICE_HELP, Cache, MaxCost, MaxTokens, Spending, spent_line
from sanderling.cli.backend import Backend, Place, ReaderUrl, SearchUrl, Web
from sanderling.cli.judges import JudgePrices, JudgeSpecs, opened_judge
from sanderling.cli.watch import show_retry
from sanderling.cli.world_dynamics import Dynamics, WorldSeed
from sanderling.cli.world_embed import Search
from sanderling.errors import UserError
from sanderling.evaluate.attempts import Made, Progress
from sanderling.policy.contract import Policy
from sanderling.policy.ledger import Prices
from sanderling.protocol.clock import SystemClock
from sanderling.protocol.profile import Profile
from sanderling.protocol.profiles import PROFILES, get_profile
from sanderling.synth.generate import Teaching, generate
from sanderling.synth.teacher import ModeShares, TeacherPolicy
from sanderling.terminal import visible
from sanderling.trajectory.jsonl import TrajectoryStore
from sanderling.trajectory.questions import read_questions
from sanderling.trajectory.record import Question
from sanderling.world.dense.opening import SearchMode
from sanderling.world.encyclopedia import generate_encyclopedia
from sanderling.world.sources.encyclopedia import EncyclopediaSource

_SCRIPTED = "teacher:"


def generate_(
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="A file of questions with their answers (.jsonl).")],
    out: Annotated[Path, typer.Option("--out", help="The store of trajectories (.jsonl); the same one goes on.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The teacher: http://host:port/v1#model, a model's directory, or teacher:SIZE/SEED for the questions of "
            "encyclopedia:SIZE/SEED.",
        ),
    ],
    judges: JudgeSpecs,
    world: Annotated[Path | None, typer.Option("--world", help="Directory of a world; or --web.")] = None,
    profile: Annotated[str, typer.Option("--profile", help=f"Prompt, tools and budgets: {', '.join(PROFILES)}.")] = "tiny",
    attempts: Annotated[int, typer.Option("--attempts", min=1, help="Attempts at each question.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal episodes.")] = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Episodes at the same time.")] = 8,
    price: Annotated[str | None, typer.Option("--price", help=f"What the teacher costs {PRICE_HELP}")] = None,
    judge_price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
    web: Web = False,
    search_url: SearchUrl = None,
    reader_url: ReaderUrl = None,
) -> None:
    """Let a teacher research questions, several times each, and keep every judged trajectory.

    Killed, stopped or out of budget, the same command goes on and repeats nothing, unfinished episodes included.
    """
    from sanderling.policy.load import open_policy, weights_of
    from sanderling.policy.metered import MeteredPolicy, Till

    chosen = get_profile(profile)
    asked = read_questions(questions)
    if out.suffix != ".jsonl":
        raise UserError(f"{out} is no .jsonl file: trajectories are added to it one by one, so end its name in that.")
    backend = Place(world, web, search_url, reader_url, dynamics, world_seed, mode).open(chosen)
    TrajectoryStore(out).prepare()
    spending = Spending(out, max_tokens, max_cost, cache)
    console = Console(stderr=True)
    scripted = model.startswith(_SCRIPTED)
    policy = _teacher(model, asked) if scripted else open_policy(model, on_retry=partial(show_retry, console))
    (cost,) = [Prices()] if scripted else spending.prices([price] if price else [], 1)
    paid = MeteredPolicy(policy, Till(spending.ledger, cost))
    about = f"{model if scripted else weights_of(model)} over {backend.fingerprint}"
    with Journal(out.with_name(out.name + ".journal"), about) as journal:
        job = _run(
            asked, attempts, paid, policy, backend, chosen, (judges, judge_price or []), out, spending, journal,
            seed=seed, concurrency=concurrency, console=console,
        )  # fmt: skip
        made = asyncio.run(job)
    _tell(made, len(asked) * attempts, out, spending)


def _teacher(spec: str, questions: list[Question]) -> Policy:
    """The scripted teacher of a generated encyclopedia. Raises UserError."""
    source = EncyclopediaSource.parse(spec.removeprefix(_SCRIPTED))
    world = generate_encyclopedia(source.size, source.seed)
    return TeacherPolicy(world, {question.id: question for question in questions}, ModeShares())


async def _run(
    questions: list[Question],
    attempts: int,
    paid: Policy,
    policy: Policy,
    backend: Backend,
    profile: Profile,
    judging: tuple[list[str], list[str]],
    out: Path,
    spending: Spending,
    journal: Journal,
    *,
    seed: int,
    concurrency: int,
    console: Console,
) -> Made:
    """Open what is left to open, run, and close it all whatever happens."""
    from sanderling.policy.load import close_policy

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        async with opened_judge(*judging, spending, concurrency=concurrency, console=console) as judge:
            with Bar(*columns, console=console) as bar, stop_on_interrupt() as stop:
                task = bar.add_task("generating", total=len(questions) * attempts)

                def show(progress: Progress) -> None:
                    text = f"{progress.correct:,} of {progress.scored:,} correct, cost {spending.ledger.spent.cost:.4g}"
                    bar.update(task, completed=progress.done, description=text)

                return await generate(
                    questions,
                    attempts,
                    Teaching(paid, backend.tools(None), profile, SystemClock(), backend.name),
                    judge,
                    out,
                    journal=journal,
                    seed=seed,
                    concurrency=concurrency,
                    on_progress=show,
                    cancel=stop,
                )
    finally:
        await close_policy(policy)
        await backend.close()


def _tell(made: Made, total: int, out: Path, spending: Spending) -> None:
    console = Console(highlight=False, soft_wrap=True)
    correct = [episode.correct for episode in made.episodes.values()]
    console.print(
        f"{len(correct):,} of {total:,} attempts in {visible(str(out))} ({made.resumed:,} from earlier runs): "
        f"{correct.count(True):,} correct, {correct.count(False):,} incorrect, {correct.count(None):,} unscored",
        markup=False,
    )
    endings = Counter(episode.ending for episode in made.episodes.values())
    for ending, count in endings.most_common():
        console.print(f"  {ending.value}: {count:,}", markup=False)
    console.print(spent_line(spending), markup=False)
    if made.stopped:
        console.print(f"{made.stopped} The same command goes on where this one stopped.", markup=False)
        raise typer.Exit(exits.INTERRUPTED if made.cancelled else exits.UNFINISHED)
    if None in correct:
        console.print("Run the same command again: it tries the unscored attempts once more, and repeats nothing else.")
        raise typer.Exit(exits.UNFINISHED)
