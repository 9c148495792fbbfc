"""What the commands of ``synth`` share that work item by item with models: options, progress, report. Thin."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from sanderling.cli import exits
from sanderling.cli.asking import PRICE_HELP, Spending, opened_askers, spent_line
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.text import visible
from sanderling.data.questions import read_questions
from sanderling.synth.pages import MakingReport
from sanderling.synth.prompt import Models

Report = TypeVar("Report")

World = Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")]
Out = Annotated[Path, typer.Option("--out", help="File of questions to write (JSON lines); a log of the work lies beside it.")]
ModelSpecs = Annotated[
    list[str],
    typer.Option(
        "--model", help="Who writes: http://host:port/v1#model or a model's directory. Several stand in for one another."
    ),
]
JudgeModels = Annotated[
    list[str] | None, typer.Option("--judge-model", help="Who judges what was written; the writers themselves by default.")
]
Prices = Annotated[list[str] | None, typer.Option("--price", help=f"What a writing model costs {PRICE_HELP}")]
ModelPrices = Annotated[list[str] | None, typer.Option("--price", help=f"What a model costs {PRICE_HELP}")]
JudgePrices = Annotated[list[str] | None, typer.Option("--judge-price", help=f"What a judging model costs {PRICE_HELP}")]
Pages = Annotated[int, typer.Option("--pages", min=1, help="How many pages to begin from, drawn by the seed.")]
Added = Annotated[bool, typer.Option("--added", help="Draw from the pages of the world's last addition alone.")]
Seed = Annotated[int, typer.Option("--seed", help="Draws the pages; a longer draw begins with the shorter one.")]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Pages worked on at the same time.")]


@dataclass(frozen=True)
class ModelChoice:
    """The options that name models."""

    writers: list[str]
    judges: list[str] | None
    prices: list[str] | None
    judge_prices: list[str] | None

    @asynccontextmanager
    async def opened(self, spending: Spending, *, concurrency: int, console: Console) -> AsyncIterator[Models]:
        """Writers and judges on one ledger. Raises UserError."""
        if not self.writers:
            raise UserError("Nobody is there to write: give --model http://host:port/v1#model.")
        async with (
            opened_askers(self.writers, self.prices, spending, concurrency=concurrency, console=console) as writing,
            opened_askers(self.judges, self.judge_prices, spending, concurrency=concurrency, console=console) as judging,
        ):
            yield Models(writing, judging or writing)


@contextmanager
def page_progress(console: Console, total: int) -> Iterator["PageProgress"]:
    """A bar over pages."""
    with work_bar(console) as bar:
        yield PageProgress(bar, total)


def work_bar(console: Console) -> Progress:
    """A bar over items, and the time that is left."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)


def asked_questions(file: Path) -> list[Question]:
    """The questions of a file. Raises UserError when there are none."""
    questions = read_questions(file)
    if not questions:
        raise UserError(f"{file} holds no question: give a file with at least one.")
    return questions


def run_work(work: Coroutine[Any, Any, Report], console: Console, kept: str = "pages that are done are kept") -> Report:
    """Run it to its end; Ctrl-C says how to go on, and exits with 130."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        console.print(f"Stopped. The same command goes on: {kept}.")
        raise typer.Exit(exits.INTERRUPTED) from None


def tell_open(console: Console, stopped: str, outages: int, waiting: str) -> None:
    """What is still to be done, and exit status 3 for it; ``waiting`` says what outages are, after their number."""
    if stopped:
        console.print(f"Stopped: {visible(stopped)} The same command with a larger limit goes on.", markup=False)
    if outages:
        console.print(f"{outages:,} {waiting}: the same command goes on with them.", markup=False)
    if stopped or outages:
        raise typer.Exit(exits.UNFINISHED)


class PageProgress:
    """Shows a report while it grows."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("making questions", total=total)

    def __call__(self, report: MakingReport) -> None:
        rejected = report.rejected.total()
        told = f"{report.kept:,} kept, {rejected:,} rejected"
        self._bar.update(self._task, completed=report.pages, description=told)


def tell(report: MakingReport, spending: Spending, out: Path) -> None:
    """The report as a table; exit status 3 where something is still to be done."""
    console = Console(highlight=False, soft_wrap=True)
    table = Table("rejected because", "count", "first")
    for reason, count in report.rejected.most_common():
        table.add_row(escape(visible(reason)), f"{count:,}", escape(visible(report.examples.get(reason, ""))[:160]))
    if report.rejected:
        Console().print(table)
    for name, count in sorted(report.figures.items()):
        console.print(f"{name}: {count:,}", markup=False)
    console.print(f"{report.kept:,} questions of {report.pages:,} pages in {visible(str(out))}", markup=False)
    console.print(spent_line(spending), markup=False)
    tell_open(console, report.stopped, report.outages, "pages met no model")
