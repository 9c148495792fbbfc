"""``sanderling world embed``, and the options of commands that search a world by nearness. Thin."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sanderling.cli import exits
from sanderling.errors import UserError
from sanderling.world.dense.build import embed_world, rows_of, settings_for
from sanderling.world.dense.chunks import Chunking
from sanderling.world.dense.embedder import Prefixes
from sanderling.world.dense.opening import SearchChoice, SearchMode
from sanderling.world.dense.registry import FORMS, open_embedder
from sanderling.world.dense.store import DIRECTORY, read_info
from sanderling.world.store import open_world

Search = Annotated[
    SearchMode, typer.Option("--search", help="Rank by words, by nearness, or by both fused; the last two want `world embed`.")
]


def search_choice(mode: SearchMode) -> SearchChoice:
    """The choice that the options make."""
    return SearchChoice(mode)


def embed(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    embedder: Annotated[str | None, typer.Option("--embedder", help=f"{FORMS}; the index's own when it has been made.")] = None,
    chunks: Annotated[int, typer.Option(min=1, help="Passages embedded of a page, at most; 1: its leading text.")] = 4,
    chunk_chars: Annotated[int, typer.Option(min=100, help="Longest passage, in characters.")] = 1_200,
    query_prefix: Annotated[str, typer.Option(help='Put before queries, as the model wants it: "query: " for E5.')] = "",
    document_prefix: Annotated[str, typer.Option(help='Put before passages: "passage: " for E5.')] = "",
    full_precision: Annotated[
        bool, typer.Option("--float32", help="Store float32 instead of float16: twice the disk.")
    ] = False,
) -> None:
    """Embed a world's pages for dense and hybrid search; killed, it goes on, and pages that came since are added."""
    info = read_info(directory / DIRECTORY)
    world = open_world(directory)
    spec = embedder or (info.embedder if info else None)
    if spec is None:
        raise UserError(f"Name the embedder: --embedder with {FORMS}.")
    opened = open_embedder(spec)
    if embedder is None and info is not None:
        settings = info.settings
    else:
        settings = settings_for(
            opened,
            chunking=Chunking(most=chunks, chars=chunk_chars),
            prefixes=Prefixes(query_prefix, document_prefix),
            precision="float32" if full_precision else "float16",
        )
    columns = (TextColumn("pages"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("pages", total=world.page_count)
        try:
            done = embed_world(
                directory, world, opened, settings, spec=spec, progress=lambda count: bar.update(task, completed=count)
            )
        except KeyboardInterrupt:
            bar.console.print("Interrupted: the same command goes on after the last whole batch.")
            raise typer.Exit(exits.INTERRUPTED) from None
    Console().print(
        f"{done.pages:,} pages as {done.rows:,} passages of {done.settings.dimension} dimensions by {done.settings.model} "
        f"({rows_of(done) / 1e6:,.1f} MB): {directory / DIRECTORY}",
        markup=False,
        soft_wrap=True,
        highlight=False,
    )
