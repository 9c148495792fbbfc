"""``sanderling merge run``: one merge. Thin: `sanderling.merge` does the work."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sanderling.core.config import check_config
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.merge.settings import Dtype, MergeSettings, Method
from sanderling.report.numbers import duration
from sanderling.runs.provenance import command_line

MethodName = Annotated[Method, typer.Argument(metavar="METHOD", help=f"One of {', '.join(Method)}.")]
Models = Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Local Hugging Face directories.")]
Base = Annotated[Path | None, typer.Option("--base", help="What the models were trained from; not for linear and slerp.")]
Weights = Annotated[
    list[float] | None, typer.Option("--weight", help="One for each model, in their order; equal shares by default.")
]
Scale = Annotated[
    float | None, typer.Option("--scale", help="λ: multiplies the sum of differences from the base; 1 by default.")
]
Density = Annotated[float | None, typer.Option("--density", help="Share of entries kept (ties, dare, della); 0.5 by default.")]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="DELLA: spread of chances around the density; 0.1 by default.")
]
Normalize = Annotated[
    bool | None,
    typer.Option("--normalize/--no-normalize", help="Divide weights by their sum; by default for linear, ties and della."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="For dare and della: equal seeds give equal models.")]
StoredAs = Annotated[Dtype | None, typer.Option("--dtype", help="What weights are stored in; as the first model by default.")]
TokenizerOf = Annotated[
    Path | None, typer.Option("--tokenizer", help="The model whose tokenizer is copied; the base or the first by default.")
]


def run(
    method: MethodName,
    models: Models,
    out: Annotated[Path, typer.Option("--out", help="Directory of the merged model.")],
    base: Base = None,
    weights: Weights = None,
    scale: Scale = None,
    t: Annotated[float | None, typer.Option("--t", help="slerp: 0 is the first model, 1 the second; 0.5 by default.")] = None,
    density: Density = None,
    epsilon: Epsilon = None,
    normalize: Normalize = None,
    seed: Seed = 0,
    dtype: StoredAs = None,
    tokenizer: TokenizerOf = None,
) -> None:
    """Merge models that were trained from one base into one, tensor by tensor.

    The directory appears whole or not at all, with merge.json, which says what went into it.
    """
    from sanderling.merge.run import merge

    settings = merge_settings(
        method=method, models=models, weights=weights, base=base, scale=scale, t=t, density=density, epsilon=epsilon,
        normalize=normalize, seed=seed, dtype=dtype, tokenizer=tokenizer,
    )  # fmt: skip
    for doubt in settings.doubts():
        warnings.warn(doubt, stacklevel=1)
    with Console(stderr=True).status("Checking and merging"):
        record = merge(settings, out, command_line())
    told = f"{method} of {len(models)} models in {visible(str(out))} ({record.dtype}, {duration(record.seconds)})"
    Console(soft_wrap=True, highlight=False).print(told, markup=False)


def merge_settings(**given: Any) -> MergeSettings:
    """The settings of a merge from options; those that were not given are left at their defaults. Raises UserError."""
    values = {name: value for name, value in given.items() if value is not None}
    settings = check_config(MergeSettings, {**values, "models": tuple(given["models"])}, "this merge")
    for name in settings.idle():
        raise UserError(f"{settings.method} has no use for --{name}: leave it out.")
    return settings
