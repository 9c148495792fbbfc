"""``sanderling world build from`` and ``add``: pages of any kind, of several sources. Thin: `world.sources` reads them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sanderling.cli.world_progress import build_progress
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.world.disk.building import SourceAccount
from sanderling.world.disk.pages import WorldCounts
from sanderling.world.disk.store import add_to_world, build_world, read_manifest
from sanderling.world.sources.base import HtmlExtractor, Limits, Source
from sanderling.world.sources.gathering import Gathering
from sanderling.world.sources.html import require_trafilatura
from sanderling.world.sources.kinds import SOURCES, open_sources, remember_sources

_MEGABYTE = 2**20
AGAIN = "Interrupted: the same command goes on from here."

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="Folders (HTML, Markdown, text, PDF), WARC, ZIM, Wikipedia dumps, JSON lines, other worlds; or KIND:REST, such as "
        "recorded:TRAJECTORIES or encyclopedia:SIZE/SEED.",
    ),
]
BaseUrl = Annotated[
    str, typer.Option(help="Address that the paths of folders, ZIM files and dumps stand below; local://NAME/ by default.")
]
Kind = Annotated[str, typer.Option(help=f"Kind of every source, told by name otherwise: {', '.join(SOURCES)}.")]
Largest = Annotated[int, typer.Option(min=1, help="Megabytes of one document; larger ones are left out.")]
Html = Annotated[
    HtmlExtractor,
    typer.Option("--extractor", help="Who finds the main content of HTML; trafilatura: slower, for news."),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that read documents. More give the same world, sooner.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over, where an interrupted command left something to go on from.")]


def build_from(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", help="Directory of the new world; must not exist.")],
    base_url: BaseUrl = "",
    kind: Kind = "",
    name: Annotated[str, typer.Option(help="The world's name, as trajectories record it; the first source's by default.")] = "",
    largest: Largest = 16,
    extractor: Html = HtmlExtractor.RESILIPARSE,
    workers: Workers = 1,
    fresh: Fresh = False,
) -> None:
    """Build a world from files: folders, archives, dumps, or several of these together.

    Stopped or killed, the same command goes on.
    """
    opened = _open(sources, kind, base_url, _limits(largest, extractor))
    feed, source = Gathering(opened, workers), _in_words(opened, base_url)
    with build_progress(AGAIN) as progress:
        info = build_world(
            out,
            feed,
            name=name or opened[0].name,
            source=source,
            progress=progress,
            fresh=fresh,
            finish=lambda place: remember_sources(place, opened),
        )
    _report(f"world {info.name}", info.accounts, info.counts)
    links = info.links
    Console().print(
        f"{_plain(str(out))} holds {info.page_count:,} pages; its manifest.json names the first of each reason. "
        f"Links: {links.inside:,} to pages of it, {links.dead:,} dead, {links.outside:,} to other sites."
    )


def add(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    sources: Sources,
    base_url: BaseUrl = "",
    kind: Kind = "",
    largest: Largest = 16,
    extractor: Html = HtmlExtractor.RESILIPARSE,
    workers: Workers = 1,
    fresh: Fresh = False,
) -> None:
    """Add pages to a world, without building it again.

    Whoever reads the world meanwhile goes on reading it as it was. Stopped or killed, the same command goes on.
    """
    opened = _open(sources, kind, base_url, _limits(largest, extractor))
    feed, source = Gathering(opened, workers), _in_words(opened, base_url)
    read_manifest(directory)
    with build_progress(AGAIN) as progress:
        remember_sources(directory, opened)  # before the pages are there: one too many does no harm
        info, counts = add_to_world(directory, feed, source=source, progress=progress, fresh=fresh)
    _report(f"added to {info.name}", feed.accounts(feed.mark()), counts)
    Console().print(f"{_plain(str(directory))} holds {info.page_count:,} pages, {counts.kept:,} of them new.")


def _limits(largest: int, extractor: HtmlExtractor) -> Limits:
    """Raises UserError when the extractor is not installed."""
    if extractor is HtmlExtractor.TRAFILATURA:
        require_trafilatura()
    return Limits(document_bytes=largest * _MEGABYTE, extractor=extractor)


def _open(specs: Sequence[str], kind: str, base_url: str, limits: Limits) -> list[Source]:
    if base_url and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", base_url):
        raise UserError(f"--base-url {base_url!r} is no address: write it as https://docs.example/.")
    return open_sources(specs, kind, base_url, limits)


def _in_words(opened: Sequence[Source], base_url: str) -> str:
    return " + ".join(one.name for one in opened) + (f" below {base_url}" if base_url else "")


def _report(what: str, accounts: Sequence[SourceAccount], counts: WorldCounts) -> None:
    """Every document by what became of it: pages of each source, reasons, and what the world left out."""
    table = Table("source", "documents", "pages", "left out")
    for account in accounts:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(account.skipped.items())) or "none"
        table.add_row(_plain(account.name), f"{account.documents:,}", f"{account.pages:,}", reasons)
    later = {"second pages of an address": counts.duplicate, "empty": counts.empty, "without address": counts.no_url}
    left = ", ".join(f"{count:,} {reason}" for reason, count in later.items() if count) or "none"
    table.add_section()
    table.add_row(_plain(what), f"{counts.read:,}", f"{counts.kept:,}", left)
    Console().print(table)


def _plain(text: str) -> str:
    return escape(visible(text))
