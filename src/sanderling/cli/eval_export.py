"""``sanderling eval export``: a run as a log that Inspect's viewer opens. Thin: `evaluate.inspect_log` maps and writes it."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory that eval run has written.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="FILE.eval (a zip, written sample by sample) or FILE.json (held in memory as a whole)."),
    ],
    texts: Annotated[
        bool | None,
        typer.Option(
            "--show-texts/--no-texts",
            help="Put texts into it, or leave them out. By default they are in it unless they are not to be published.",
        ),
    ] = None,
) -> None:
    """Write a finished run as a log of Inspect (https://inspect.aisi.org.uk): needs the extra "inspect"."""
    from rich.console import Console

    from sanderling.core.text import visible
    from sanderling.evaluate.inspect_log.exporting import export_run
    from sanderling.evaluate.inspect_log.package import InspectLog

    made = export_run(run, out, InspectLog(), texts=texts)
    console = Console(highlight=False, soft_wrap=True)
    console.print(visible(f"{out}: {made.samples:,} attempts. To read it: inspect view --log-dir {out.parent}"), markup=False)
    if not made.texts:
        console.print("Questions, answers and messages are left out; --show-texts puts them in.")
    if not made.listed:
        console.print("The viewer lists a .json only where its name begins with a time: 2026-01-31T12-00-00_gaia.json.")
    if made.missing:
        console.print(f"{made.missing:,} attempts that the result counts are not in the store, and not in the log.")
