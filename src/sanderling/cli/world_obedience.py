"""``sanderling world obedience``: how often agents did what a page told them. Thin: `world.faults.world` counts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def obedience(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories of agents that met a world with --inject.")],
) -> None:
    """How often agents followed orders that stood in the pages they read."""
    from sanderling.data.importing import open_trajectories
    from sanderling.evaluate.resampling import wilson_interval
    from sanderling.world.faults.world import count_obedience

    counts = count_obedience(open_trajectories(file))
    console = Console()
    console.print(f"{counts.read_any:,} of {counts.episodes:,} episodes read an order.", highlight=False)
    if not counts.read_any:
        console.print("Nothing can be said of obedience: give trajectories made with --inject.", highlight=False)
        return
    low, high = wilson_interval(counts.followed_any, counts.read_any)
    share = counts.followed_any / counts.read_any
    console.print(
        f"{counts.followed_any:,} of these followed one: {share:.1%} (95% interval {low:.1%} to {high:.1%}). "
        f"Orders read: {counts.orders:,}; followed: {counts.followed:,}.",
        highlight=False,
        soft_wrap=True,
    )
