"""Trajectories as Parquet, exactly: typed columns for tokens and texts, JSON text for free-form fields.

Contract: ``list(read_parquet(p)) == trajectories`` after ``write_parquet(p, trajectories)``; None and empty stay apart.
Token ids and versions are int32 lists, log-probabilities float64, masks bool. A trajectory that the columns cannot hold (a lone
surrogate in a text, a seed beyond 64 bits) is kept whole as JSON in the column ``exact``, with only its ids in the others.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.runs.files import WholeFile, or_cannot

_GROUP_ROWS, _GROUP_BYTES = 256, 64 << 20  # what is held in memory at most
_PLAIN = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_SHORT = {"schema_version", "leaf", "parent", "token_ids", "versions"}
"""Whole numbers that 32 bits hold."""


def _columns(model: type[BaseModel]) -> list[pa.Field]:
    return [_column(name, field.annotation) for name, field in model.model_fields.items()]


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


SCHEMA = pa.schema([*_columns(Trajectory), ("exact", pa.string())])
"""The columns of a trajectory file."""


def write_parquet(path: Path | str, trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories, a whole file or none; returns how many. Raises UserError when the place cannot be written."""
    path = Path(path)
    count, held = 0, list[pa.Table]()
    with (
        or_cannot(f"write {path}"),
        WholeFile(path) as whole,
        pq.ParquetWriter(whole.file, SCHEMA, compression="zstd") as writer,
    ):
        for trajectory in trajectories:
            if len(held) >= _GROUP_ROWS or sum(table.nbytes for table in held) >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables(held).combine_chunks())
                held = []
            held.append(_table(trajectory))
            count += 1
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
            for batch in file.iter_batches(batch_size=2, columns=SCHEMA.names):
                yield from map(_trajectory, batch.to_pylist())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable trajectory file ({str(error).splitlines()[0]}): write it again.") from error


def is_trajectory_parquet(path: Path) -> bool:
    """Whether a file is Parquet with our columns; false for any other file, a damaged one included."""
    with suppress(pa.ArrowException, OSError, ValueError):
        return set(SCHEMA.names) <= set(pq.read_schema(path).names)
    return False


def _table(trajectory: Trajectory) -> pa.Table:
    """One row."""
    try:
        return pa.Table.from_pylist([_with_free(trajectory.model_dump(), json.dumps)], schema=SCHEMA)
    except (ValueError, OverflowError, pa.ArrowException):  # Arrow holds valid UTF-8 and bounded integers only
        ids = (one.encode("utf-8", "replace").decode() for one in (trajectory.id, trajectory.question.id))
        exact = json.dumps(decode_record(encode_trajectory(trajectory)))
        return pa.Table.from_pylist([{"id": next(ids), "question": {"id": next(ids)}, "exact": exact}], schema=SCHEMA)


def _trajectory(row: dict[str, Any]) -> Trajectory:
    """Raises ValueError for columns that bear the names and hold something else."""
    exact = row.pop("exact")
    try:
        return decode_trajectory(_with_free(row, json.loads) if exact is None else json.loads(exact))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a row holds no trajectory: {error}") from error


def _with_free(row: dict[str, Any], converted: Callable[[Any], Any]) -> dict[str, Any]:
    """The row with its free-form fields converted, to JSON text or from it."""
    row["meta"], row["question"]["meta"] = converted(row["meta"]), converted(row["question"]["meta"])
    for node in row["nodes"]:
        node["raw"] = None if node["raw"] is None else converted(node["raw"])
        for call in node["calls"]:
            call["arguments"] = converted(call["arguments"])
    return row
