"""Trajectories as Parquet, exactly: typed columns for tokens and texts, JSON text for free-form fields.

Contract: ``list(read_parquet(p)) == trajectories`` after ``write_parquet(p, trajectories)``; None and empty stay apart.
Token ids and versions are int32 lists, log-probabilities float64, masks bool. A trajectory that the columns cannot hold (a lone
surrogate in a text, a seed beyond 64 bits) is kept whole as JSON in the column ``exact``, with only its id and question id in
the other columns. Writing is atomic: the file appears complete or not at all. Memory is bounded by one row group.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.runs.files import WholeFile, or_cannot

_GROUP_ROWS = 256
_GROUP_BYTES = 64 << 20
_READ_ROWS = 2

_PLAIN = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_SHORT = {"schema_version", "leaf", "parent", "token_ids", "versions"}
"""Whole numbers that 32 bits hold."""


def _column(name: str, annotation: Any) -> pa.Field:
    """The column of a field: texts, names of kinds, and free-form dictionaries as JSON, are strings."""
    if get_origin(annotation) is UnionType:  # with None
        annotation = get_args(annotation)[0]
    is_list = get_origin(annotation) is tuple
    if is_list:
        annotation = get_args(annotation)[0]
    kind = pa.int32() if name in _SHORT else _PLAIN.get(annotation, pa.string())
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = pa.struct(_columns(annotation))
    return pa.field(name, pa.list_(kind) if is_list else kind)


def _columns(model: type[BaseModel]) -> list[pa.Field]:
    return [_column(name, field.annotation) for name, field in model.model_fields.items()]


SCHEMA = pa.schema([*_columns(Trajectory), ("exact", pa.string())])
"""The columns of a trajectory file."""


def write_parquet(path: Path | str, trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories by row groups; returns how many. Raises UserError when the place cannot be written."""
    path = Path(path)
    count, held, size = 0, [], 0
    with (
        or_cannot(f"write {path}"),
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
                    yield _trajectory(row)
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


def _row(record: BaseModel) -> dict[str, Any]:
    """A record as a row: what is free-form as JSON text."""
    row: dict[str, Any] = {}
    for name, value in vars(record).items():
        if isinstance(value, BaseModel):
            row[name] = _row(value)
        elif isinstance(value, dict):
            row[name] = json.dumps(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            row[name] = [_row(one) for one in value]
        else:
            row[name] = value
    return row


def _trajectory(row: dict[str, Any]) -> Trajectory:
    """Raises ValueError for columns that bear the names and hold something else."""
    try:
        exact = row.pop("exact")
        if exact is not None:
            return decode_trajectory(json.loads(exact))
        row["meta"] = json.loads(row["meta"])
        row["question"]["meta"] = json.loads(row["question"]["meta"])
        for node in row["nodes"]:
            node["raw"] = None if node["raw"] is None else json.loads(node["raw"])
            for call in node["calls"]:
                call["arguments"] = json.loads(call["arguments"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a row holds no trajectory: {error}") from error
    return decode_trajectory(row)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
