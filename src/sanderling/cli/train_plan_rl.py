"""``sanderling train plan --rl``: what reinforcement learning takes, stage by stage. All logic is in `recipes.rl.plan`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sanderling.core.errors import UserError

if TYPE_CHECKING:
    from sanderling.recipes.rl.plan import StagePlan

_SAMPLERS = {
    "module": "with the trainer's own module",
    "copy": "with a copy beside the trainer",
    "asleep": "by a server on the trainer's devices, in turns with it",
    "together": "by a server on the trainer's device, at the same time",
    "apart": "by a server on devices of its own",
}


@dataclass(frozen=True)
class Asked:
    """What the options say."""

    model: Path
    recipe: str
    overrides: Sequence[str]
    row_tokens: int | None
    device: str | None
    memory: float | None
    count: int


def check_described(device: str | None, memory: float | None) -> None:
    """Raises UserError when a device that is not here is described by half."""
    if (device is None) != (memory is None):
        raise UserError("--device and --memory go together: a name such as H200, and the GiB of one.")
    if memory is not None and not memory < 2**40:
        raise UserError(f"--memory {memory:g} is no device's: give the GiB of one, such as 141.")


def plan_of_rl(asked: Asked, decode: float | None) -> None:
    """Show the plan of each stage. Raises UserError when one does not fit."""
    from sanderling.recipes.rl.find import find_rl_recipe
    from sanderling.recipes.rl.plan import plan_rl
    from sanderling.train.fit import described, devices_here, taken

    check_described(asked.device, asked.memory)
    recipe = find_rl_recipe(asked.recipe, asked.overrides).model_copy(update={"model": asked.model})
    if asked.device is None or asked.memory is None:
        devices = taken(devices_here(), recipe.parallel)
    else:
        devices = described(asked.device, asked.memory, asked.count)
    found = plan_rl(recipe, devices, asked.row_tokens, decode)
    console = Console(highlight=False)
    for stage in found.stages:
        _show(console, f"{recipe.title}{f', stage {stage.stage.name}' if stage.stage.name else ''}", stage, measured=decode)
    if found.sentence:
        raise UserError(found.sentence)


def _show(console: Console, title: str, plan: "StagePlan", measured: float | None) -> None:
    """Two tables of memory, and sentences on sessions and time."""
    load, estimate, devices = plan.load, plan.estimate, plan.devices
    rl = plan.stage.rl
    console.print(
        f"{title}: {plan.shape.parameters / 1e9:.3g} billion parameters; {rl.questions_per_step} questions a step, "
        f"{rl.group_size} rollouts of each, of {load.episodes.longest:,} tokens at most; sampled {_SAMPLERS[load.sharing]}",
        markup=False,
        soft_wrap=True,
    )
    trains = f"while it trains, on each of {load.trainer.ranks} × {devices.name}"
    _table(console, trains, estimate.trainer, devices.room)
    if load.sharing.served:
        beside = f"while it samples, on each of {load.samplers} × {devices.name}"
        _table(console, beside, estimate.sampler, devices.room, "left for keys and values, and what the server needs")
    if estimate.host:
        console.print(f"In the host's memory, for each process that trains: {estimate.host / 2**30:,.1f} GiB.", soft_wrap=True)
    sessions = estimate.sessions
    console.print(
        f"Keys and values of {sessions.longest:,} rollouts of {load.episodes.longest:,} tokens fit, or of {sessions.mean:,} "
        f"mean ones of {load.episodes.mean:,}, in {sessions.replicas} cop{'y' if sessions.replicas == 1 else 'ies'} of the "
        f"model; {load.under_way:,} are under way at most, and who does not fit waits.",
        soft_wrap=True,
    )
    if estimate.seconds is None or estimate.step_seconds is None or estimate.decode is None:
        console.print("How long a step takes is not known: the device's speed is not (--decode-rate may help).", soft_wrap=True)
        return
    parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in estimate.seconds.items())
    how = "as given" if measured is not None else "reckoned from half of its memory's bandwidth"
    console.print(
        f"A step of {load.rollouts:,} mean rollouts ({load.episodes.sampled:,} tokens sampled in {load.episodes.turns} turns) "
        f"takes about {duration(estimate.step_seconds)}, tools and judges not counted: {parts}. Sampled at "
        f"{estimate.decode:,.0f} tokens a second over all devices ({how}), the rest at 40% of the device's peak; "
        f"{rl.steps:,} steps take {duration(estimate.step_seconds * rl.steps)}.",
        soft_wrap=True,
    )
    if plan.stage.difficulty is not None:
        tries = plan.stage.difficulty.attempts
        console.print(
            f"Before them every question is attempted {tries} times, which is not in it: the sampling of a step for each "
            f"{load.rollouts // tries:,} questions.",
            soft_wrap=True,
        )


def _table(console: Console, title: str, parts: Mapping[str, int], room: int, left: str = "left") -> None:
    table = Table(title, "GiB")
    for name, size in parts.items():
        if size:
            table.add_row(name, f"{size / 2**30:,.2f}")
    table.add_section()
    table.add_row("altogether", f"{sum(parts.values()) / 2**30:,.2f}")
    table.add_row(left, f"{(room - sum(parts.values())) / 2**30:,.2f}")
    console.print(table)


def duration(seconds: float) -> str:
    """Two digits' worth of seconds, minutes, hours or days."""
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.0f} seconds" if seconds >= 10 else f"{seconds:.2g} seconds"
