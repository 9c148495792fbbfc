"""Supervised rows as Parquet, and where a trainer's rows come from: by number, with what is to be known of them beforehand.

``read_rows(path)`` gives the rows that were written, in order. A trajectory that makes no row is counted with its reason: too
long, without a turn to train, or in an order that no loop could have sent; ``left_out_file(path)`` names each of them, and all
of which only a part is there. Files are written by row groups, whole or not at all.

A trainer's file is read through once, a row group at a time, for lengths and for whatever would stop training later; then rows
are read where they lie, so memory holds a few row groups and never the whole. Importable without torch.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory, encode_record
from sanderling.data.importing import open_trajectories
from sanderling.runs.files import check_places, refuse_device
from sanderling.runs.jsonl import Lines
from sanderling.train.contract import IntArray, Row
from sanderling.train.encoding import Encoding, Limit, Made, Overlong, rows_of

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
_HELD = 8
"""Row groups in memory: 16 to 20 MB each as they are written."""


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


@dataclass(frozen=True)
class Survey:
    """What rows are like, as far as a model or a person has to know."""

    rows: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    longest: int = 0
    longest_row: str = ""
    """The trajectory of the longest row."""
    largest_id: int = -1
    tokenizer: str | None = None
    """Fingerprint of the tokenizer that made the ids, where it is known."""


class RowSource(Protocol):
    """Trajectories by number, each as its rows (a forked one has several), with their lengths known beforehand."""

    @property
    def lengths(self) -> IntArray:
        """Tokens of each trajectory's rows."""
        ...

    @property
    def survey(self) -> Survey: ...

    def __getitem__(self, index: int) -> Sequence[Row]: ...


def grouped(names: Sequence[str]) -> list[list[int]]:
    """Places of equal names together, in the order of first appearance; one without a name is alone."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name or f"\0{place}", []).append(place)
    return list(found.values())


class ListSource:
    """Rows held in memory, those of one trajectory together; rows with nothing to train are left out."""

    def __init__(self, rows: Sequence[Row]) -> None:
        trained = [row for row in rows if row.loss_mask.any()]
        self._rows = [[trained[place] for place in places] for places in grouped([row.trajectory for row in trained])]
        self._lengths = np.array([sum(len(row.ids) for row in family) for family in self._rows], dtype=np.int64)
        longest = max(rows, key=lambda row: len(row.ids), default=None)
        self._survey = Survey(
            rows=len(rows),
            tokens=sum(len(row.ids) for row in rows),
            trained_tokens=sum(int(row.loss_mask.sum()) for row in rows),
            longest=0 if longest is None else len(longest.ids),
            longest_row="" if longest is None else longest.trajectory,
            largest_id=max((int(row.ids.max()) for row in rows if len(row.ids)), default=-1),
        )

    @property
    def lengths(self) -> IntArray:
        return self._lengths

    @property
    def survey(self) -> Survey:
        return self._survey

    def __getitem__(self, index: int) -> Sequence[Row]:
        return self._rows[index]


@dataclass(frozen=True)
class RowIndex:
    """Where the rows of files lie: all that has to be known of them to train, and cheap to send to another process."""

    paths: tuple[Path, ...]
    families: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each trajectory its rows: number of the file, of the row group in it, of the row in that."""
    lengths: IntArray
    survey: Survey


def holds_rows(path: Path) -> bool:
    """Whether a file is one of rows; False for anything else, readable or not."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return set(SCHEMA.names) <= set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError):
        return False


def index_rows(paths: Sequence[Path]) -> RowIndex:
    """Look through files of rows; rows with nothing to train are left out, those of one trajectory are together.

    Raises UserError for files that cannot be read, or whose tokenizers differ, and for rows that nothing can be learnt from.
    """
    names: list[str] = []
    places: list[tuple[int, int, int]] = []
    lengths: list[int] = []
    told: list[Survey] = []
    for number, path in enumerate(paths):
        try:
            with path.open("rb") as opened, pq.ParquetFile(opened) as file:
                meta = file.schema_arrow.metadata or {}
                told.append(Survey(tokenizer=meta[b"tokenizer"].decode() if b"tokenizer" in meta else None))
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=SCHEMA.names)
                    look = _look(path, table)
                    told.append(look.survey)
                    for row in np.flatnonzero(look.trained).tolist():
                        names.append(_named(look.names[row], number))
                        places.append((number, group, row))
                        lengths.append(int(look.lengths[row]))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise UserError(f"{path} is not a readable file of rows ({_first(error)}): write it again.") from error
    families = [tuple(family) for family in grouped(names)]
    return RowIndex(
        paths=tuple(paths),
        families=tuple(tuple(places[row] for row in family) for family in families),
        lengths=np.array([sum(lengths[row] for row in family) for family in families], dtype=np.int64),
        survey=_together(told),
    )


def _named(name: str, number: int) -> str:
    """A trajectory's name among all files: equal names in two files are two trajectories, for the loss as for the order."""
    return f"{name} (file {number + 1})" if name and number else name


