"""Options of the commands that research in a world: which faults it has, how it ranks, how fast it answers."""

from typing import Annotated

import typer

from sanderling.world.dense.index import SearchMode
from sanderling.world.faults.profiles import PROFILES

Faults = Annotated[
    str | None, typer.Option("--faults", help=f"Delays and faults: {', '.join(PROFILES)} or a TOML file; none by default.")
]
WorldSeed = Annotated[int, typer.Option("--world-seed", help="Equal seeds give equal delays and faults.")]
PromptInjection = Annotated[
    float,
    typer.Option(
        "--prompt-injection", min=0.0, max=1.0, help="Share of pages that order their reader about; see world obedience."
    ),
]
Pace = Annotated[
    float | None,
    typer.Option("--pace", min=0.001, help="Sleep the world's delays for real, this many virtual seconds to a real one."),
]
Search = Annotated[
    SearchMode, typer.Option("--search", help="Rank by words, by nearness, or by both fused; the last two want `world embed`.")
]
