"""``sanderling model``: model directories. All logic is in `train.random_model`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli import exits

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A group, though it has one command."""


@app.command()
def init(
    out: Annotated[Path, typer.Option("--out", help="Directory of the new model; must be empty or not exist.")],
    size: Annotated[
        str,
        typer.Option("--size", help="tiny, or as published: 0.6b, 1.7b, 4b, 4b-2507, 8b, 14b, 32b."),
    ] = "tiny",
    world: Annotated[Path | None, typer.Option("--world", help="A world, on whose pages a tokenizer is trained.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="DIR", help="A model's directory, whose tokenizer is copied.")
    ] = None,
    vocab: Annotated[
        int | None, typer.Option("--vocab", min=1, help="Rows of the embedding; as published (tiny: what the tokenizer has).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same weights.")] = 0,
    dtype: Annotated[str, typer.Option("--dtype", help="What weights are stored in: bfloat16 or float32.")] = "bfloat16",
) -> None:
    """Make a randomly initialised Qwen3 of any size, for tests and benchmarks: a Hugging Face directory that knows nothing."""
    from sanderling.core.config import check_config
    from sanderling.runs.progress import Report
    from sanderling.train.random_model import ModelInit, init_model

    values = {"out": out, "size": size, "world": world, "tokenizer": tokenizer, "vocab": vocab, "seed": seed, "dtype": dtype}
    wish = check_config(ModelInit, {name: value for name, value in values.items() if value is not None}, "the options")
    try:
        init_model(wish, Report(Console()))
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted: there is no model yet; the same command begins again.", soft_wrap=True)
        raise typer.Exit(exits.INTERRUPTED) from None
