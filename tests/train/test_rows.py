from dataclasses import replace

import numpy as np
import pytest
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory
from sanderling.rl.step import rl_rows
from sanderling.train.rows import Encoding, Limit, Row, branch_pieces, rows_of


def sft_row(trajectory: Trajectory, encoding: Encoding) -> Row | None:
    """The one row of a plain trajectory."""
    rows = rows_of(trajectory, encoding, Limit(10**6)).rows
    assert len(rows) <= 1
    return rows[0] if rows else None


@pytest.fixture
def encoding() -> Encoding:
    return Encoding(WordTokenizer(), PROFILE)


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
