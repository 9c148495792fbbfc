"""``sanderling model``: model directories. All logic is in `train.random_model`."""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.cli.options import one_voice

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A group, though it has one command."""


@app.command()
def init(
    out: Annotated[Path, typer.Option("--out", help="Directory of the new model; must be empty or not exist.")],
    size: Annotated[str, typer.Option("--size", help="tiny, or as published: 0.6b, 1.7b, 4b, 4b-2507, 8b, 14b, 32b.")] = "tiny",
    world: Annotated[Path | None, typer.Option("--world", help="A world, on whose pages a tokenizer is trained.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="DIR", help="A model's directory, whose tokenizer is copied.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same weights.")] = 0,
    dtype: Annotated[str, typer.Option("--dtype", help="What weights are stored in: bfloat16 or float32.")] = "bfloat16",
) -> None:
    """Make a randomly initialised Qwen3 of any size, for tests and benchmarks: a Hugging Face directory that knows nothing."""
    from sanderling.core.config import check_config
    from sanderling.train.random_model import ModelInit, init_model

    values = {"out": out, "size": size, "world": world, "tokenizer": tokenizer, "seed": seed, "dtype": dtype}
    with one_voice() as report:
        init_model(check_config(ModelInit, values, "the options"), report)
