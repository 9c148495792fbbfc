"""Rows read where they lie: the same as in memory, a few row groups at a time, and bad ones told before training."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanderling.core.errors import UserError
from sanderling.train.config import Aggregation
from sanderling.train.contract import Row
from sanderling.train.row_source import SCHEMA, ListSource, ParquetSource, holds_rows, index_rows
from sanderling.train.trainer import row_weights


def rows(count: int = 20) -> list[Row]:
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        mask = rng.random(size := int(rng.integers(3, 30))) < 0.4
        mask[0] = False
        if number % 7 == 3:
            mask[:] = False
        found.append(Row(ids=rng.integers(0, 50, size), loss_mask=mask, trajectory=f"t{number % 13}", group=f"g{number}"))
    return found


def write(path: Path, found: list[Row], group: int = 3, tokenizer: str | None = "words") -> Path:
    table = [
        {"trajectory": r.trajectory, "group": r.group, "ids": r.ids.tolist(), "loss_mask": r.loss_mask.tolist()} for r in found
    ]
    schema = SCHEMA.with_metadata({"tokenizer": tokenizer}) if tokenizer else SCHEMA
    pq.write_table(pa.Table.from_pylist(table, schema=schema), path, row_group_size=group)
    return path


def test_a_file_gives_what_a_list_gives(tmp_path: Path) -> None:
    listed, filed = ListSource(rows()), ParquetSource(index_rows([write(tmp_path / "r.parquet", rows())]))
    assert filed.lengths.tolist() == listed.lengths.tolist()
    for number in (*range(len(listed.lengths)), 3, 0):
        assert len(filed[number]) == len(listed[number])
        for ours, theirs in zip(filed[number], listed[number], strict=True):
            assert (ours.trajectory, ours.group) == (theirs.trajectory, theirs.group)
            assert np.array_equal(ours.ids, theirs.ids) and np.array_equal(ours.loss_mask, theirs.loss_mask)
            assert ours.ids.dtype == np.int64 and ours.loss_mask.dtype == np.bool_
    survey = filed.survey
    assert survey.tokenizer == "words" and listed.survey.tokenizer is None
    assert (survey.rows, survey.tokens, survey.trained_tokens, survey.longest, survey.largest_id) == (
        listed.survey.rows, listed.survey.tokens, listed.survey.trained_tokens, listed.survey.longest, listed.survey.largest_id,
    )  # fmt: skip


def test_few_row_groups_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [Row(ids=row.ids, loss_mask=row.loss_mask, trajectory=str(n)) for n, row in enumerate(rows(60))]
    source = ParquetSource(index_rows([write(tmp_path / "r.parquet", alone, group=4)]))
    read: list[int] = []
    real = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda self, i, **more: read.append(i) or real(self, i, **more))
    for number in range(len(source.lengths)):
        assert len(source[number]) == 1
    assert read == list(range(15)), "in order each is read once"
    source[0]
    assert read[-1] == 0 and len(read) == 16, "the first is no longer held"


def test_equal_names_in_two_files_weigh_as_two_trajectories(tmp_path: Path) -> None:
    """A long one and a short one, the short one in two rows: half of the loss each."""
    files = [
        write(tmp_path / f"{size}.parquet", [Row(np.arange(size), np.arange(size) > 0, trajectory="q1-0")] * count)
        for size, count in ((41, 1), (3, 2))
    ]
    source = ParquetSource(index_rows(files))
    found = [row for index in range(len(source.lengths)) for row in source[index]]
    weights = row_weights(found, Aggregation.TRAJECTORY_MEAN)
    shares = [weight * int(row.loss_mask.sum()) for weight, row in zip(weights, found, strict=True)]
    assert shares == pytest.approx([0.5, 0.25, 0.25])
    unnamed = write(tmp_path / "unnamed.parquet", [Row(np.arange(3), np.arange(3) > 0)] * 2)
    assert [len(family) for family in index_rows([*files, unnamed]).families] == [1, 2, 1, 1]


def test_tokenizers_of_files_have_to_agree(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.parquet", rows(), tokenizer=name) for name in "ab"]
    with pytest.raises(UserError, match=r"several tokenizers \(a, b\)"):
        index_rows(files)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"loss_mask": [False, True]}, "row t0 has 3 ids and 2 places in its loss mask"),
        ({"loss_mask": [True, True, False]}, "row t0 trains its first token"),
        ({"ids": None}, "without ids"),
        ({"ids": [1, -2, 3]}, "negative ids"),
    ],
)
def test_bad_rows_are_told_by_name(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    good = {"trajectory": "t0", "group": "g", "ids": [1, 2, 3], "loss_mask": [False, True, True]}
    other = {**good, "trajectory": "t1"}
    pq.write_table(pa.Table.from_pylist([other, {**good, **change}], schema=SCHEMA), tmp_path / "r.parquet")
    with pytest.raises(UserError, match=sentence):
        index_rows([tmp_path / "r.parquet"])


def test_what_is_no_file_of_rows_is_told(tmp_path: Path) -> None:
    (tmp_path / "noise.parquet").write_bytes(b"PAR1 noise")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    whole = write(tmp_path / "r.parquet", rows())
    assert [holds_rows(tmp_path / name) for name in ("noise.parquet", "other.parquet", "none", "r.parquet")] == [False] * 3 + [
        True
    ]
    with pytest.raises(UserError, match="not a readable file of rows"):
        index_rows([tmp_path / "noise.parquet"])
    source = ParquetSource(index_rows([whole]))
    whole.write_bytes(whole.read_bytes()[:100])
    with pytest.raises(UserError, match="can no longer be read"):
        source[0]
    assert index_rows([write(tmp_path / "empty.parquet", [])]).families == ()


IDS, MASK = pa.list_(pa.int32()), pa.list_(pa.bool_())


def foreign(path: Path, ids: pa.Array, mask: pa.Array) -> Path:
    """A file of one row that another program wrote."""
    pq.write_table(pa.table({"trajectory": ["a"], "group": ["g"], "ids": ids, "loss_mask": mask}), path)
    return path


@pytest.mark.parametrize(
    ("ids", "mask", "told"),
    [
        (pa.array([[1, 2, 3]], IDS), pa.array([[False, None, True]], MASK), "gaps"),
        (pa.array([[1, None, 3]], IDS), pa.array([[False, True, True]], MASK), "gaps"),
        (pa.array([None], IDS), pa.array([[False, True]], MASK), "without ids"),
        (pa.array([[1.5, 2.0]], pa.list_(pa.float64())), pa.array([[False, True]], MASK), "lists of integers"),
        (pa.array(["abc"]), pa.array([[False, True]], MASK), "lists of integers"),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), pa.array([[False, True]], MASK), "lists of integers"),
        (pa.array([[1, 2]], IDS), pa.array([[0, 2]], pa.list_(pa.int8())), "of booleans"),
    ],
)
def test_columns_of_other_kinds_are_one_sentence(tmp_path: Path, ids: pa.Array, mask: pa.Array, told: str) -> None:
    with pytest.raises(UserError, match=told):
        index_rows([foreign(tmp_path / "rows.parquet", ids, mask)])


def test_wide_lists_are_rows_too(tmp_path: Path) -> None:
    ids, mask = pa.array([[1, 2]], pa.large_list(pa.int64())), pa.array([[False, True]], pa.large_list(pa.bool_()))
    (row,) = ParquetSource(index_rows([foreign(tmp_path / "rows.parquet", ids, mask)]))[0]
    assert row.ids.tolist() == [1, 2] and row.loss_mask.tolist() == [False, True]
