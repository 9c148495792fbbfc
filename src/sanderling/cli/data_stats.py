"""``sanderling data stats``: what trajectories are made of, file beside file. Figures: `data.stats`."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sanderling.core.text import visible


def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trajectories; several are shown side by side.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="PAGE.html", help="Write a page with plots.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures for machines.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="A directory with tokenizer.json: lengths in its tokens, else in words.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Of the page.")] = "Trajectories",
) -> None:
    """Count turns, lengths, tools, endings, scripts and verdicts, in a table and on a page with plots."""
    import json

    from sanderling.core.chat import load_tokenizer
    from sanderling.data.importing import open_trajectories
    from sanderling.data.page import data_page, figures_table
    from sanderling.data.stats import portray
    from sanderling.runs.files import check_places, replace_file
    from sanderling.runs.provenance import command_line

    check_places([*files, *([tokenizer] if tokenizer is not None else [])], [place for place in (out, json_out) if place])
    console = Console()
    counted = tokenizer and load_tokenizer(tokenizer)
    names = Counter(file.stem for file in files)
    portraits = []
    for file in files:
        name = file.stem if names[file.stem] == 1 else f"{file.resolve().parent.name}/{file.stem}"
        with console.status(f"reading {escape(visible(name))}"):
            portraits.append(portray(name, open_trajectories(file), counted))
    console.print(figures_table(portraits))
    if json_out is not None:
        replace_file(json_out, json.dumps([one.as_json() for one in portraits], indent=1, ensure_ascii=False) + "\n")
    if out is not None:
        replace_file(out, data_page(title, portraits, command=command_line()))
        console.print(f"The page is {visible(str(out))}.", highlight=False, markup=False)
