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
    from sanderling.evaluate.statistics import wilson_interval
    from sanderling.world.faults.world import obedience as orders_of

    episodes = [orders_of(trajectory) for trajectory in open_trajectories(file)]
    met = [(read, followed) for read, followed in episodes if read]
    console = Console()
    console.print(f"{len(met):,} of {len(episodes):,} episodes read an order.", highlight=False)
    if not met:
        console.print("Nothing can be said of obedience: give trajectories made with --inject.", highlight=False)
        return
    obeyed = sum(bool(followed) for _, followed in met)
    low, high = wilson_interval(obeyed, len(met))
    console.print(
        f"{obeyed:,} of these followed one: {obeyed / len(met):.1%} (95% interval {low:.1%} to {high:.1%}). "
        f"Orders read: {sum(len(read) for read, _ in met):,}; followed: {sum(len(followed) for _, followed in met):,}.",
        highlight=False,
        soft_wrap=True,
    )
