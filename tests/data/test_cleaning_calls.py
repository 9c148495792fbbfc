"""Pruning, repeats, malformed turns, validation: what goes takes its responses along, and says why."""

import pytest
from cleaning_makers import (
    DR_VENUS,
    FIND,
    MARKDOWN,
    PYTHON,
    answer,
    call_text,
    chain,
    codes,
    kinds,
    message,
    results,
    search,
    seen,
    step,
    talk,
    texts,
    visit,
)

from sanderling.core.grammar import check_final, check_turn
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import ToolCall
from sanderling.data.cleaning.cleaner import Cleaner, Reason, get_recipe


def cleaned(found: Trajectory) -> Trajectory:
    result = Cleaner(get_recipe("dr-venus"), DR_VENUS).clean(found)
    assert isinstance(result, Trajectory), result
    return result


class TestRepeats:
    def test_the_first_stays_and_the_others_go_with_their_responses(self) -> None:
        again = search("b", "a", "a", think="Once more.")
        found = talk(search("a", "b"), seen("1"), again, seen("2"), visit("https://a.example/"), seen("3"), answer())
        done = step("repeats", found)
        assert texts(done.trajectory) == [search("a", "b"), seen("1"), visit("https://a.example/"), seen("3"), answer()]
        assert codes(done) == {"calls_repeated": 1, "turns_removed": 1}

    def test_a_failed_call_may_be_tried_again(self) -> None:
        late = seen("Tool execution timed out after 120 seconds.")
        found = talk(search("a"), late, search("a"), seen(results("a")), search("a"), seen(results("a")), answer())
        assert texts(step("repeats", found).trajectory) == [*texts(found)[:4], answer()]
        assert texts(step("repeats", found, keep_retries=False).trajectory) == [search("a"), late, answer()]


class TestMalformed:
    def test_a_response_without_a_call(self) -> None:
        found = talk(answer())
        nodes = [*found.nodes[:2], message(NodeKind.OBSERVATION, seen("x")), *found.nodes[2:]]
        assert codes(step("malformed", chain(*nodes))) == {"responses_without_call": 1}

    def test_nothing_is_said_after_the_answer(self) -> None:
        found = talk(search("a"), seen("x"), answer(), "Thank you.")
        assert texts(step("malformed", found).trajectory)[-1] == answer()

    def test_several_searches_become_one(self) -> None:
        both = call_text(FIND, ("search", {"query": ["b"]}))
        done = step("malformed", talk(both, seen(results("a"), results("b")), answer()))
        assert texts(done.trajectory)[:2] == [search("a", "b"), seen(results("a", "b"))]
        assert codes(done) == {"calls_joined": 2}


class TestValidate:
    GOOD = talk(search("a"), seen("x"), answer())

    @pytest.mark.parametrize(
        ("found", "reason"),
        [
            (chain(), Reason.EMPTY),
            (chain(*GOOD.nodes[1:]), Reason.SYSTEM_NOT_FIRST),
            (chain(GOOD.nodes[0], *GOOD.nodes[2:]), Reason.NO_QUESTION),
            (chain(*GOOD.nodes[:2], GOOD.nodes[3], *GOOD.nodes[2:]), Reason.BROKEN_ORDER),
            (chain(*GOOD.nodes[:4], *GOOD.nodes[3:]), Reason.BROKEN_ORDER),
            (chain(*GOOD.nodes[:3], *GOOD.nodes[4:]), Reason.BROKEN_ORDER),
            (talk(search("a"), "x", answer()), Reason.UNWRAPPED_RESPONSE),
            (talk(search("a"), seen("x")), Reason.NO_ANSWER),
            (talk("<think>hm</think>", seen("x"), answer()), Reason.MALFORMED_TURN),
            (talk(search("a"), seen("x"), "<answer>Lisbon</answer>"), Reason.NO_REASONING),
            (talk(search("a", think=" "), seen("x"), answer()), Reason.NO_REASONING),
            (talk(search("a"), seen("x"), answer() + " So."), Reason.MALFORMED_ANSWER),
            (talk(search("a"), seen("x"), answer(), "Thank you."), Reason.BROKEN_ORDER),
            (chain(*GOOD.nodes, message(NodeKind.RAW, "?")), Reason.UNREADABLE),
        ],
    )
    def test_reasons(self, found: Trajectory, reason: Reason) -> None:
        done = step("validate", found)
        assert (done.trajectory, done.reason) == (None, reason)


def test_the_whole_order_on_one_bad_conversation() -> None:
    found = talk(
        'Let me see. <tool_call>{"name": "google_search", "arguments": {"queries": "a"}}</tool_call>',
        MARKDOWN,
        call_text(PYTHON),
        "1",
        call_text(("browse", {"urls": "https://a.example/(x)", "purpose": ["dates"]})) + " Wait.",
        "page",
        visit("https://a.example/(x)", goal="something else"),
        "page again",
        "no form at all",
        "Malformed.",
        "<think>Sure.</think> So <answer> Lisbon </answer>",
        "Thanks!",
    )
    done = cleaned(found)
    turns = [node for node in done.branch() if node.kind is NodeKind.TURN]
    assert [turn.calls for turn in turns[:2]] == [
        (ToolCall(name="search", arguments={"query": ["a"]}, raw='\n{"name": "search", "arguments": {"query": ["a"]}}\n'),),
        (ToolCall(name="visit", arguments={"url": ["https://a.example/(x)"], "goal": "dates"}, raw=turns[1].calls[0].raw),),
    ]
    assert [turn.think for turn in turns] == ["Let me see.", "Look it up.\n\nWait.", "Sure.\n\nSo"]
    assert [check_turn(turn.text, think_open=False) for turn in turns[:-1]] == [(), ()]
    assert check_final(turns[-1].text, think_open=False) == ()
    assert done.answer == "Lisbon"
    assert done.profile == "dr-venus-4b"
    assert kinds(done) == ["system", "question", "turn", "observation", "turn", "observation", "turn"]
