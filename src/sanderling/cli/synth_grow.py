"""``sanderling synth grow``: a world takes in what its questions' searches find. Thin: `synth.growing` does it."""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending, opened_askers, spent_line
from sanderling.cli.backend import ReaderUrl, SearchUrl, Web
from sanderling.cli.synth_making import ModelPrices, asked_questions, run_work, tell_open, work_bar
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.synth.grow import Finder, GrowthReport, GrowthSettings, WorldFinder
from sanderling.synth.grow import grow as grow_world
from sanderling.world.disk.store import open_world


def grow(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of the world that grows.")],
    file: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="File of the questions that are searched for.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Directory of the world that is searched, such as a far larger one; or --web.")
    ] = None,
    web: Web = False,
    search_url: SearchUrl = None,
    reader_url: ReaderUrl = None,
    results: Annotated[int, typer.Option("--results", min=1, help="Pages opened of each query's results, at most.")] = 20,
    least_chars: Annotated[int, typer.Option("--least-chars", min=0, help="Shorter pages are left out.")] = 1_000,
    models: Annotated[
        list[str] | None, typer.Option("--model", help="Who proposes further queries beside the question itself.")
    ] = None,
    queries: Annotated[int, typer.Option("--queries", min=0, help="How many of them, at most.")] = 4,
    log: Annotated[
        Path | None, typer.Option("--log", help="Where what was found is kept; a directory; QUESTIONS.growth by default.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Questions searched for at the same time.")] = 8,
    price: ModelPrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
) -> None:
    """Search for every question, and add the pages that are new to the world; the next questions can be made of them.

    Killed or stopped, the same command goes on, and searches for nothing twice.
    """
    if web == (source is not None):
        raise UserError("Name one place to search: a world with --from DIRECTORY, or the live web with --web.")
    if source is not None and source.resolve() == directory.resolve():
        raise UserError("A world cannot grow out of itself: name another one with --from, or the live web with --web.")
    questions = asked_questions(file)
    place = log or file.with_name(f"{file.name}.growth")
    settings = GrowthSettings(results=results, queries=queries, least_chars=least_chars)
    spending = Spending(place, max_tokens, max_cost, cache)
    console = Console(stderr=True)

    async def run() -> GrowthReport:
        async with AsyncExitStack() as stack:
            opening = opened_askers(models, price, spending, concurrency=concurrency, console=console)
            askers = await stack.enter_async_context(opening)
            finder = await _finder(stack, source, search_url, reader_url)
            bar = stack.enter_context(work_bar(console))
            task = bar.add_task("searching", total=len(questions))
            return await grow_world(
                directory, questions, finder, settings, place,
                askers=askers, concurrency=concurrency, on_question=lambda _: bar.advance(task),
            )  # fmt: skip

    _tell(run_work(run(), console, "what was found is kept"), spending, directory)


async def _finder(stack: AsyncExitStack, source: Path | None, search_url: str | None, reader_url: str | None) -> Finder:
    if source is not None:
        return WorldFinder(open_world(source))
    from sanderling.world.live import READER_URL, SEARCH_URL, LiveWeb, web_settings

    settings = web_settings(search_url or SEARCH_URL, reader_url or READER_URL, env=os.environ)
    return WorldFinder(await stack.enter_async_context(LiveWeb(settings)))


def _tell(report: GrowthReport, spending: Spending, directory: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    left = ", ".join(f"{count:,} {reason}" for reason, count in report.left_out.most_common()) or "none"
    console.print(
        f"{report.queries:,} queries of {report.questions:,} questions found {report.pages:,} new pages", markup=False
    )
    console.print(f"found again by another question: {report.repeated:,}; left out: {left}", markup=False)
    console.print(f"{visible(str(directory))} took in {report.added:,} pages", markup=False)
    if spending.ledger.spent.calls:
        console.print(spent_line(spending), markup=False)
    tell_open(console, report.stopped, report.outages, "questions were not searched for")
