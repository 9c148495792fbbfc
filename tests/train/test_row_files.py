"""Rows on disk: what was written is read, and what makes no row is counted with its reason."""

import json
from pathlib import Path

import numpy as np
import pytest
from train_records import PROFILE, WordTokenizer, record

from sanderling.errors import UserError
from sanderling.train.row_files import left_out_file, read_rows, write_rows
from sanderling.train.rows import Encoding, sft_rows

GIVEN = [
    record("sva", name="a"),
    record("", name="empty"),
    record("svsvsvsva", name="long"),
    record("sa", name="other").model_copy(update={"tokenizer": "another"}),
    record("sa", name="b", ids=False),
]


def encoding() -> Encoding:
    return Encoding(WordTokenizer(), PROFILE)


def test_rows_come_back_and_the_rest_is_counted(tmp_path: Path) -> None:
    wanted = sft_rows([GIVEN[0], GIVEN[4]], encoding(), 10_000).rows
    limit = max(len(row.ids) for row in wanted)
    counts = write_rows(tmp_path / "rows.parquet", GIVEN, encoding(), limit)
    found = list(read_rows(tmp_path / "rows.parquet"))
    assert [(row.trajectory, row.group) for row in found] == [(row.trajectory, row.group) for row in wanted]
    for row, want in zip(found, wanted, strict=True):
        assert np.array_equal(row.ids, want.ids) and np.array_equal(row.loss_mask, want.loss_mask)
    assert (counts.trajectories, counts.rows, counts.without_turns, counts.too_long, counts.refused) == (5, 2, 1, 1, 1)
    assert counts.tokens == sum(len(row.ids) for row in found) and counts.longest > limit
    assert counts.examples["too_long"].startswith("long") and "another" in counts.examples["refused"]
    left = [json.loads(line) for line in left_out_file(tmp_path / "rows.parquet").read_text().splitlines()]
    assert [(one["id"], one["reason"]) for one in left] == [
        ("empty", "without_turns"),
        ("long", "too_long"),
        ("other", "refused"),
    ]
    assert "tokens" in left[1]["detail"] and "another" in left[2]["detail"]
    write_rows(tmp_path / "rows.parquet", GIVEN[:1], encoding(), limit)
    assert not left_out_file(tmp_path / "rows.parquet").exists(), "nothing stale stays"


def test_none_are_a_file_too_and_other_files_are_refused(tmp_path: Path) -> None:
    assert write_rows(tmp_path / "rows.parquet", [], encoding(), 9).rows == 0
    assert list(read_rows(tmp_path / "rows.parquet")) == []
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    for name in ("x.parquet", "none.parquet"):
        with pytest.raises(UserError):
            list(read_rows(tmp_path / name))
