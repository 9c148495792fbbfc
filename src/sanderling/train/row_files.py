"""Supervised rows as Parquet: what a trainer reads, made once and looked at before hours of training.

Contract: ``read_rows(path)`` gives the rows that were written, in order. A trajectory that makes no row is counted with its
reason: too long, without a turn to train, or in an order that no loop could have sent; ``left_out_file(path)`` names each of
them, and all of which only a part is there. Written by row groups, whole or not at all; importable without torch.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates
from sanderling.core.record import Trajectory, encode_record
from sanderling.runs.files import refuse_device
from sanderling.runs.writing import Lines
from sanderling.train.contract import Row
from sanderling.train.encoding import Encoding
from sanderling.train.overlong import Limit
from sanderling.train.sft_rows import Made, rows_of

SCHEMA = pa.schema(
    [
        ("trajectory", pa.string()),
        ("group", pa.string()),
        ("ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.bool_())),
    ]
)
_GROUP_TOKENS = 4_000_000
_READ_ROWS = 16


@dataclass
class RowCounts:
    """What became of the trajectories."""

    trajectories: int = 0
    rows: int = 0
    too_long: int = 0
    """Branches dropped for their length."""
    cut: int = 0
    """Branches with observations that were shortened."""
    cut_tokens: int = 0
    split: int = 0
    """Branches that became several rows."""
    turns_left_out: int = 0
    """Turns to be trained that are in no row."""
    without_turns: int = 0
    refused: int = 0
    """Ids of another tokenizer, or messages in an order that no loop could have sent."""
    tokens: int = 0
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest of all, too long ones included."""
    examples: dict[str, str] = field(default_factory=dict)
    """One example for each reason a row was not made."""
    lengths: Counter[int] = field(default_factory=Counter)
    """Rows by length, in thousands of tokens begun."""

    def left_out(self) -> dict[str, int]:
        """By reason, what is missing in the rows; reasons as in the file of what was left out."""
        return {name: getattr(self, name) for name in ("too_long", "cut", "refused", "without_turns")}

    def as_json(self) -> dict[str, Any]:
        """The figures, for machines."""
        return vars(self) | {"examples": dict(self.examples), "lengths": dict(sorted(self.lengths.items()))}


def left_out_file(path: Path) -> Path:
    """Beside a file of rows: id, reason and detail of every trajectory that misses something; absent where none does."""
    return path.with_name(path.name + ".left-out.jsonl")


def write_rows(path: Path, trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit) -> RowCounts:
    """Write the rows of each trajectory that makes any. Raises UserError when the file cannot be written."""
    counts = RowCounts()
    with Lines(left_out_file(path), keep_empty=False) as left_out:
        _write_file(path, _rows(trajectories, encoding, limit, counts, left_out), _described(encoding, limit))
    return counts


def _write_file(path: Path, rows: Iterator[Row], schema: pa.Schema) -> None:
    part = path.with_name(f".{path.name}.partial")  # one name, so that what a killed run left is written over
    try:
        refuse_device(path)
        try:
            with part.open("wb") as file:
                _write(file, rows, schema)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write {path} ({error.strerror}): choose another place, or free some space.") from error


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, a few in memory at a time. Raises UserError when it holds none."""
    if not path.is_file():
        raise UserError(f"There is no file {path}: write it with sanderling data rows.")
    try:
        with pq.ParquetFile(path) as file:
            if not set(SCHEMA.names) <= set(file.schema_arrow.names):
                raise UserError(f"{path} holds no rows: write it with sanderling data rows.")
            for batch in file.iter_batches(batch_size=_READ_ROWS, columns=SCHEMA.names):
                for row in batch.to_pylist():
                    ids, mask = np.array(row["ids"], dtype=np.int64), np.array(row["loss_mask"], dtype=np.bool_)
                    yield Row(ids=ids, loss_mask=mask, trajectory=row["trajectory"], group=row["group"])
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} is not a readable file of rows ({str(error).splitlines()[0]}): write it again.") from error


def _described(encoding: Encoding, limit: Limit) -> pa.Schema:
    told = {"tokenizer": encoding.tokenizer.fingerprint, "profile": encoding.profile.name}
    return SCHEMA.with_metadata(told | {"max_tokens": str(limit.max_tokens), "overlong": limit.overlong.value})


def _rows(
    trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit, counts: RowCounts, left_out: Lines
) -> Iterator[Row]:
    for trajectory in trajectories:
        counts.trajectories += 1
        try:
            made = rows_of(trajectory, encoding, limit)
        except UserError as error:
            made, missing = Made(), [("refused", str(error))]
            counts.refused += 1
        else:
            missing = _count(made, counts)
        for reason, detail in missing:
            counts.examples.setdefault(reason, f"{trajectory.id}: {detail}" if detail else trajectory.id)
            left_out.add(encode_record({"id": trajectory.id, "reason": reason, "detail": detail}))
        for row in made.rows:
            counts.rows += 1
            counts.tokens += len(row.ids)
            counts.trained_tokens += int(row.loss_mask.sum())
            counts.lengths[len(row.ids) // 1_000] += 1
            yield row


def _count(made: Made, counts: RowCounts) -> list[tuple[str, str]]:
    """Count what became of a trajectory; what of it is missing: the reason, and more about it."""
    counts.longest = max(counts.longest, made.longest)
    for name in ("too_long", "cut", "cut_tokens", "split", "turns_left_out"):
        setattr(counts, name, getattr(counts, name) + getattr(made, name))
    if not made.longest:
        counts.without_turns += 1
        return [("without_turns", "")]
    told = {"too_long": f"{made.longest:,} tokens", "cut": f"{made.cut_tokens:,} of {made.longest:,} tokens"}
    missing = [(reason, detail) for reason, detail in told.items() if getattr(made, reason)]
    if made.turns_left_out and not made.too_long:
        missing.append(("turns_left_out", f"{made.turns_left_out:,} turns"))
    return missing


def _write(file: Any, rows: Iterable[Row], schema: pa.Schema) -> None:
    held: list[dict[str, Any]] = []
    size = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for row in rows:
            names = {"trajectory": without_surrogates(row.trajectory), "group": without_surrogates(row.group)}
            held.append(names | {"ids": row.ids, "loss_mask": row.loss_mask})
            size += len(row.ids)
            if size >= _GROUP_TOKENS:
                writer.write_table(pa.Table.from_pylist(held, schema=schema))
                held, size = [], 0
        if held:
            writer.write_table(pa.Table.from_pylist(held, schema=schema))
