"""Rows on disk: what becomes of long branches, what is written and read, and what is told before training."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory
from sanderling.rl.step import rl_rows
from sanderling.train import row_source
from sanderling.train.config import Aggregation
from sanderling.train.rows import Encoding, Limit, Overlong, Piece, Row, branch_pieces, fit, rows_of
from sanderling.train.trainer import row_weights


@st.composite
def branches(draw: st.DrawFn) -> list[Piece]:
    """System, question, then turns and observations, the last a turn; every id tells its message and place."""
    kinds = [NodeKind.SYSTEM, NodeKind.QUESTION]
    for _ in range(draw(st.integers(0, 6))):
        kinds += [NodeKind.TURN, draw(st.sampled_from([NodeKind.OBSERVATION, NodeKind.HINT]))]
    kinds.append(NodeKind.TURN)
    sizes = [draw(st.integers(1, 40)) for _ in kinds]
    return [
        Piece(node, kind, [node * 1000 + at for at in range(size)])
        for node, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    ]


def tokens(pieces: list[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces)


def turns(pieces: list[Piece]) -> frozenset[int]:
    return frozenset(at for at, piece in enumerate(pieces) if piece.kind is NodeKind.TURN)


@given(branches(), st.integers(1, 300), st.sampled_from(list(Overlong)))
def test_no_part_is_longer_than_the_limit_and_every_part_ends_with_a_turn(pieces, most, how):
    parts = fit(pieces, turns(pieces), Limit(most, how))
    for part in parts:
        assert tokens(part.pieces) <= most
        assert part.pieces[-1].kind is NodeKind.TURN
        assert part.trains and part.trains <= turns(part.pieces)
        assert [p.kind for p in part.pieces[:2]] == [NodeKind.SYSTEM, NodeKind.QUESTION]
    if tokens(pieces) <= most:
        assert [part.pieces for part in parts] == [pieces]


@given(branches(), st.integers(1, 300), st.sampled_from([0.0, 0.3, 0.9]))
def test_a_split_trains_each_turn_that_fits_once_with_unbroken_context(pieces, most, share):
    parts = fit(pieces, turns(pieces), Limit(most, Overlong.SPLIT, context_share=share))
    trained = [part.pieces[at].node for part in parts for at in part.trains]
    opening = tokens(pieces[:2])
    alone = {p.node for p in pieces if p.kind is NodeKind.TURN and opening + len(p.ids) <= most}
    assert sorted(trained) == sorted(set(trained))
    assert set(trained) == alone
    for part in parts:
        nodes = [piece.node for piece in part.pieces[2:]]
        assert nodes == list(range(nodes[0], nodes[-1] + 1))
        assert part.pieces[2].kind is NodeKind.TURN


def forked(shape: Callable[[Trajectory], Trajectory] = lambda t: t) -> Trajectory:
    base = record("sva")
    fork = base.nodes[6].model_copy(update={"parent": 5})
    return shape(base.model_copy(update={"nodes": (*base.nodes, fork), "leaf": 6}))


def test_branches_become_rows_and_a_shared_turn_is_trained_once():
    encoding = Encoding(WordTokenizer(), PROFILE)
    made = rows_of(forked(), encoding, Limit(10**6))
    main, side = made.rows
    trajectory = forked()
    assert main.ids.tolist() == trajectory.token_ids(6) and side.ids.tolist() == trajectory.token_ids(7)
    assert main.loss_mask.sum() == sum(len(trajectory.nodes[at].token_ids or ()) for at in (2, 4, 6))
    assert side.loss_mask.sum() == len(trajectory.nodes[7].token_ids or ())
    assert main.trajectory == side.trajectory


GIVEN = [
    record("sva", name="a"),
    record("", name="empty"),
    record("svsvsvsva", name="long"),
    record("sa", name="other").model_copy(update={"tokenizer": "another"}),
    record("sa", name="b", ids=False),
    record("", name="silent").model_copy(update={"leaf": None}),
]


def read_rows(path: Path) -> list[Row]:
    source = row_source.ParquetSource(row_source.index_rows([path]))
    return [row for number in range(len(source.lengths)) for row in source[number]]


def encoding() -> Encoding:
    return Encoding(WordTokenizer(), PROFILE)


@pytest.mark.parametrize("group", [1, 10**6], ids=["a row group each", "one row group"])
def test_rows_come_back_and_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    monkeypatch.setattr(row_source, "_GROUP_TOKENS", group)
    wanted = row_source.sft_rows([GIVEN[0], GIVEN[4]], encoding(), Limit(10_000))
    limit = max(len(row.ids) for row in wanted)
    counts = row_source.write_rows(tmp_path / "rows.parquet", GIVEN, encoding(), Limit(limit))
    found = read_rows(tmp_path / "rows.parquet")
    assert [(row.trajectory, row.group) for row in found] == [(row.trajectory, row.group) for row in wanted]
    for row, want in zip(found, wanted, strict=True):
        assert np.array_equal(row.ids, want.ids) and np.array_equal(row.loss_mask, want.loss_mask)
    assert (counts.trajectories, counts.rows, counts.without_turns, counts.too_long, counts.refused) == (6, 2, 2, 1, 1)
    assert counts.tokens == sum(len(row.ids) for row in found) and counts.longest > limit
    assert counts.examples["too_long"].startswith("long") and "another" in counts.examples["refused"]
    left = [json.loads(line) for line in row_source.left_out_file(tmp_path / "rows.parquet").read_text().splitlines()]
    assert [(one["id"], one["reason"]) for one in left] == [
        ("empty", "without_turns"), ("long", "too_long"), ("other", "refused"), ("silent", "without_turns"),
    ]  # fmt: skip
    assert "tokens" in left[1]["detail"] and "another" in left[2]["detail"]
    row_source.write_rows(tmp_path / "rows.parquet", GIVEN[:1], encoding(), Limit(limit))
    assert not row_source.left_out_file(tmp_path / "rows.parquet").exists(), "nothing stale stays"


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
    schema = row_source.SCHEMA.with_metadata({"tokenizer": tokenizer}) if tokenizer else row_source.SCHEMA
    pq.write_table(pa.Table.from_pylist(table, schema=schema), path, row_group_size=group)
    return path


def test_a_file_gives_what_a_list_gives(tmp_path: Path) -> None:
    listed, filed = (
        row_source.ListSource(rows()),
        row_source.ParquetSource(row_source.index_rows([write(tmp_path / "r.parquet", rows())])),
    )
    assert filed.lengths.tolist() == listed.lengths.tolist()
    for number in (*range(len(listed.lengths)), 3, 0):
        assert len(filed[number]) == len(listed[number])
        for ours, theirs in zip(filed[number], listed[number], strict=True):
            assert (ours.trajectory, ours.group) == (theirs.trajectory, theirs.group)
            assert np.array_equal(ours.ids, theirs.ids) and np.array_equal(ours.loss_mask, theirs.loss_mask)
            assert ours.ids.dtype == np.int64 and ours.loss_mask.dtype == np.bool_
    survey = filed.survey
    assert survey.tokenizer == "words" and listed.survey.tokenizer is None
    assert replace(survey, tokenizer=None) == listed.survey


def test_equal_names_in_two_files_weigh_as_two_trajectories(tmp_path: Path) -> None:
    """A long one and a short one, the short one in two rows: half of the loss each."""
    files = [
        write(tmp_path / f"{size}.parquet", [Row(np.arange(size), np.arange(size) > 0, trajectory="q1-0")] * count)
        for size, count in ((41, 1), (3, 2))
    ]
    source = row_source.ParquetSource(row_source.index_rows(files))
    found = [row for index in range(len(source.lengths)) for row in source[index]]
    weights = row_weights(found, Aggregation.TRAJECTORY_MEAN)
    shares = [weight * int(row.loss_mask.sum()) for weight, row in zip(weights, found, strict=True)]
    assert shares == pytest.approx([0.5, 0.25, 0.25])
    unnamed = write(tmp_path / "unnamed.parquet", [Row(np.arange(3), np.arange(3) > 0)] * 2)
    assert [len(family) for family in row_source.index_rows([*files, unnamed]).families] == [1, 2, 1, 1]


def test_tokenizers_of_files_have_to_agree(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.parquet", rows(), tokenizer=name) for name in "ab"]
    with pytest.raises(UserError, match=r"several tokenizers \(a, b\)"):
        row_source.index_rows(files)


def test_a_mask_that_does_not_fit_is_told_by_its_row(tmp_path: Path) -> None:
    good = {"trajectory": "t1", "group": "g", "ids": [1, 2, 3], "loss_mask": [False, True, True]}
    bad = {**good, "trajectory": "t0", "loss_mask": [False, True]}
    pq.write_table(pa.Table.from_pylist([good, bad], schema=row_source.SCHEMA), tmp_path / "r.parquet")
    with pytest.raises(UserError, match="the loss mask of row t0 does not fit"):
        row_source.index_rows([tmp_path / "r.parquet"])


def test_what_is_no_file_of_rows_is_told(tmp_path: Path) -> None:
    (tmp_path / "noise.parquet").write_bytes(b"PAR1 noise")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    whole = write(tmp_path / "r.parquet", rows())
    assert [row_source.holds_rows(tmp_path / name) for name in ("noise.parquet", "other.parquet", "none", "r.parquet")] == [
        False
    ] * 3 + [True]
    with pytest.raises(UserError, match="not a readable file of rows"):
        row_source.index_rows([tmp_path / "noise.parquet"])
    for other in (pa.table({"trajectory": ["a"], "group": ["g"], "ids": ["abc"], "loss_mask": [[True]]}), pa.table({"x": [1]})):
        pq.write_table(other, tmp_path / "other.parquet")
        with pytest.raises(UserError, match="not a readable file of rows"):
            row_source.index_rows([tmp_path / "other.parquet"])
    assert row_source.index_rows([write(tmp_path / "empty.parquet", [])]).families == ()
    wide = {
        "ids": pa.array([[1, 2]], pa.large_list(pa.int64())),
        "loss_mask": pa.array([[False, True]], pa.large_list(pa.bool_())),
    }
    pq.write_table(pa.table(wide | {"trajectory": ["a"], "group": ["g"]}), whole)
    (row,) = row_source.ParquetSource(row_source.index_rows([whole]))[0]
    assert row.ids.tolist() == [1, 2] and row.loss_mask.tolist() == [False, True]


# -- Rows of a trajectory: what is trained, what is cut, how branches share what is before them ------------------------------


@pytest.fixture(name="encoding")
def words() -> Encoding:
    return encoding()


def sft_row(trajectory: Trajectory, encoding: Encoding) -> Row | None:
    """The one row of a plain trajectory."""
    rows = rows_of(trajectory, encoding, Limit(10**6)).rows
    assert len(rows) <= 1
    return rows[0] if rows else None


def test_ids_are_used_as_they_are_and_only_turns_are_trained(encoding):
    trajectory = record("sva")
    row = sft_row(trajectory, encoding)
    assert row is not None
    assert row.ids.tolist() == trajectory.token_ids()
    said = [i for node in trajectory.turns() for i in node.token_ids]
    assert row.ids[row.loss_mask].tolist() == said


def test_text_is_rendered_as_the_loop_would_have_sent_it(encoding):
    trajectory = record("sa", ids=False)
    row = sft_row(trajectory, encoding)
    assert row is not None
    chat = encoding.renderer
    nodes = trajectory.branch()
    turns = [chat.turn_ids(nodes[2].text), chat.turn_ids(nodes[4].text)]
    expected = (
        chat.system_ids("sys")
        + chat.question_ids("what ?")
        + turns[0]
        + chat.observation_ids("saw 0", previous_ended=True)
        + turns[1]
    )
    assert row.ids.tolist() == expected
    assert row.ids[row.loss_mask].tolist() == turns[0] + turns[1]
    assert row.ids[row.loss_mask][-1] == chat.end_id
    first = int(np.flatnonzero(row.loss_mask)[0])
    assert row.ids[first - len(chat.generation_prompt) : first].tolist() == list(chat.generation_prompt)


@pytest.mark.parametrize("ids", [False, True])
def test_the_newline_after_a_turns_end_is_trained_where_that_is_set(ids: bool):
    """As the chat template ends every message, and DR-Venus and LLaMA-Factory mask it; else it is context."""
    plain = Encoding(WordTokenizer(), PROFILE)
    newline, end = plain.renderer.newline, plain.renderer.end_id
    trajectory = record("sa", ids=False)
    if ids:
        parts = [piece.ids for piece in branch_pieces(trajectory, 4, plain)]
        named = zip(trajectory.nodes, parts, strict=True)
        nodes = tuple(node.model_copy(update={"token_ids": tuple(own)}) for node, own in named)
        trajectory = trajectory.model_copy(update={"nodes": nodes})
    without, row = sft_row(trajectory, plain), sft_row(trajectory, replace(plain, train_newline=True))
    assert without is not None and row is not None
    assert row.ids.tolist() == [*without.ids.tolist(), *newline], "the last turn gets one, all others have theirs"
    trained = np.flatnonzero(row.loss_mask)
    assert set(trained) >= set(np.flatnonzero(without.loss_mask))
    more = sorted(set(trained) - set(np.flatnonzero(without.loss_mask)))
    assert [row.ids[at] for at in more] == newline * 2 and [row.ids[at - 1] for at in more] == [end] * 2


def test_a_turn_that_was_cut_has_no_newline_to_train():
    """Its end token is the loop's and no word of the policy's: neither is what follows."""
    encoding = Encoding(WordTokenizer(), PROFILE, train_newline=True)
    row = sft_row(record("sva"), encoding)
    assert row is not None and row.ids.tolist() == record("sva").token_ids()


def test_a_hint_after_an_observation_follows_it_without_a_second_prompt(encoding):
    trajectory = record("sa", ids=False)
    nodes = list(trajectory.nodes)
    hint = nodes[3].model_copy(update={"kind": NodeKind.HINT, "parent": 3, "text": "<tool_response>\nnow\n</tool_response>"})
    nodes[4:] = [hint, nodes[4].model_copy(update={"parent": 4})]
    row = sft_row(trajectory.model_copy(update={"nodes": tuple(nodes), "leaf": 5}), encoding)
    chat = encoding.renderer
    between = chat.observation_ids("saw 0", previous_ended=True, prompt=False)
    between += chat.observation_ids("now", previous_ended=None)
    turns = [chat.turn_ids(nodes[2].text), chat.turn_ids(nodes[5].text)]
    assert (
        row is not None
        and row.ids.tolist() == chat.system_ids("sys") + chat.question_ids("what ?") + turns[0] + between + turns[1]
    )


def test_ids_of_another_tokenizer_are_refused(encoding):
    strange = record("a").model_copy(update={"tokenizer": "other"})
    with pytest.raises(UserError, match="tokenizer other"):
        sft_row(strange, encoding)
    with pytest.raises(UserError, match="tokenizer other"):
        rl_rows(strange, [1.0], encoding)


def test_a_record_of_mixed_ids_and_text_is_refused(encoding):
    trajectory = record("sa")
    nodes = (trajectory.nodes[0].model_copy(update={"token_ids": None}), *trajectory.nodes[1:])
    with pytest.raises(UserError, match="some messages only"):
        sft_row(trajectory.model_copy(update={"nodes": nodes}), encoding)


def test_messages_no_loop_could_have_sent_are_refused(encoding):
    trajectory = record("sa", ids=False)
    nodes = list(trajectory.nodes)
    nodes[3] = nodes[3].model_copy(update={"kind": NodeKind.RAW})
    with pytest.raises(UserError, match="clean it"):
        sft_row(trajectory.model_copy(update={"nodes": tuple(nodes)}), encoding)


def test_rl_rows_carry_credit(encoding):
    trajectory = record("srva", version=7)
    rows = rl_rows(trajectory, [1.0, 2.0, 3.0], encoding)
    (row,) = rows
    assert row.ids.tolist() == trajectory.token_ids()
    assert row.advantages is not None and row.sampler_logprobs is not None
    for number, node in enumerate(trajectory.turns()):
        at = row.advantages == number + 1.0
        assert row.ids[at].tolist() == list(node.token_ids)
        np.testing.assert_array_equal(row.sampler_logprobs[at], node.logprobs)
    assert (row.advantages > 0).tolist() == row.loss_mask.tolist()


def test_rl_refuses_records_without_ids_or_logprobs(encoding):
    with pytest.raises(UserError, match="text only"):
        rl_rows(record("a", ids=False), [1.0], encoding)
    trajectory = record("a")
    nodes = (*trajectory.nodes[:2], trajectory.nodes[2].model_copy(update={"logprobs": None}))
    with pytest.raises(UserError, match="log-probabilities"):
        rl_rows(trajectory.model_copy(update={"nodes": nodes}), [1.0], encoding)
    with pytest.raises(ValueError, match="longer"):
        rl_rows(trajectory, [1.0, 2.0], encoding)
