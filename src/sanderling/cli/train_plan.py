"""``sanderling train plan``: memory and time of a run, before it runs. All logic is in `plan` of `recipes.sft` and `.rl`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from sanderling.cli.train_plan_rl import Asked, check_described, duration, plan_of_rl
from sanderling.core.errors import UserError

if TYPE_CHECKING:
    from sanderling.train.fit import Plan


def plan(
    model: Annotated[Path, typer.Option("--model", help="The directory of the model; its config.json suffices.")],
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            help="lora-24gb (by default), dr-venus-4b, literesearcher-4b, agentcpm-explore-4b, with --rl tiny; or a TOML file.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; as often as you like.")
    ] = None,
    row_tokens: Annotated[
        int | None, typer.Option("--row-tokens", min=1, help="The longest row or rollout; the recipe's limit by default.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="A device that is not here, such as H200; with --memory.")
    ] = None,
    memory: Annotated[float | None, typer.Option("--memory", min=0.1, help="Its memory, in GiB.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many of it.")] = 1,
    rl: Annotated[
        bool, typer.Option("--rl", help="The recipe is one of train rl: dr-venus-4b by default. Sampling is planned, too.")
    ] = False,
    decode_rate: Annotated[
        float | None,
        typer.Option(
            "--decode-rate", min=0.01, help="With --rl: tokens a second that all samplers write; reckoned by default."
        ),
    ] = None,
) -> None:
    """Say what a step needs in memory and time, and what to set when it does not fit; exit status 2 then."""
    if rl:
        plan_of_rl(Asked(model, recipe or "dr-venus-4b", overrides or [], row_tokens, device, memory, count), decode_rate)
        return
    if decode_rate is not None:
        raise UserError("--decode-rate is for plans of RL: add --rl, or leave it out.")
    recipe = recipe or "lora-24gb"
    from sanderling.recipes.find import find_settings
    from sanderling.train.fit import described, devices_here, plan_sft, taken
    from sanderling.train.sft.settings import SftConfig

    check_described(device, memory)
    config = find_settings("sft", SftConfig, recipe, overrides or []).model_copy(update={"model": model})
    devices = taken(devices_here(), config.parallel) if device is None or memory is None else described(device, memory, count)
    found = plan_sft(config, devices, row_tokens)
    _show(Console(highlight=False), config.title, found)
    if not found.fits:
        raise UserError(found.sentence)


def _show(console: Console, title: str, found: "Plan") -> None:
    """A table of memory, and sentences on time and keys and values."""
    from sanderling.train.fit import OVERHEAD

    estimate, shape, devices = found.estimate, found.shape, found.devices
    trained = "all" if found.load.lora_parameters is None else f"{found.load.lora_parameters / 1e6:,.1f} million"
    console.print(f"{title}: {shape.parameters / 1e9:.3g} billion parameters, {trained} trained", markup=False)
    table = Table(f"on each of {devices.count} × {devices.name}", "GiB")
    for name, size in estimate.parts.items():
        table.add_row(name, f"{size / 2**30:,.2f}")
    table.add_section()
    table.add_row("altogether", f"{estimate.total / 2**30:,.2f}")
    less = f", less {OVERHEAD / 2**30:.0f} for CUDA and fragments" if devices.gpus else ""
    table.add_row(f"there is{less}", f"{devices.room / 2**30:,.2f}")
    if estimate.host:
        table.add_row("in the host's memory, for each", f"{estimate.host / 2**30:,.2f}")
    who = "rank 0" if found.load.sharded else "each"
    table.add_row(f"in the host's memory, when {who} reads the model", f"{estimate.read / 2**30:,.2f}")
    table.add_row("in the host's memory, when rank 0 saves", f"{estimate.gathered / 2**30:,.2f}")
    console.print(table)
    step = f"Rows of up to {found.load.row_tokens:,} tokens; a step of {found.batch}"
    step += f", where each trajectory is one row at most {found.step_tokens:,} tokens"
    if found.step_seconds is not None:
        step += f", takes about {duration(found.step_seconds)} if 40% of the device's peak is reached"
    console.print(f"{step}.", soft_wrap=True)
    console.print(
        "Keys and values of one session of that length, where the model also samples: "
        f"{shape.kv_bytes(found.load.row_tokens) / 2**30:,.2f} GiB.",
        soft_wrap=True,
    )
