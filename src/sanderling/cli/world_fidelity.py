"""``sanderling world fidelity``: how far a world resembles recorded calls. Thin: `evaluate.fidelity_run` does the work."""

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import sanderling
from sanderling.cli.world_options import Search
from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.data.recorded_source import read_recorded
from sanderling.world.contract import World, answered
from sanderling.world.dense.index import SearchMode
from sanderling.world.opening import open_as_met


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
    from sanderling.evaluate.fidelity_report import interval, number, sentence, write_fidelity
    from sanderling.evaluate.fidelity_run import Asked, Subject, report_of
    from sanderling.evaluate.report_model import RunFacts
    from sanderling.runs.provenance import command_line, machine, peak_memory_mb
    from sanderling.world.disk.store import read_manifest
    from sanderling.world.fidelity import Settings
    from sanderling.world.recorded import read_built_from

    if not 0.0 < p < 1.0:
        raise UserError(f"--p is {p:g}: give a number between 0 and 1, such as 0.9.")
    started, console = time.perf_counter(), Console(stderr=True)
    manifest, known = read_manifest(directory), read_built_from(directory)
    opened = open_as_met(directory, search=mode)
    _make(out)
    subject = Subject(opened, partial(_holds, opened), manifest.source, known)
    with console.status("comparing"):
        trajectories = read_recorded(against).trajectories
        asked = Asked(Settings(k=k, p=p, snippet_words=snippet_words), built_in, seed)
        run = RunFacts(
            command=command_line(),
            seed=seed,
            date=datetime.now(UTC).date().isoformat(),
            machine=machine(),
            version=sanderling.__version__,
            seconds=0.0,
        )
        report = report_of(subject, trajectories, asked, run)
    spent = {"seconds": round(time.perf_counter() - started, 1), "peak_memory_mb": round(peak_memory_mb(0))}
    report = report.model_copy(update={"run": run.model_copy(update=spent)})
    page = write_fidelity(report, out)
    for part in report.parts:
        console.print(Text(sentence(part, k)))
        table = Table(title=Text(part.label), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for head in ("measure", "n", "mean", "95% over queries", "over questions"):
            table.add_column(head, no_wrap=True, justify="left" if head == "measure" else "right")
        for found in (*part.figures, *part.domains):
            spans = (interval(found.name, found.interval), interval(found.name, found.interval_by_question))
            table.add_row(found.name, f"{found.n:,}", number(found), *spans)
        console.print(table)
    console.print(Text(f"The report, with what it cannot show: {page}"))


def _holds(world: World, url: str) -> bool:
    """Whether an agent could find a page at an address: one that is blocked is not there."""
    return answered(world.visit(url, max_words=1)).status is not ToolStatus.NOT_FOUND


def _make(out: Path) -> None:
    """The report's directory, before the work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make {out} ({error.strerror}): choose another place with --out.") from error
