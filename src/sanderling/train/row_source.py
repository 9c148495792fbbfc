"""Supervised rows as Parquet, and where a trainer's rows come from: by number, with what is to be known of them beforehand.

A trajectory that makes no row is counted with its reason: too long, without a turn to train, or in an order that no loop could
have sent; ``left_out_file(path)`` names each of them, and all of which only a part is there. Files are written by row groups,
whole or not at all.

A trainer's file is read through once, a row group at a time, for lengths and for whatever would stop training later; then rows
are read where they lie, so memory holds a few row groups and never the whole. Importable without torch.

Example: ``ParquetSource(index_rows([Path("rows.parquet")]))[0]`` are the rows of the first trajectory.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
_HELD = 8
"""Row groups in memory: 16 to 20 MB each as they are written."""


# -- writing -----------------------------------------------------------------------------------------------------------------


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

    def count(self, made: Made) -> list[tuple[str, str]]:
        """Count what became of a trajectory; what of it is missing: the reason, and more about it."""
        self.longest = max(self.longest, made.longest)
        self.rows += len(made.rows)
        for row in made.rows:
            self.tokens += len(row.ids)
            self.trained_tokens += int(row.loss_mask.sum())
            self.lengths[len(row.ids) // 1_000] += 1
        for name in ("too_long", "cut", "cut_tokens", "split", "turns_left_out"):
            setattr(self, name, getattr(self, name) + getattr(made, name))
        if not made.longest:
            self.without_turns += 1
            return [("without_turns", "")]
        told = {"too_long": f"{made.longest:,} tokens", "cut": f"{made.cut_tokens:,} of {made.longest:,} tokens"}
        missing = [(reason, detail) for reason, detail in told.items() if getattr(made, reason)]
        if made.turns_left_out and not made.too_long:
            missing.append(("turns_left_out", f"{made.turns_left_out:,} turns"))
        return missing


def sft_rows(trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit) -> tuple[list[Row], RowCounts]:
    """The rows of all trajectories in memory, in order. Raises UserError as `encoding.rows_of` does."""
    rows: list[Row] = []
    counts = RowCounts()
    for trajectory in trajectories:
        made = rows_of(trajectory, encoding, limit)
        counts.count(made)
        rows += made.rows
    return rows, counts


def left_out_file(path: Path) -> Path:
    """Beside a file of rows: id, reason and detail of every trajectory that misses something; absent where none does."""
    return path.with_name(path.name + ".left-out.jsonl")


def rows_of_file(
    source: Path, out: Path, tokenizer: Path, profile: str, max_tokens: int | None, overlong: Overlong | str
) -> RowCounts:
    """Write the rows of a file of trajectories; without a limit, the profile's context is it. Raises UserError."""
    check_places([source, tokenizer], [out, left_out_file(out)])
    from sanderling.data.importing import open_trajectories  # all layouts; training itself reads rows

    chosen = get_profile(profile)
    limit = chosen.budgets.max_context_tokens if max_tokens is None else max_tokens
    return write_rows(
        out, open_trajectories(source), Encoding(load_tokenizer(tokenizer), chosen), Limit(limit, Overlong(overlong))
    )


def write_rows(path: Path, trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit) -> RowCounts:
    """Write the rows of each trajectory that makes any. Raises UserError when the file cannot be written."""
    counts = RowCounts()
    told = {"tokenizer": encoding.tokenizer.fingerprint, "profile": encoding.profile.name}
    schema = SCHEMA.with_metadata(told | {"max_tokens": str(limit.max_tokens), "overlong": limit.overlong.value})
    part = path.with_name(f".{path.name}.partial")  # one name, so that what a killed run left is written over
    with Lines(left_out_file(path), keep_empty=False) as left_out:
        try:
            refuse_device(path)
            try:
                with part.open("wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
                    for group in _groups(_rows(trajectories, encoding, limit, counts, left_out)):
                        writer.write_table(pa.Table.from_pylist(group, schema=schema))
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"Cannot write {path} ({error.strerror}): choose another place, or free some space.") from error
    return counts


def _rows(
    trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit, counts: RowCounts, left_out: Lines
) -> Iterator[Row]:
    for trajectory in trajectories:
        counts.trajectories += 1
        try:
            made = rows_of(trajectory, encoding, limit)
            missing = counts.count(made)
        except UserError as error:
            made, missing = Made(), [("refused", str(error))]
            counts.refused += 1
        for reason, detail in missing:
            counts.examples.setdefault(reason, f"{trajectory.id}: {detail}" if detail else trajectory.id)
            left_out.add(encode_record({"id": trajectory.id, "reason": reason, "detail": detail}))
        yield from made.rows


