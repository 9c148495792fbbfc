"""``sanderling world push``: a world's pages and indexes to Milvus. Thin: the work is done in ``world/milvus/``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sanderling.cli import exits
from sanderling.world.dense.vectors import DIRECTORY, read_info
from sanderling.world.disk.store import open_world
from sanderling.world.milvus.client import VectorIndex
from sanderling.world.milvus.push import push_world


def push(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    milvus: Annotated[
        str,
        typer.Option(
            "--milvus", metavar="URI", help="http://host:19530, or a file for milvus-lite; MILVUS_TOKEN has the token."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory that will stand for the pushed world.")],
    collection: Annotated[str, typer.Option(help="How its name on the server begins; the world's fingerprint follows.")] = "",
    vectors: Annotated[
        VectorIndex, typer.Option(help="How passages are searched, if the world was embedded.")
    ] = VectorIndex.HNSW,
) -> None:
    """Push a world to Milvus; --out then stands for it in every command. Killed, the same command goes on."""
    world = open_world(directory)
    dense = read_info(directory / DIRECTORY)
    columns = (TextColumn("pages, passages"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("pages", total=world.page_count + (dense.rows if dense else 0))

        def count(done: int) -> None:
            bar.update(task, completed=done)

        try:
            done = push_world(directory, world, milvus, out, collection=collection, vector_index=vectors, progress=count)
        except KeyboardInterrupt:
            bar.console.print("Interrupted: the same command goes on.")
            raise typer.Exit(exits.INTERRUPTED) from None
    cut = f"; of {done.cut:,} long pages only the first words are searched" if done.cut else ""
    Console().print(
        f"{done.pages:,} pages and {done.passages:,} passages are on {milvus}{cut}; {out} stands for them.",
        markup=False,
        soft_wrap=True,
        highlight=False,
    )
