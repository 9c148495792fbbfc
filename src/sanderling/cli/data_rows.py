"""``sanderling data rows``: what a trainer reads. All logic is in `train.row_files`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sanderling.terminal import visible


def rows(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cleaned trajectories.")],
    tokenizer: Annotated[Path, typer.Option("--tokenizer", help="A directory with tokenizer.json.")],
    profile: Annotated[str, typer.Option("--profile", help="How messages become tokens, such as dr-venus-4b.")],
    out: Annotated[Path, typer.Option("--out", metavar="ROWS.parquet", help="Where to write.")],
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Longer rows are left out and counted; the profile's context.")
    ] = None,
) -> None:
    """Turn trajectories into rows of tokens with their loss mask; what makes no row is counted with its reason."""
    from sanderling.recipes.rows import rows_of_file

    counts = rows_of_file(file, out, tokenizer, profile, max_tokens)
    console = Console(highlight=False)
    share = f" ({counts.trained_tokens / counts.tokens:.0%} trained)" if counts.tokens else ""
    console.print(
        f"{counts.trajectories:,} trajectories: {counts.rows:,} rows of {counts.tokens:,} tokens{share}; "
        f"the longest has {counts.longest:,}."
    )
    left = {"too_long": counts.too_long, "refused": counts.refused, "without_turns": counts.without_turns}
    for reason, count in left.items():
        if count:
            console.print(Text(f"  {count:,} {reason.replace('_', ' ')}, such as {visible(counts.examples[reason])}"))
    if any(left.values()):
        console.print(Text(f"  which and why: {visible(out.name)}.left-out.jsonl"))
