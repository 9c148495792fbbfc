"""From what a person gives to rows on disk: files of rows are used as they are, trajectories become rows once.

Importable without torch.
"""

from collections.abc import Sequence
from pathlib import Path

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.data.importing import open_trajectories
from sanderling.runs.progress import Report
from sanderling.train.encoding import Encoding
from sanderling.train.row_source import RowCounts, holds_rows, write_rows
from sanderling.train.sft.settings import SftConfig

ROWS = "rows.parquet"


def are_rows(files: Sequence[Path]) -> bool:
    """Whether files hold rows, else trajectories. Raises UserError when there are none, or some of each."""
    if not files:
        raise UserError("There is nothing to train on: name files of trajectories or of rows.")
    for file in files:
        if not file.exists():
            raise UserError(f"There is no file {file}: name files of trajectories, or of rows (.parquet).")
    ready = [holds_rows(file) for file in files]
    if any(ready) and not all(ready):
        rows = files[ready.index(True)]
        raise UserError(f"{rows} holds rows, others hold trajectories: give one kind, or make rows of the others first.")
    return all(ready)


def prepare_rows(config: SftConfig, out: Path, report: Report, *, made: bool) -> list[Path]:
    """The files of rows to train on. ``made``: those of this run's trajectories were made before and are used again.

    Raises UserError when there is nothing to train on, or no saying how it becomes tokens.
    """
    if are_rows(config.data.files):
        return list(config.data.files)
    target = out / ROWS
    if not (made and target.is_file()):
        report.say(_told(_make(config, target)))
    return [target]


def _make(config: SftConfig, target: Path) -> RowCounts:
    if not config.data.profile:
        raise UserError("Trajectories need a profile to become tokens: give --profile, such as dr-venus-4b.")
    if config.model is None:
        raise ValueError("the model was to be checked before")
    profile = get_profile(config.data.profile)
    encoding = Encoding(load_tokenizer(config.model), profile)
    limit = config.data.limit(profile.budgets.max_context_tokens)
    trajectories = (one for file in config.data.files for one in open_trajectories(file))
    return write_rows(target, trajectories, encoding, limit)


def _told(counts: RowCounts) -> str:
    parts = [f"{counts.trajectories:,} trajectories made {counts.rows:,} rows"]
    parts += [f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.left_out().items() if count]
    which = f" (which: {ROWS}.left-out.jsonl)" if any(counts.left_out().values()) else ""
    return ", ".join([*parts, f"{counts.split:,} split"] if counts.split else parts) + which + "."
