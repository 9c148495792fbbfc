"""``sanderling world agents``: do agents rank alike in a world and outside it? Thin: `evaluate.fidelity_agents` compares."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError

if TYPE_CHECKING:
    from sanderling.evaluate.result import EvalResult

Results = Annotated[list[Path] | None, typer.Option(help="An evaluation's result (JSON); repeat it, one for each agent.")]
Episodes = Annotated[list[Path] | None, typer.Option(help="Trajectories of these agents; repeat for several files.")]


def agents(
    local: Results = None,
    live: Results = None,
    local_episodes: Episodes = None,
    live_episodes: Episodes = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the intervals.")] = 0,
) -> None:
    """Compare agents in a world (--local) with the same agents elsewhere (--live): rankings, and calls per episode."""
    from sanderling.evaluate.fidelity_agents import compare_agents

    if not (local and live) and not (local_episodes and live_episodes):
        raise UserError("Give results with --local and --live, or trajectories with --local-episodes and --live-episodes.")
    console = Console()
    if local and live:
        found = compare_agents(_by_agent(local), _by_agent(live), seed=seed)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for head in ("agent", "local", "live"):
            table.add_column(head, justify="left" if head == "agent" else "right")
        for row in found.agents:
            table.add_row(Text(row.agent), f"{row.local:.1%}", f"{row.live:.1%}")
        console.print(table)
        if found.tau_b is None:
            console.print("All agents tie in one place: their rankings cannot be compared.", highlight=False)
        else:
            span = "" if found.interval is None else f" (95% over questions {found.interval[0]:.2f} to {found.interval[1]:.2f})"
            console.print(
                f"Kendall's tau-b {found.tau_b:.2f}{span}, {len(found.agents)} agents, {found.questions} common questions; "
                f"rankings without relation agree as much with chance {found.p_value:.3f}.",
                highlight=False,
                soft_wrap=True,
            )
        for first, second in found.discordant:
            console.print(Text(f"ordered otherwise: {first}, {second}"), soft_wrap=True)
    if local_episodes and live_episodes:
        _show_calls(console, local_episodes, live_episodes)


def _show_calls(console: Console, local: Sequence[Path], live: Sequence[Path]) -> None:
    from sanderling.evaluate.fidelity_agents import compare_calls

    for role, what in (("", "calls"), ("search", "searches"), ("visit", "visits")):
        found = compare_calls(_calls(local, role), _calls(live, role))
        sides = ", ".join(
            f"{name} mean {side.mean:.1f}, median {side.quantiles['0.5']:g}, 90% {side.quantiles['0.9']:g} (n {side.episodes})"
            for name, side in (("local", found.local), ("live", found.live))
        )
        console.print(f"{what} per episode: {sides}; distance of the distributions {found.distance:.1%}", highlight=False)


def _calls(files: Sequence[Path], role: str) -> list[int]:
    """Calls of each episode on its main branch; ``role``: of one kind only."""
    from sanderling.data.importing import open_trajectories

    return [
        sum(role in ("", event.role) for node in trajectory.branch() for event in node.events)
        for file in files
        for trajectory in open_trajectories(file)
        if trajectory.leaf is not None
    ]


def _by_agent(files: Sequence[Path]) -> dict[str, "EvalResult"]:
    """Results by the agent's name. Raises UserError for two of one name."""
    from sanderling.evaluate.result import EvalResult

    found: dict[str, EvalResult] = {}
    for file in files:
        result = EvalResult.load(file)
        if result.model in found:
            raise UserError(f"Two results are of the agent {result.model!r}: give one for each agent and place.")
        found[result.model] = result
    return found
