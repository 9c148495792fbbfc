"""``sanderling data run``: raw files to supervised rows in one command. Thin: `data.pipeline` does the work."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli import exits
from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending, read_prices
from sanderling.cli.judges import JudgePrices, opened_judge
from sanderling.core.text import visible
from sanderling.judge.verdict import Judge


def run(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCES...", help="Raw files or folders of them, in any layout.")],
    out: Annotated[Path, typer.Option("--out", help="Directory of the run.")],
    recipe: Annotated[
        str, typer.Option("--recipe", help="dr-venus, literesearcher, agentcpm, or a TOML file with other settings.")
    ] = "dr-venus",
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="A directory with tokenizer.json; without it no rows are made.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as judge.keep=all; as often as you like."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="A judging model's replies waited for at a time.")
    ] = 8,
    price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Import, clean, judge, dedupe, split, resample, make rows, and report; steps that are done are skipped.

    Judges stand in the recipe: --set 'judge.judges=["contains", "http://host:port/v1#model"]' asks a model where a rule fails.
    """
    from sanderling.data.pipeline import OpenVerdictsError, run_data
    from sanderling.data.pipeline_config import DataRun, find_data_recipe
    from sanderling.policy.load import names_model
    from sanderling.recipes.rows import rows_of_file
    from sanderling.runs.progress import Report
    from sanderling.runs.provenance import command_line
    from sanderling.runs.stages import clear_run

    config = find_data_recipe(recipe, overrides or [])
    if tokenizer is not None:
        config = config.model_copy(update={"tokenizer": tokenizer})
    chosen = DataRun(tuple(sources), out, config)
    chosen.check()
    read_prices(price or [], sum(map(names_model, config.judge.judges)), max_cost)
    if fresh:
        clear_run(out, sources)
    console = Console()

    def opened(specs: Sequence[str], run: Path) -> AbstractAsyncContextManager[Judge]:
        spending = Spending(run, max_tokens, max_cost, cache)
        return opened_judge(specs, price or [], spending, concurrency=concurrency, console=console)

    try:
        run_data(chosen, Report(console), command_line(), write_rows=rows_of_file, open_judges=opened, concurrency=concurrency)
    except OpenVerdictsError as error:
        Console(stderr=True).print(visible(str(error)), soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit(exits.UNFINISHED) from None
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted: the same command goes on where it stopped.", soft_wrap=True)
        raise typer.Exit(exits.INTERRUPTED) from None
