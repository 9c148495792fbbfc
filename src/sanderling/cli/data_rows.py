"""``sanderling data rows``: what a trainer reads. All logic is in `train.row_source`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sanderling.core.text import visible
from sanderling.recipes.rows import Overlong, rows_of_file


def rows(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cleaned trajectories.")],
    tokenizer: Annotated[Path, typer.Option("--tokenizer", help="A directory with tokenizer.json.")],
    profile: Annotated[str, typer.Option("--profile", help="How messages become tokens, such as dr-venus-4b.")],
    out: Annotated[Path, typer.Option("--out", metavar="ROWS.parquet", help="Where to write.")],
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="A row's limit; the profile's context.")] = None,
    overlong: Annotated[
        Overlong, typer.Option("--overlong", help="Beyond it: drop; cut observations in their middle; split at turns.")
    ] = Overlong.DROP,
) -> None:
    """Turn trajectories into rows of tokens with their loss mask; what makes no row is counted with its reason."""
    counts = rows_of_file(file, out, tokenizer, profile, max_tokens, overlong)
    console = Console(highlight=False)
    share = f" ({counts.trained_tokens / counts.tokens:.0%} trained)" if counts.tokens else ""
    console.print(
        f"{counts.trajectories:,} trajectories: {counts.rows:,} rows of {counts.tokens:,} tokens{share}; "
        f"the longest has {counts.longest:,}."
    )
    if counts.split:
        console.print(f"  {counts.split:,} too long and split into several rows")
    if counts.turns_left_out:
        console.print(f"  {counts.turns_left_out:,} turns are in no row")
    left = counts.left_out()
    for reason, count in left.items():
        if count:
            console.print(Text(f"  {count:,} {reason.replace('_', ' ')}, such as {visible(counts.examples[reason])}"))
    if any(left.values()):
        console.print(Text(f"  which and why: {visible(out.name)}.left-out.jsonl"))
