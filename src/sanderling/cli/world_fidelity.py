"""``sanderling world fidelity``: how far a world resembles recorded calls. Thin: `evaluate.fidelity` does the work."""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.cli.options import show, table
from sanderling.cli.world_options import Search
from sanderling.world.dense.index import SearchMode


def fidelity(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    against: Annotated[
        Path, typer.Option("--against", help="Recorded trajectories (a directory), or a recording (a file of --record).")
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory of the report: fidelity.html and fidelity.json.")],
    k: Annotated[int, typer.Option("--k", min=1, help="Results compared of each list.")] = 10,
    p: Annotated[float, typer.Option("--p", help="Persistence of rank-biased overlap, between 0 and 1.")] = 0.9,
    snippet_words: Annotated[int, typer.Option("--snippet-words", min=1, help="Most words of the world's snippets.")] = 30,
    built_in: Annotated[
        bool, typer.Option("--built-in", help="Also compare what the world was built from: an upper bound, labelled so.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the intervals.")] = 0,
    mode: Search = SearchMode.LEXICAL,
) -> None:
    """Compare a world with recorded calls that it was not built from."""
    from sanderling.evaluate.fidelity import FidelityConfig, measure_fidelity
    from sanderling.evaluate.fidelity_page import HTML_NAME, interval, number, sentence

    config = FidelityConfig(k=k, p=p, snippet_words=snippet_words, built_in=built_in, seed=seed, search=mode)
    report = measure_fidelity(directory, against, out, config)
    for part in report.parts:
        found = table("measure", ">n", ">mean", ">95% over queries", ">over questions", title=part.label)
        for one in (*part.figures, *part.domains):
            spans = (interval(one.name, one.interval), interval(one.name, one.interval_by_question))
            found.add_row(one.name, f"{one.n:,}", number(one), *spans)
        show(sentence(part, k), found, error=True)
    show(f"The report, with what it cannot show: {out / HTML_NAME}", error=True)