class ParquetSource:
    """The rows of files, read where they lie; a few row groups are held."""

    def __init__(self, index: RowIndex) -> None:
        self._index = index
        self._held: OrderedDict[tuple[int, int], Any] = OrderedDict()

    @property
    def lengths(self) -> IntArray:
        return self._index.lengths

    @property
    def survey(self) -> Survey:
        return self._index.survey

    def __getitem__(self, index: int) -> Sequence[Row]:
        return [self._row(*place) for place in self._index.families[index]]

    def _row(self, number: int, group: int, row: int) -> Row:
        table = self._group(number, group)
        ids, mask = (table[name][row].values.to_numpy(zero_copy_only=False) for name in ("ids", "loss_mask"))
        return Row(
            ids=ids.astype(np.int64),
            loss_mask=mask.astype(np.bool_),
            trajectory=_named(table["trajectory"][row].as_py() or "", number),
            group=table["group"][row].as_py() or "",
        )

    def _group(self, number: int, group: int) -> Any:
        key = (number, group)
        if key not in self._held:
            path = self._index.paths[number]
            try:
                with path.open("rb") as opened, pq.ParquetFile(opened) as file:
                    self._held[key] = file.read_row_group(group, columns=SCHEMA.names)
            except (pa.ArrowException, OSError) as error:
                raise UserError(f"{path} can no longer be read ({_first(error)}): put it back, then run again.") from error
        self._held.move_to_end(key)
        while len(self._held) > _HELD:
            self._held.popitem(last=False)
        return self._held[key]


@dataclass(frozen=True)
class _Look:
    """A row group, looked through."""

    names: list[str]
    lengths: IntArray
    trained: IntArray
    """Trained tokens of each row."""
    survey: Survey


def _look(path: Path, table: pa.Table) -> _Look:
    names = [name or "" for name in table["trajectory"].to_pylist()]
    ids, mask = (table[name].combine_chunks() for name in ("ids", "loss_mask"))
    if not _is_list(ids.type, pa.types.is_integer) or not _is_list(mask.type, pa.types.is_boolean):
        raise UserError(
            f"{path} holds {ids.type} ids and {mask.type} masks, not lists of integers and of booleans: write it again."
        )
    if any(values.null_count or values.flatten().null_count for values in (ids, mask)):
        raise UserError(f"{path} holds a row without ids or without a loss mask, or one with gaps: write it again.")
    lengths, mask_lengths = (np.diff(values.offsets.to_numpy()).astype(np.int64) for values in (ids, mask))
    values, trains = ids.flatten().to_numpy(), mask.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    unlike = np.flatnonzero(lengths != mask_lengths)
    if unlike.size:
        row = int(unlike[0])
        raise UserError(
            f"{path}: row {names[row] or row} has {lengths[row]:,} ids and {mask_lengths[row]:,} places in its loss mask: "
            "write it again."
        )
    ends = np.cumsum(lengths)
    sums = np.concatenate(([0], np.cumsum(trains)))
    first = (
        np.flatnonzero((lengths > 0) & (trains[np.minimum(ends - lengths, max(len(trains) - 1, 0))] > 0)) if len(trains) else []
    )
    if len(first):
        row = int(first[0])
        raise UserError(f"{path}: row {names[row] or row} trains its first token, which nothing precedes: write it again.")
    if values.size and int(values.min()) < 0:
        raise UserError(f"{path} holds negative ids: write it again.")
    longest = int(np.argmax(lengths)) if len(lengths) else 0
    return _Look(
        names,
        lengths,
        sums[ends] - sums[ends - lengths],
        Survey(
            rows=len(names),
            tokens=int(lengths.sum()),
            trained_tokens=int(trains.sum()),
            longest=int(lengths.max(initial=0)),
            longest_row=names[longest] if names else "",
            largest_id=int(values.max(initial=-1)),
        ),
    )


def _is_list(kind: pa.DataType, of: Callable[[pa.DataType], bool]) -> bool:
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and of(kind.value_type)


def _together(told: Sequence[Survey]) -> Survey:
    tokenizers = sorted({one.tokenizer for one in told if one.tokenizer is not None})
    if len(tokenizers) > 1:
        raise UserError(f"The files of rows are of several tokenizers ({', '.join(tokenizers)}): train on those of one.")
    longest = max(told, key=lambda one: one.longest, default=Survey())
    return Survey(
        rows=sum(one.rows for one in told),
        tokens=sum(one.tokens for one in told),
        trained_tokens=sum(one.trained_tokens for one in told),
        longest=longest.longest,
        longest_row=longest.longest_row,
        largest_id=max((one.largest_id for one in told), default=-1),
        tokenizer=tokenizers[0] if tokenizers else None,
    )


def _first(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
