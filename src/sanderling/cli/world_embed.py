"""``sanderling world embed``, and the options of commands that search a world by nearness. Thin."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sanderling.cli import exits
from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import FORMS, CachedEmbedder, Embedder, Prefixes, open_embedder, opens_socket
from sanderling.world.dense.index import SearchMode
from sanderling.world.dense.vectors import (
    DIRECTORY,
    Chunking,
    DenseInfo,
    DenseSettings,
    embed_world,
    read_info,
    settings_for,
)
from sanderling.world.disk.store import open_world, read_manifest
from sanderling.world.local import LocalWorld

Search = Annotated[
    SearchMode, typer.Option("--search", help="Rank by words, by nearness, or by both fused; the last two want `world embed`.")
]


def dense_line(directory: Path) -> str:
    """What `world info` says of dense search."""
    info = read_info(directory / DIRECTORY)
    if info is None:
        return "none (make it with sanderling world embed)"
    made = f"{info.pages:,} pages as {info.rows:,} passages, {info.settings.dimension} dimensions by {info.settings.model}"
    state = "" if info.world == read_manifest(directory).fingerprint else "; not of the world as it is: embed again"
    outside = f"; queries are sent to {info.embedder}: the world is not closed" if opens_socket(info.embedder) else ""
    return made + state + outside


def embed(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    embedder: Annotated[str | None, typer.Option("--embedder", help=f"{FORMS}; the index's own when it has been made.")] = None,
    chunks: Annotated[
        int | None, typer.Option(min=1, help="Passages embedded of a page, at most; 1: its leading text; 4 by default.")
    ] = None,
    chunk_chars: Annotated[int | None, typer.Option(min=100, help="Longest passage, in characters; 1,200 by default.")] = None,
    query_prefix: Annotated[
        str | None, typer.Option(help='Put before queries, as the model wants it: "query: " for E5.')
    ] = None,
    document_prefix: Annotated[str | None, typer.Option(help='Put before passages: "passage: " for E5.')] = None,
    full_precision: Annotated[
        bool | None, typer.Option("--float32/--float16", help="How vectors are stored; float16, half the disk, by default.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="File that keeps every vector by its text, for the next world with the same pages.")
    ] = None,
) -> None:
    """Embed a world's pages for dense and hybrid search; killed, it goes on, and pages that came since are added."""
    info = read_info(directory / DIRECTORY)
    world = open_world(directory)
    spec = embedder or (info.embedder if info else None)
    if spec is None:
        raise UserError(f"Name the embedder: --embedder with {FORMS}.")
    opened = open_embedder(spec)
    made = info.settings if info else settings_for(opened)
    given = {
        "model": opened.model,
        "dimension": opened.dimension,
        "chunking": Chunking(most=chunks or made.chunking.most, chars=chunk_chars or made.chunking.chars),
        "prefixes": Prefixes(
            made.prefixes.query if query_prefix is None else query_prefix,
            made.prefixes.document if document_prefix is None else document_prefix,
        ),
        "precision": made.precision if full_precision is None else "float32" if full_precision else "float16",
    }
    asked = opened if cache is None else CachedEmbedder(opened, cache)
    done = _embed(directory, world, asked, made.model_copy(update=given), spec)
    Console().print(
        f"{done.pages:,} pages as {done.rows:,} passages of {done.settings.dimension} dimensions by {done.settings.model} "
        f"({done.vector_bytes / 1e6:,.1f} MB): {directory / DIRECTORY}",
        markup=False,
        soft_wrap=True,
        highlight=False,
    )


def _embed(directory: Path, world: LocalWorld, embedder: Embedder, settings: DenseSettings, spec: str) -> DenseInfo:
    """Embed with a bar."""
    columns = (TextColumn("pages"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("pages", total=world.page_count)

        def count(done: int) -> None:
            bar.update(task, completed=done)

        try:
            return embed_world(directory, world, embedder, settings, spec=spec, progress=count)
        except KeyboardInterrupt:
            bar.console.print("Interrupted: the same command goes on after the last whole batch.")
            raise typer.Exit(exits.INTERRUPTED) from None
