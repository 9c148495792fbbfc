"""Rows of tokens from a file of trajectories. Importable without torch."""

from pathlib import Path

from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import get_profile
from sanderling.data.importing import open_trajectories
from sanderling.runs.files import check_places
from sanderling.train.encoding import Encoding, Limit
from sanderling.train.encoding import Overlong as Overlong
from sanderling.train.row_source import RowCounts, left_out_file, write_rows


def rows_of_file(
    source: Path, out: Path, tokenizer: Path, profile: str, max_tokens: int | None, overlong: Overlong | str
) -> RowCounts:
    """Write the rows of a file; without a limit, the profile's context is it. Raises UserError."""
    check_places([source, tokenizer], [out, left_out_file(out)])
    chosen = get_profile(profile)
    limit = chosen.budgets.max_context_tokens if max_tokens is None else max_tokens
    return write_rows(
        out, open_trajectories(source), Encoding(load_tokenizer(tokenizer), chosen), Limit(limit, Overlong(overlong))
    )
