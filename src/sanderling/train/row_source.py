"""Supervised rows as Parquet, and where a trainer's rows come from: by number, with what is to be known of them beforehand.

A trajectory that makes no row is counted with its reason, and named in ``left_out_file(path)``. A trainer's file is read once
for lengths and for whatever would stop training later; then rows are read where they lie, so memory holds a few row groups and
never the whole. Importable without torch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory, encode_record
from sanderling.core.text import without_surrogates
from sanderling.runs.files import check_places, or_cannot
from sanderling.runs.jsonl import Lines
from sanderling.train.rows import Encoding, IntArray, Limit, Made, Overlong, Row, grouped, rows_of

SCHEMA = pa.schema(
    [("trajectory", pa.string()), ("group", pa.string()), ("ids", pa.list_(pa.int32())), ("loss_mask", pa.list_(pa.bool_()))]
)
_GROUP_TOKENS = 4_000_000
_HELD = 8


# -- writing -----------------------------------------------------------------------------------------------------------------


@dataclass
class RowCounts:
    """What became of the trajectories; figures that a trajectory has too are sums of `rows.Made`'s."""

    trajectories: int = 0
    rows: int = 0
    too_long: int = 0
    split: int = 0
    turns_left_out: int = 0
    without_turns: int = 0
    refused: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest of all, too long ones included."""
    examples: dict[str, str] = field(default_factory=dict)

    def left_out(self) -> dict[str, int]:
        """By reason, what is missing in the rows; reasons as in the file of what was left out."""
        return {name: getattr(self, name) for name in ("too_long", "refused", "without_turns")}

    def count(self, made: Made) -> list[tuple[str, str]]:
        """Count what became of a trajectory; what of it is missing: the reason, and more about it."""
        self.longest = max(self.longest, made.longest)
        self.rows += len(made.rows)
        for row in made.rows:
            self.tokens += len(row.ids)
            self.trained_tokens += int(row.loss_mask.sum())
        for name in ("too_long", "split", "turns_left_out"):
            setattr(self, name, getattr(self, name) + getattr(made, name))
        if not made.longest:
            self.without_turns += 1
            return [("without_turns", "")]
        missing = [("too_long", f"{made.longest:,} tokens")] if made.too_long else []
        if made.turns_left_out and not made.too_long:
            missing.append(("turns_left_out", f"{made.turns_left_out:,} turns"))
        return missing


def sft_rows(trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit) -> list[Row]:
    """The rows of all trajectories in memory, in order. Raises UserError as `rows.rows_of` does."""
    return [row for trajectory in trajectories for row in rows_of(trajectory, encoding, limit).rows]


def left_out_file(path: Path) -> Path:
    """Beside a file of rows: id, reason and detail of every trajectory that misses something; absent where none does."""
    return path.with_name(path.name + ".left-out.jsonl")


def rows_of_file(
    source: Path, out: Path, tokenizer: Path, profile: str, max_tokens: int | None, overlong: Overlong | str, newline: bool
) -> RowCounts:
    """Write the rows of a file of trajectories; without a limit, the profile's context is it. Raises UserError.

    ``newline``: `Encoding.train_newline`.
    """
    check_places([source, tokenizer], [out, left_out_file(out)])
    from sanderling.data.importing import open_trajectories  # all layouts; training itself reads rows

    chosen = get_profile(profile)
    limit = Limit(chosen.budgets.max_context_tokens if max_tokens is None else max_tokens, Overlong(overlong))
    return write_rows(out, open_trajectories(source), Encoding(load_tokenizer(tokenizer), chosen, newline), limit)


def write_rows(path: Path, trajectories: Iterable[Trajectory], encoding: Encoding, limit: Limit) -> RowCounts:
    """Write the rows of each trajectory that makes any. Raises UserError when the file cannot be written."""
    counts = RowCounts()
    made_with = {"tokenizer": encoding.tokenizer.fingerprint, "profile": encoding.profile.name}
    schema = SCHEMA.with_metadata(made_with | {"max_tokens": str(limit.max_tokens), "overlong": limit.overlong.value})
    part = path.with_name(f".{path.name}.partial")  # one name, so that what a killed run left is written over
    with Lines(left_out_file(path), keep_empty=False) as left_out, or_cannot(f"write {path}"):
        try:
            with part.open("wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for group in _groups(_rows(trajectories, encoding, limit, counts, left_out)):
                    writer.write_table(pa.Table.from_pylist(group, schema=schema))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
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

    rows: int
    tokens: int
    trained_tokens: int
    longest: int
    tokenizer: str | None = None
    """Fingerprint of the tokenizer that made the ids, where it is known."""


class ListSource:
    """Rows held in memory, those of one trajectory together; rows with nothing to train are left out."""

    def __init__(self, rows: Sequence[Row]) -> None:
        trained = [row for row in rows if row.loss_mask.any()]
        self._rows = [[trained[place] for place in places] for places in grouped([row.trajectory for row in trained])]
        self.lengths: IntArray = np.array([sum(len(row.ids) for row in family) for family in self._rows], dtype=np.int64)
        sizes, trains = [len(row.ids) for row in rows], sum(int(row.loss_mask.sum()) for row in rows)
        self.survey = Survey(len(rows), sum(sizes), trains, max(sizes, default=0))

    def __getitem__(self, index: int) -> Sequence[Row]:
        return self._rows[index]


@dataclass(frozen=True)
class RowIndex:
    """Where the rows of files lie: cheap to send to another process."""

    paths: tuple[Path, ...]
    families: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each trajectory its rows: number of the file, of the row group in it, of the row in that."""
    lengths: IntArray
    survey: Survey


