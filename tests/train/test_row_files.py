"""Rows on disk: what was written is read, and what makes no row is counted with its reason."""

import json
from pathlib import Path

import numpy as np
import pytest
from train_records import PROFILE, WordTokenizer, record

from sanderling.train.contract import Row
from sanderling.train.encoding import Encoding, Limit, Overlong
from sanderling.train.row_source import ParquetSource, index_rows, left_out_file, sft_rows, write_rows

GIVEN = [
    record("sva", name="a"),
    record("", name="empty"),
    record("svsvsvsva", name="long"),
    record("sa", name="other").model_copy(update={"tokenizer": "another"}),
    record("sa", name="b", ids=False),
]


def read_rows(path: Path) -> list[Row]:
    source = ParquetSource(index_rows([path]))
    return [row for number in range(len(source.lengths)) for row in source[number]]


def encoding() -> Encoding:
    return Encoding(WordTokenizer(), PROFILE)


def test_rows_come_back_and_the_rest_is_counted(tmp_path: Path) -> None:
    wanted, _ = sft_rows([GIVEN[0], GIVEN[4]], encoding(), Limit(10_000))
    limit = max(len(row.ids) for row in wanted)
    counts = write_rows(tmp_path / "rows.parquet", GIVEN, encoding(), Limit(limit))
    found = read_rows(tmp_path / "rows.parquet")
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
    write_rows(tmp_path / "rows.parquet", GIVEN[:1], encoding(), Limit(limit))
    assert not left_out_file(tmp_path / "rows.parquet").exists(), "nothing stale stays"


@pytest.mark.parametrize("how", [Overlong.CUT, Overlong.SPLIT])
def test_what_is_shortened_or_split_is_told(tmp_path: Path, how: Overlong) -> None:
    long = record("sa", name="long")
    saw = long.nodes[3].model_copy(update={"token_ids": tuple(range(9, 909))})
    nodes = (*long.nodes[:3], saw, *long.nodes[4:])
    limit = 600 if how is Overlong.CUT else 40
    counts = write_rows(tmp_path / "r", [long.model_copy(update={"nodes": nodes})], encoding(), Limit(limit, how))
    rows = read_rows(tmp_path / "r")
    assert all(len(row.ids) <= limit for row in rows)
    left = left_out_file(tmp_path / "r")
    if how is Overlong.CUT:
        assert (counts.cut, len(rows)) == (1, 1) and counts.cut_tokens == counts.longest - limit
        (line,) = [json.loads(line) for line in left.read_text().splitlines()]
        assert (line["reason"], line["detail"]) == ("cut", f"{counts.cut_tokens:,} of {counts.longest:,} tokens")
    else:
        assert (counts.split, len(rows), counts.turns_left_out) == (1, 2, 0) and not left.exists()
        assert {row.trajectory for row in rows} == {"long"}
