"""``sanderling train bootstrap``: a model from nothing. All logic is in `recipes.bootstrap`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli import exits


def bootstrap(
    out: Annotated[Path, typer.Option("--out", help="Directory of the new model; must be empty or not exist.")],
    size: Annotated[
        str | None, typer.Option("--size", help="tiny (the default), or as published: 0.6b, 1.7b, 4b, 4b-2507, 8b, 14b, 32b.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A Qwen3's config.json, in place of --size.")
    ] = None,
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
    from sanderling.recipes.bootstrap import Wish
    from sanderling.recipes.bootstrap import bootstrap as make
    from sanderling.runs.progress import Report

    try:
        make(Wish(out, size, config, world, tokenizer, vocab, seed, dtype), Report(Console()))
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted: there is no model yet; the same command begins again.", soft_wrap=True)
        raise typer.Exit(exits.INTERRUPTED) from None
