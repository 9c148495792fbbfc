"""``sanderling world duplicates`` and ``fit-dynamics``, and the options of commands that meet a world's dynamics. Thin."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.core.config import to_toml
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.world.disk.duplicates import THRESHOLD
from sanderling.world.disk.store import compare_pages, read_manifest
from sanderling.world.faults.profiles import PROFILES

Dynamics = Annotated[
    str | None, typer.Option("--dynamics", help=f"Delays and faults: {', '.join(PROFILES)} or a TOML file; none by default.")
]
WorldSeed = Annotated[int, typer.Option("--world-seed", help="Equal seeds give equal delays and faults.")]
Inject = Annotated[
    float,
    typer.Option("--inject", min=0.0, max=1.0, help="Share of pages that order their reader about; see world obedience."),
]
Pace = Annotated[
    float | None,
    typer.Option("--pace", min=0.001, help="Sleep the world's delays for real, this many virtual seconds to a real one."),
]


def duplicates(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    threshold: Annotated[
        float, typer.Option(min=0.5, max=1.0, help="Share of common word sequences from which two pages are near-duplicates.")
    ] = THRESHOLD,
) -> None:
    """Find a world's near-duplicate pages, so that masking one masks them all."""
    console = Console(stderr=True)
    info = read_manifest(directory)
    with console.status(f"comparing {info.page_count:,} pages"):
        groups, path = compare_pages(directory, info, threshold)
    Console().print(
        f"{sum(map(len, groups)):,} of {info.page_count:,} pages are near-duplicates, in {len(groups):,} groups: {path}",
        markup=False,
        soft_wrap=True,
    )


def fit_dynamics(
    source: Annotated[
        Path, typer.Option("--from", help="Recorded trajectories (a directory), or a recording (a file of ask --record).")
    ],
    out: Annotated[Path, typer.Option("--out", help="The profile as a TOML file, for --dynamics.")],
) -> None:
    """Make a profile of dynamics with the failures, and the delays if any, of recorded calls."""
    from sanderling.cli.world_fidelity import read_recorded
    from sanderling.world.faults.profiles import fit_profile

    fitted = fit_profile(read_recorded(source).trajectories, name=out.stem)
    try:
        replace_file(out, to_toml(fitted.profile))
    except OSError as error:
        raise UserError(f"Cannot write {out} ({error.strerror}): choose another place.") from error
    delays = (
        f"{fitted.search_delays} and {fitted.visit_delays} delays" if fitted.search_delays + fitted.visit_delays else "no delay"
    )
    Console().print(
        f"{fitted.queries:,} queries and {fitted.visits:,} visits, with {delays}: {out}", markup=False, soft_wrap=True
    )
