"""``sanderling world build from``: a world from files of any kind, several together. Thin: `world.sources` reads them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from sanderling.cli import exits
from sanderling.terminal import visible
from sanderling.world.manifest import WorldInfo
from sanderling.world.sources.contract import Limits
from sanderling.world.sources.gathering import FILE_NAME, Gathering
from sanderling.world.sources.registry import SOURCES, open_sources
from sanderling.world.store import build_world

_MEGABYTE = 2**20


def build_from(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...", help="Folders (HTML, Markdown, text, PDF), WARC, ZIM, Wikipedia dumps, JSON lines."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory of the new world; must not exist.")],
    base_url: Annotated[
        str, typer.Option(help="Address that the paths of folders, ZIM files and dumps stand below; local://NAME/ by default.")
    ] = "",
    kind: Annotated[str, typer.Option(help=f"Kind of every source, told by name otherwise: {', '.join(SOURCES)}.")] = "",
    name: Annotated[str, typer.Option(help="The world's name, as trajectories record it; the first source's by default.")] = "",
    largest: Annotated[int, typer.Option(min=1, help="Megabytes of one document; larger ones are left out.")] = 16,
) -> None:
    """Build a world from files: folders, archives, dumps, or several of these together."""
    limits = Limits(document_bytes=largest * _MEGABYTE)
    opened = open_sources(sources, kind, base_url, limits)
    gathering = Gathering(opened)
    source = " + ".join(one.name for one in opened) + (f" below {base_url}" if base_url else "")
    columns = (SpinnerColumn(), TextColumn("pages"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("pages", total=None)

        def count(done: int) -> None:
            if done % 100 == 0:
                bar.update(task, completed=done)

        try:
            info = build_world(
                out,
                gathering.pages(),
                name=name or opened[0].name,
                source=source,
                progress=count,
                finish=gathering.save,
            )
        except KeyboardInterrupt:
            bar.console.print("Interrupted: nothing was built, and nothing is left behind.")
            raise typer.Exit(exits.INTERRUPTED) from None
        bar.update(task, completed=info.counts.read, total=info.counts.read)
    _report(out, info, gathering)


def _report(directory: Path, info: WorldInfo, gathering: Gathering) -> None:
    """Every document by what became of it: pages of each source, reasons, and what the world left out."""
    table = Table("source", "documents", "pages", "left out")
    for account in gathering.accounts:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(account.skipped.items())) or "none"
        table.add_row(_plain(account.name), f"{account.documents:,}", f"{account.pages:,}", reasons)
    counts = info.counts
    later = {"second pages of an address": counts.duplicate, "empty": counts.empty, "without address": counts.no_url}
    left = ", ".join(f"{count:,} {what}" for what, count in later.items() if count) or "none"
    table.add_section()
    table.add_row(_plain(f"world {info.name}"), f"{counts.read:,}", f"{counts.kept:,}", left)
    console = Console()
    console.print(table)
    console.print(f"{_plain(str(directory))} holds {counts.kept:,} pages; {FILE_NAME} in it names the first of each reason.")


def _plain(text: str) -> str:
    return escape(visible(text))