def holds_rows(path: Path) -> bool:
    """Whether a file is one of rows; False for anything else, readable or not."""
    try:
        return path.is_file() and set(SCHEMA.names) <= set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return False


def index_rows(paths: Sequence[Path]) -> RowIndex:
    """Look through files of rows; rows with nothing to train are left out, those of one trajectory are together.

    Raises UserError for files that cannot be read, or whose tokenizers differ, and for rows whose masks do not fit.
    """
    names: list[str] = []
    places: list[tuple[int, int, int]] = []
    sizes: list[IntArray] = [np.zeros((0, 2), dtype=np.int64)]
    tokenizers = set[str]()
    for number, path in enumerate(paths):
        try:
            with pq.ParquetFile(path) as file:
                if fingerprint := (file.schema_arrow.metadata or {}).get(b"tokenizer"):
                    tokenizers.add(fingerprint.decode())
                for group in range(file.num_row_groups):
                    table = _table(file, group)
                    own = [_named(name or "", number) for name in table["trajectory"].to_pylist()]
                    sizes.append(_sizes(path, own, table))
                    names += own
                    places += [(number, group, row) for row in range(len(own))]
        except (pa.ArrowException, OSError, KeyError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(f"{path} is not a readable file of rows ({reason}): write it again.") from error
    if len(tokenizers) > 1:
        listed = ", ".join(sorted(tokenizers))
        raise UserError(f"The files of rows are of several tokenizers ({listed}): train on those of one.")
    lengths, trained = np.concatenate(sizes).T
    kept = np.flatnonzero(trained)
    families = [[int(kept[at]) for at in members] for members in grouped([names[at] for at in kept])]
    return RowIndex(
        paths=tuple(paths),
        families=tuple(tuple(places[row] for row in family) for family in families),
        lengths=np.array([lengths[family].sum() for family in families], dtype=np.int64),
        survey=Survey(
            rows=len(names),
            tokens=int(lengths.sum()),
            trained_tokens=int(trained.sum()),
            longest=int(lengths.max(initial=0)),
            tokenizer=min(tokenizers, default=None),
        ),
    )


def _named(name: str, number: int) -> str:
    """A trajectory's name among all files: equal names in two files are two trajectories, for the loss as for the order."""
    return f"{name} (file {number + 1})" if name and number else name


def _table(file: pq.ParquetFile, group: int) -> pa.Table:
    return file.read_row_group(group, columns=SCHEMA.names).select(SCHEMA.names).cast(SCHEMA)


def _sizes(path: Path, names: Sequence[str], table: pa.Table) -> IntArray:
    """Of each row of a row group its tokens, and the trained ones [rows, 2]. Raises UserError for masks that do not fit."""
    ids, mask = (table[name].combine_chunks() for name in ("ids", "loss_mask"))
    lengths, ends = np.diff(ids.offsets.to_numpy()).astype(np.int64), mask.offsets.to_numpy().astype(np.int64)
    trains = np.concatenate(([0], np.cumsum(mask.flatten().to_numpy(zero_copy_only=False).astype(np.int64))))
    for row in np.flatnonzero(lengths != np.diff(ends)).tolist():
        raise UserError(f"{path}: the loss mask of row {names[row] or row} does not fit its ids: write it again.")
    return np.stack((lengths, np.diff(trains[ends - ends[0]])), 1)


class ParquetSource:
    """The rows of files, read where they lie; a few row groups are held."""

    def __init__(self, index: RowIndex) -> None:
        self._index = index
        self.lengths, self.survey = index.lengths, index.survey
        self._group = lru_cache(_HELD)(self._read)

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

    def _read(self, number: int, group: int) -> pa.Table:
        with pq.ParquetFile(self._index.paths[number]) as file:
            return _table(file, group)