def _groups(rows: Iterable[Row]) -> Iterator[list[dict[str, Any]]]:
    """Rows as they are stored, as many together as make a row group."""
    held: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        names = {"trajectory": without_surrogates(row.trajectory), "group": without_surrogates(row.group)}
        held.append(names | {"ids": row.ids, "loss_mask": row.loss_mask})
        size += len(row.ids)
        if size >= _GROUP_TOKENS:
            yield held
            held, size = [], 0
    if held:
        yield held


# -- reading -----------------------------------------------------------------------------------------------------------------


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

    def __add__(self, other: "Survey") -> "Survey":
        longer = other if other.longest > self.longest else self
        return Survey(
            rows=self.rows + other.rows,
            tokens=self.tokens + other.tokens,
            trained_tokens=self.trained_tokens + other.trained_tokens,
            longest=longer.longest,
            longest_row=longer.longest_row,
            largest_id=max(self.largest_id, other.largest_id),
            tokenizer=self.tokenizer or other.tokenizer,
        )


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
        self.lengths: IntArray = np.array([sum(len(row.ids) for row in family) for family in self._rows], dtype=np.int64)
        self.survey = Survey()
        for row in rows:
            size, largest = len(row.ids), int(row.ids.max(initial=-1))
            self.survey += Survey(1, size, int(row.loss_mask.sum()), size, row.trajectory, largest)

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
    survey, tokenizers = Survey(), set[str]()
    for number, path in enumerate(paths):
        try:
            with path.open("rb") as opened, pq.ParquetFile(opened) as file:
                if told := (file.schema_arrow.metadata or {}).get(b"tokenizer"):
                    tokenizers.add(told.decode())
                for group in range(file.num_row_groups):
                    own, sizes, trained, largest = _checked(path, file.read_row_group(group, columns=SCHEMA.names))
                    for row, (name, size, count) in enumerate(zip(own, sizes.tolist(), trained.tolist(), strict=True)):
                        survey += Survey(1, size, count, size, name)
                        if count:
                            names.append(_named(name, number))
                            places.append((number, group, row))
                            lengths.append(size)
                    survey += Survey(largest_id=largest)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise UserError(f"{path} is not a readable file of rows ({_first(error)}): write it again.") from error
    if len(tokenizers) > 1:
        told = ", ".join(sorted(tokenizers))
        raise UserError(f"The files of rows are of several tokenizers ({told}): train on those of one.")
    families = grouped(names)
    return RowIndex(
        paths=tuple(paths),
        families=tuple(tuple(places[row] for row in family) for family in families),
        lengths=np.array([sum(lengths[row] for row in family) for family in families], dtype=np.int64),
        survey=replace(survey, tokenizer=min(tokenizers, default=None)),
    )


def _named(name: str, number: int) -> str:
    """A trajectory's name among all files: equal names in two files are two trajectories, for the loss as for the order."""
    return f"{name} (file {number + 1})" if name and number else name


def _checked(path: Path, table: pa.Table) -> tuple[list[str], IntArray, IntArray, int]:
    """Of a row group the rows' names, their tokens, trained ones, and the largest id. Raises UserError for bad rows."""
    names = [name or "" for name in table["trajectory"].to_pylist()]
    ids, mask = (table[name].combine_chunks() for name in ("ids", "loss_mask"))
    lists = all(pa.types.is_list(one.type) or pa.types.is_large_list(one.type) for one in (ids, mask))
    if not lists or not pa.types.is_integer(ids.type.value_type) or not pa.types.is_boolean(mask.type.value_type):
        raise UserError(
            f"{path} holds {ids.type} ids and {mask.type} masks, not lists of integers and of booleans: write it again."
        )
    if any(values.null_count or values.flatten().null_count for values in (ids, mask)):
        raise UserError(f"{path} holds a row without ids or without a loss mask, or one with gaps: write it again.")
    lengths, mask_lengths = (np.diff(values.offsets.to_numpy()).astype(np.int64) for values in (ids, mask))
    values, trains = ids.flatten().to_numpy(), mask.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    for row in np.flatnonzero(lengths != mask_lengths):
        raise UserError(
            f"{path}: row {names[row] or row} has {lengths[row]:,} ids and {mask_lengths[row]:,} places in its loss mask: "
            "write it again."
        )
    ends, sums = np.cumsum(lengths), np.concatenate(([0], np.cumsum(trains)))
    starts = ends - lengths
    for row in np.flatnonzero((lengths > 0) & (sums[np.minimum(starts + 1, len(trains))] > sums[starts])):
        raise UserError(f"{path}: row {names[row] or row} trains its first token, which nothing precedes: write it again.")
    if values.size and int(values.min()) < 0:
        raise UserError(f"{path} holds negative ids: write it again.")
    return names, lengths, sums[ends] - sums[starts], int(values.max(initial=-1))


class ParquetSource:
    """The rows of files, read where they lie; a few row groups are held."""

    def __init__(self, index: RowIndex) -> None:
        self._index = index
        self.lengths, self.survey = index.lengths, index.survey
        self._held: OrderedDict[tuple[int, int], Any] = OrderedDict()

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


def _first(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
