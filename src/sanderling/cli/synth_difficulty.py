"""``sanderling synth difficulty``: how often an agent is right, and which questions that leaves. Thin.

The attempts are made as `data generate` makes them (`attempting`); the bands are `synth.difficulty`'s.
"""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sanderling.cli.asking import Cache, MaxCost, MaxTokens
from sanderling.cli.attempting import (
    MODEL_HELP,
    AgentPrice,
    Attempting,
    Budget,
    Concurrency,
    Each,
    ProfileName,
    Seed,
    WorldDirectory,
    generated,
)
from sanderling.cli.backend import Place, ReaderUrl, SearchUrl, Web
from sanderling.cli.eval_progress import ShowProgress
from sanderling.cli.judges import JudgePrices
from sanderling.cli.world_options import Faults as Dynamics
from sanderling.cli.world_options import Search, WorldSeed
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.data.importing import open_trajectories
from sanderling.data.questions import read_questions, require_distinct, write_questions
from sanderling.synth.difficulty import META, Band, BandSettings, Try, by_difficulty, try_of
from sanderling.world.dense.index import SearchMode


def difficulty(
    file: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="File of questions.")],
    out: Annotated[Path, typer.Option("--out", help="The questions that are kept; the other bands lie beside it.")],
    model: Annotated[
        str | None,
        typer.Option("--model", help=f"The agent: {MODEL_HELP}"),
    ] = None,
    made: Annotated[
        Path | None,
        typer.Option("--from", help="Attempts that were made and judged before (data generate), in place of a model."),
    ] = None,
    attempts: Each = 8,
    keep: Annotated[str, typer.Option("--keep", help="How many of them must be right: 1-7.")] = "1-7",
    judges: Annotated[
        list[str] | None, typer.Option("--judge", help="Who judges (see data generate); exact by default.")
    ] = None,
    world: WorldDirectory = None,
    profile: ProfileName = "tiny",
    seed: Seed = 0,
    concurrency: Concurrency = 8,
    price: AgentPrice = None,
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
    progress: ShowProgress = True,
) -> None:
    """Let an agent try every question several times, and keep those that are neither too easy nor too hard for it.

    Killed or stopped, the same command goes on; questions whose band is not told yet are in NAME.untold.jsonl.
    """
    if (model is None) == (made is None):
        raise UserError("Say who tries: an agent with --model, or attempts that were made before with --from.")
    if file.resolve() in (_path(out, band).resolve() for band in Band):
        raise UserError(f"{file} is read and written: choose another place for the output.")
    least, most = _kept(keep, attempts)
    settings = BandSettings(attempts=attempts, least_right=least, most_right=most)
    store = made or out.with_name(f"{out.stem}.attempts.jsonl")
    status = 0
    if model is not None:
        place = Place(world, web, search_url, reader_url, dynamics, world_seed, mode)
        budget = Budget(price, judge_price, max_tokens, max_cost, cache)
        attempting = Attempting(
            store, model, judges or ["exact"], place, profile, attempts, concurrency, budget, "measuring", progress=progress
        )
        try:
            generated(attempting, file, seed)
        except typer.Exit as stopped:
            status = stopped.exit_code
    _sort(file, store, out, settings)
    if status:
        raise typer.Exit(status)


def _kept(words: str, attempts: int) -> tuple[int, int]:
    """From ``1-7``. Raises UserError for anything else, and for what no number of attempts can be."""
    found = re.fullmatch(r"(\d{1,4})-(\d{1,4})", words.strip())
    if found is None or not int(found[1]) <= int(found[2]) <= attempts:
        raise UserError(
            f"--keep {words!r} is no range of right ones among {attempts} attempts: write 1-{max(attempts - 1, 1)}."
        )
    return int(found[1]), int(found[2])


def _path(out: Path, band: Band) -> Path:
    """Where a band's questions go."""
    return out if band is Band.KEPT else out.with_name(f"{out.stem}.{band.value}.jsonl")


def _sort(file: Path, store: Path, out: Path, settings: BandSettings) -> None:
    """Write every band to its file, and say how many there are."""
    trajectories = open_trajectories(store)
    questions = read_questions(file)
    require_distinct(questions)
    texts = {question.id: question.text for question in questions}
    agents: dict[str, None] = {}
    tries: dict[str, Try] = {}
    for trajectory in trajectories:
        asked = trajectory.question
        if texts.get(asked.id, asked.text) != asked.text:
            raise UserError(f"{store} holds attempts at another question {asked.id!r} than {file}: give those of this file.")
        if trajectory.model:
            agents[trajectory.model] = None
        tries[trajectory.id] = try_of(trajectory)  # of an attempt that was judged again, the last record counts
    bands, rates = by_difficulty(questions, tries.values(), settings, ", ".join(agents))
    for band, sorted_in in bands.items():
        write_questions(_path(out, band), sorted_in)
    table = Table("band", "questions", "file")
    for band, sorted_in in bands.items():
        table.add_row(band.value, f"{len(sorted_in):,}", visible(str(_path(out, band))))
    console = Console()
    console.print(table)
    told = ", ".join(f"{rate}: {count:,}" for rate, count in sorted(rates.items(), key=lambda item: _share(item[0])))
    console.print(f"right of scored: {told}", markup=False, soft_wrap=True)
    lengths = sorted({question.meta[META]["length"] for question in bands[Band.KEPT]})
    console.print(f"length bands of the kept: {', '.join(lengths) or 'none'}", markup=False, soft_wrap=True)


def _share(rate: str) -> tuple[float, str]:
    right, _, scored = rate.partition("/")
    return (int(right) / int(scored) if int(scored) else -1.0, rate)
