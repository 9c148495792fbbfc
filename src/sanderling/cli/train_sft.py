"""``sanderling train sft``: supervised fine-tuning, whole or LoRA, in one process or many. All logic is in `recipes.sft`."""

import time
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli import exits
from sanderling.core.errors import UserError

_LAST_WORDS_S = 5
"""torchrun ends all processes as soon as one has failed: the first gets so long to say why."""


def sft(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DATA...", help="Files of trajectories, or of rows made by sanderling data rows (.parquet)."),
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", help="The Hugging Face directory to start from.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Directory of the run; runs/TITLE by default.")] = None,
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe", help="lora-24gb, dr-venus-4b, literesearcher-4b, agentcpm-explore-4b, or a TOML file of settings."
        ),
    ] = "lora-24gb",
    profile: Annotated[
        str | None, typer.Option("--profile", help="How trajectories become tokens, such as dr-venus-4b.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as trainer.lr=2e-5; as often as you like."),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Processes on this machine, one for each GPU; or start with torchrun.")
    ] = 1,
    change: Annotated[
        bool, typer.Option("--change", help="Go on with other settings (trainer, epochs) than the run was begun with.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Train even where the plan (sanderling train plan) says that the GPU is too small.")
    ] = False,
    merge: Annotated[bool, typer.Option("--merge", help="After LoRA, also write base and adapter as one model.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Fine-tune a model on trajectories. Killed at any moment, the same command goes on.

    Tokens are made and data and model are checked first. OUT then holds model/ or adapter/, metrics.jsonl and checkpoints/.
    """
    from sanderling.recipes.find import find_settings
    from sanderling.runs.progress import Report
    from sanderling.train.sft.prepare import Order
    from sanderling.train.sft.run import run_sft_command, speaks
    from sanderling.train.sft.settings import SftConfig

    config = find_settings("sft", SftConfig, recipe, overrides or [])
    data = config.data.model_copy(
        update=({"files": tuple(files)} if files else {}) | ({"profile": profile} if profile is not None else {})
    )
    given = {"data": data, "merge": config.merge or merge} | ({"model": model} if model is not None else {})
    config = config.model_copy(update=given)
    directory = out or Path("runs") / config.title
    first = speaks()
    if not first:
        warnings.simplefilter("ignore")
    try:
        run_sft_command(Order(config, directory, processes, change, anyway, fresh), Report(Console(quiet=not first)))
    except UserError:
        if first:
            raise
        time.sleep(_LAST_WORDS_S)
        raise typer.Exit(exits.USER_ERROR) from None
    except KeyboardInterrupt:
        if first:
            Console(stderr=True).print(
                "Interrupted: the same command without --fresh goes on where it stopped.", soft_wrap=True
            )
        raise typer.Exit(exits.INTERRUPTED) from None
