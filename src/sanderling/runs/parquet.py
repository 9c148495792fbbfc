"""Trajectories as Parquet, exactly: typed columns for tokens and texts, JSON text for free-form fields.

Contract: ``list(read_parquet(p)) == trajectories`` after ``write_parquet(p, trajectories)``; None and empty stay apart.
Token ids and versions are int32 lists, log-probabilities float64, masks bool. A trajectory that the columns cannot hold (a lone
surrogate in a text, a seed beyond 64 bits) is kept whole as JSON in the column ``exact``, with only its id and question id in
the other columns. Writing is atomic: the file appears complete or not at all. Memory is bounded by one row group.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.core.record import Node, Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.runs.files import WholeFile, cannot_write

_GROUP_ROWS = 256
_GROUP_BYTES = 64 << 20
_READ_ROWS = 2

_STRINGS = pa.list_(pa.string())
_CALL = pa.struct([("name", pa.string()), ("arguments", pa.string()), ("raw", pa.string())])
_EVENT = pa.struct(
    [
        ("name", pa.string()),
        ("role", pa.string()),
        ("status", pa.string()),
        ("parts", _STRINGS),
        ("latency_s", pa.float64()),
        ("provenance", _STRINGS),
    ]
)
_NODE = pa.struct(
    [
        ("parent", pa.int32()),
        ("role", pa.string()),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("token_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.bool_())),
        ("logprobs", pa.list_(pa.float64())),
        ("versions", pa.list_(pa.int32())),
        ("think", pa.string()),
        ("calls", pa.list_(_CALL)),
        ("answer", pa.string()),
        ("problems", _STRINGS),
        ("rejected", pa.bool_()),
        ("events", pa.list_(_EVENT)),
        ("seconds", pa.float64()),
        ("prefilled_tokens", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("sampled_tokens", pa.int64()),
        ("raw", pa.string()),
    ]
)
_QUESTION = pa.struct(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("answers", _STRINGS),
        ("masked_urls", _STRINGS),
        ("hops", pa.int64()),
        ("meta", pa.string()),
    ]
)
_SEEDS = pa.struct([("run", pa.int64()), ("episode", pa.int64()), ("attempt", pa.int64())])
SCHEMA = pa.schema(
    [
        ("schema_version", pa.int32()),
        ("id", pa.string()),
        ("question", _QUESTION),
        ("nodes", pa.list_(_NODE)),
        ("leaf", pa.int32()),
        ("ending", pa.string()),
        ("answer", pa.string()),
        ("profile", pa.string()),
        ("model", pa.string()),
        ("world", pa.string()),
        ("tokenizer", pa.string()),
        ("seeds", _SEEDS),
        ("seconds", pa.float64()),
        ("detail", pa.string()),
        ("meta", pa.string()),
        ("exact", pa.string()),
    ]
)
"""The columns of a trajectory file."""


def write_parquet(path: Path | str, trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories by row groups; returns how many. Raises UserError when the place cannot be written."""
    path = Path(path)
    count, held, size = 0, [], 0
    with (
        cannot_write(path),
        WholeFile(path) as whole,
        pq.ParquetWriter(whole.file, SCHEMA, compression="zstd") as writer,
    ):
        for trajectory in trajectories:
            held.append(_table(trajectory))
            size += held[-1].nbytes
            count += 1
            if len(held) >= _GROUP_ROWS or size >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables(held).combine_chunks())
                held, size = [], 0
        if held:
            writer.write_table(pa.concat_tables(held).combine_chunks())
    return count


def read_parquet(path: Path | str) -> Iterator[Trajectory]:
    """The trajectories of a file, a few rows in memory at a time. Raises UserError when it is not a trajectory file."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no file {path}: check the path.")
    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in SCHEMA.names if name not in file.schema_arrow.names]
            if missing:
                raise UserError(f"{path} lacks the column {missing[0]!r}: give a file written by sanderling.")
            for batch in file.iter_batches(batch_size=_READ_ROWS, columns=SCHEMA.names):
                for row in batch.to_pylist():
                    yield _read_row(row)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable trajectory file ({str(error).splitlines()[0]}): write it again.") from error


def is_trajectory_parquet(path: Path) -> bool:
    """Whether a file is Parquet with our columns; false for any other file, a damaged one included."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return False
        with pq.ParquetFile(path) as found:
            return set(SCHEMA.names) <= set(found.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError):
        return False


def _table(trajectory: Trajectory) -> pa.Table:
    """One row."""
    whole = encode_trajectory(trajectory)
    try:
        return pa.Table.from_pylist([_row(trajectory)], schema=SCHEMA)
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):
        # Arrow holds valid UTF-8 and bounded integers only.
        names = {"id": _printable(trajectory.id), "question": {"id": _printable(trajectory.question.id)}}
        exact = json.dumps(decode_record(whole))
        return pa.Table.from_pylist([names | {"exact": exact}], schema=SCHEMA)


def _row(trajectory: Trajectory) -> dict[str, Any]:
    row = dict(vars(trajectory))
    row["question"] = vars(trajectory.question) | {"meta": json.dumps(trajectory.question.meta)}
    row["nodes"] = [_node_row(node) for node in trajectory.nodes]
    row["seeds"] = vars(trajectory.seeds)
    row["meta"] = json.dumps(trajectory.meta)
    row["exact"] = None
    return row


def _node_row(node: Node) -> dict[str, Any]:
    row = dict(vars(node))
    row["calls"] = [vars(call) | {"arguments": json.dumps(call.arguments)} for call in node.calls]
    row["events"] = [vars(event) for event in node.events]
    row["raw"] = None if node.raw is None else json.dumps(node.raw)
    return row


def _read_row(row: dict[str, Any]) -> Trajectory:
    """Raises ValueError for columns that bear the names and hold something else."""
    try:
        return _trajectory(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a row holds no trajectory: {error}") from error


def _trajectory(row: dict[str, Any]) -> Trajectory:
    exact = row.pop("exact")
    if exact is not None:
        return decode_trajectory(json.loads(exact))
    row["meta"] = json.loads(row["meta"])
    row["question"]["meta"] = json.loads(row["question"]["meta"])
    for node in row["nodes"]:
        node["raw"] = None if node["raw"] is None else json.loads(node["raw"])
        for call in node["calls"]:
            call["arguments"] = json.loads(call["arguments"])
    return decode_trajectory(row)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
