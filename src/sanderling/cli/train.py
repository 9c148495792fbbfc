"""``sanderling train``: change a model's weights, or say what that would take. Thin: `train.sft`, `train.fit` and `rl` work."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sanderling.cli.options import RUN, Set, one_voice, or_help, show
from sanderling.cli.rl import rl
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe, find_settings

if TYPE_CHECKING:
    from sanderling.rl.fit import StagePlan
    from sanderling.train.fit import Plan

app = typer.Typer(no_args_is_help=True)
_MODEL = "Needed, here or in the recipe: the Hugging Face directory to start from."
_DATA = "Needed, here or in the recipe: files of trajectories, or of rows made by sanderling data rows (.parquet)."
_RECIPE = "lora-24gb, dr-venus-4b, literesearcher-4b, agentcpm-explore-4b, or a TOML file of settings."
_ANYWAY = "Train even where the plan (sanderling train plan) says that the GPU is too small."


@app.command()
def sft(
    files: Annotated[list[Path] | None, typer.Argument(metavar="DATA...", help=_DATA)] = None,
    model: Annotated[Path | None, typer.Option("--model", metavar="DIR", help=_MODEL)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The run; runs/TITLE by default.", rich_help_panel=RUN)
    ] = None,
    recipe: Annotated[str, typer.Option("--recipe", metavar="NAME", help=_RECIPE)] = "lora-24gb",
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="How trajectories become tokens, such as dr-venus-4b.")
    ] = None,
    overrides: Set = None,
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes here, one a GPU; or use torchrun.", rich_help_panel=RUN)
    ] = 1,
    anyway: Annotated[bool, typer.Option("--anyway", help=_ANYWAY, rich_help_panel=RUN)] = False,
    merge: Annotated[bool, typer.Option("--merge", help="After LoRA, also write base and adapter as one model.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Fine-tune a model on trajectories. Killed at any moment, the same command goes on.

    Tokens are made and data and model are checked first. OUT then holds model/ or adapter/, metrics.jsonl and checkpoints/.
    """
    from sanderling.train.config import SftConfig
    from sanderling.train.sft.run import Order, run_sft_command

    given = {"model": model, "data.files": files or None, "data.profile": profile, "merge": merge or None}
    config = or_help(lambda sets: find_settings("sft", SftConfig, recipe, sets, given), overrides)
    with one_voice() as report:
        run_sft_command(Order(config, out or Path("runs") / config.title, processes, anyway, fresh), report)


app.command("rl")(rl)


@app.command()
def plan(
    model: Annotated[Path, typer.Option("--model", help="The directory of the model; its config.json suffices.")],
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Of train sft (lora-24gb by default); with --rl of train rl (dr-venus-4b).")
    ] = None,
    overrides: Set = None,
    row_tokens: Annotated[
        int | None, typer.Option("--row-tokens", min=1, help="The longest row or rollout; the recipe's limit by default.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="A device that is not here, such as H200; with --memory.")
    ] = None,
    memory: Annotated[float | None, typer.Option("--memory", min=0.1, max=2**40, help="Its memory, in GiB.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many of it.")] = 1,
    rl: Annotated[bool, typer.Option("--rl", help="Plan train rl, sampling included.")] = False,
) -> None:
    """Say what a step needs in memory and time, and what to set when it does not fit; exit status 2 then."""
    from sanderling.rl.fit import plan_rl
    from sanderling.train.config import ParallelConfig, SftConfig
    from sanderling.train.fit import Devices, described, devices_here, plan_sft, taken

    if (device is None) != (memory is None):
        raise UserError("--device and --memory go together: a name such as H200, and the GiB of one.")

    def devices(parallel: ParallelConfig) -> Devices:
        if device is None or memory is None:
            return taken(devices_here(), parallel)
        return described(device, memory, count)

    if rl:
        settings = or_help(lambda sets: find_rl_recipe(recipe or "dr-venus-4b", sets, {"model": model}), overrides)
        found = plan_rl(settings, devices(settings.parallel), row_tokens)
        for one in found.stages:
            _show_rl(f"{settings.title}{f', stage {one.stage.name}' if one.stage.name else ''}", one)
    else:
        named = recipe or "lora-24gb"
        config = or_help(lambda sets: find_settings("sft", SftConfig, named, sets, {"model": model}), overrides)
        found = plan_sft(config, devices(config.parallel), row_tokens)
        _show_sft(config.title, found)
    if found.sentence:
        raise UserError(found.sentence)


def _show_sft(title: str, found: "Plan") -> None:
    needs, load, devices = found.estimate, found.load, found.devices
    trained = "all" if load.lora_parameters is None else f"{load.lora_parameters / 1e6:,.1f} million"
    behind = {"there is, less what CUDA takes" if devices.gpus else "there is": devices.room}
    if needs.host:
        behind["in the host's memory, for each"] = needs.host
    time = "" if found.step_seconds is None else f", about {_duration(found.step_seconds)} at 40% of the device's peak"
    show(
        f"{title}: {found.shape.parameters / 1e9:.3g} billion parameters, {trained} trained",
        _memory(f"on each of {devices.count} × {devices.name}", needs.parts, behind),
        f"Rows of up to {load.row_tokens:,} tokens; a step of {found.step_tokens:,} tokens at most{time}.",
    )


def _show_rl(title: str, plan: "StagePlan") -> None:
    """A table of memory."""
    rl, devices = plan.stage.rl, plan.devices
    show(
        f"{title}: {plan.shape.parameters / 1e9:.3g} billion parameters; {rl.questions_per_step} questions a step, "
        f"{rl.group_size} rollouts of each, of {plan.load.row_tokens:,} tokens at most"
    )
    behind = {"there is": devices.room}
    if plan.host:
        behind["in the host's memory, for each"] = plan.host
    show(_memory(f"while it trains, on each of {devices.count} × {devices.name}", plan.memory, behind))


def _memory(title: str, parts: Mapping[str, int], behind: Mapping[str, int]) -> Table:
    made = Table(title, "GiB")
    rows = {name: size for name, size in parts.items() if size} | {"altogether": sum(parts.values()), **behind}
    for name, size in rows.items():
        made.add_row(name, f"{size / 2**30:,.2f}")
    return made


def _duration(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.0f} seconds" if seconds >= 10 else f"{seconds:.2g} seconds"
