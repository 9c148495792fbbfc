"""``sanderling world links``: where the links of a world's pages lead. Thin."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.core.text import visible
from sanderling.world.disk.building import LinkCounts, leads
from sanderling.world.disk.store import open_pages, read_manifest


def links(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    dead: Annotated[bool, typer.Option("--dead", help="List the dead ones, each after the page that has it.")] = False,
    most: Annotated[int | None, typer.Option("--most", min=1, help="List no more than these.")] = None,
) -> None:
    """Count where the links of all pages lead: to pages of the world, to pages that its sites lack, to other sites."""
    pages = open_pages(directory, read_manifest(directory))
    if dead:
        links = ((page.url, link) for page in pages.all() for link in page.links)
        found = (pair for pair in links if leads(pair[1], pages.find, pages.has_site) == "dead")
        for page, link in itertools.islice(found, most):
            typer.echo(f"{visible(page)}\t{visible(link)}")
        return
    with Console(stderr=True).status(f"following the links of {pages.count():,} pages"):
        found = Counter(leads(link, pages.find, pages.has_site) for page in pages.all() for link in page.links)
    counts = LinkCounts(**found)
    typer.echo(f"{counts.inside:,} to pages of the world, {counts.dead:,} dead, {counts.outside:,} to other sites")
