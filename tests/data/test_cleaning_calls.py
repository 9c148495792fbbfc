"""Pruning, repeats, malformed turns, validation: what goes takes its responses along, and says why."""

import pytest
from cleaning_makers import (
    DR_VENUS,
    FIND,
    MARKDOWN,
    PYTHON,
    READ,
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
from sanderling.core.record import NodeKind, ToolEvent, Trajectory
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.data.cleaning import Cleaner, Reason, get_recipe


def cleaned(found: Trajectory) -> Trajectory:
    result = Cleaner(get_recipe("dr-venus"), DR_VENUS).clean(found)
    assert isinstance(result, Trajectory), result
    return result


class TestPrune:
    def test_a_turn_of_disallowed_calls_goes_with_its_response(self) -> None:
        found = talk(search("a"), seen(results("a")), call_text(PYTHON), seen("1"), answer())
        done = step("prune", found)
        assert texts(done.trajectory) == [search("a"), seen(results("a")), answer()]
        assert kinds(done.trajectory) == ["system", "question", "turn", "observation", "turn"]
        assert codes(done) == {"calls_disallowed": 1, "turns_removed": 1}

    @pytest.mark.parametrize("order", [(PYTHON, FIND, READ), (FIND, PYTHON, READ), (FIND, READ, PYTHON)])
    def test_a_mixed_turn_keeps_the_allowed_calls_with_their_results(self, order: tuple) -> None:
        blocks = {PYTHON[0]: "1", FIND[0]: results("a"), READ[0]: "page"}
        events = tuple(ToolEvent(name=name, status=ToolStatus.OK) for name, _ in order)
        found = talk(call_text(*order), seen(*(blocks[name] for name, _ in order)), answer())
        nodes = [*found.nodes[:3], found.nodes[3].model_copy(update={"events": events}), *found.nodes[4:]]
        done = step("prune", chain(*nodes))
        assert texts(done.trajectory)[:2] == [call_text(FIND, READ), seen(results("a"), "page")]
        assert done.trajectory is not None and [event.name for event in done.trajectory.nodes[3].events] == ["search", "visit"]
        assert codes(done) == {"calls_disallowed": 1}

    def test_results_that_cannot_be_told_apart_take_the_turn_along(self) -> None:
        before = (search("b"), seen(results("b")))
        done = step("prune", talk(*before, call_text(PYTHON, FIND), seen("all in one"), answer()))
        assert texts(done.trajectory) == [*before, answer()]
        assert codes(done) == {"calls_disallowed": 1, "turns_removed": 1, "calls_beside_them_lost": 1}

    def test_an_answer_that_would_rest_on_nothing_goes_with_its_calls(self) -> None:
        done = step("prune", talk(call_text(PYTHON), seen("1"), answer()))
        assert (done.trajectory, done.reason) == (None, Reason.FORBIDDEN_TOOL)
        assert "no call is left" in done.detail

    def test_an_answer_beside_a_disallowed_call_stays(self) -> None:
        both = call_text(PYTHON) + "<answer>\nLisbon\n</answer>"
        assert texts(step("prune", talk(both)).trajectory) == [answer().replace("Sure.", "Look it up.")]

    def test_which_tools_are_allowed_can_be_said(self) -> None:
        found = talk(call_text(PYTHON), seen("1"), answer())
        assert step("prune", found, tools=["PythonInterpreter"]).trajectory is found


class TestRepeats:
    def test_the_first_stays_and_the_others_go_with_their_responses(self) -> None:
        again = search("b", "a", "a", think="Once more.")
        found = talk(search("a", "b"), seen("1"), again, seen("2"), visit("https://a.example/"), seen("3"), answer())
        done = step("repeats", found)
        assert texts(done.trajectory) == [search("a", "b"), seen("1"), visit("https://a.example/"), seen("3"), answer()]
        assert codes(done) == {"calls_repeated": 1, "turns_removed": 1}

    def test_the_goal_counts_only_when_asked_for(self) -> None:
        found = talk(visit("https://a.example/"), seen("1"), visit("https://a.example/", goal="places"), seen("2"), answer())
        assert len(texts(step("repeats", found).trajectory)) == 3
        assert step("repeats", found, with_goal=True).trajectory is found

    def test_a_failed_call_may_be_tried_again(self) -> None:
        late = seen("Tool execution timed out after 120 seconds.")
        found = talk(search("a"), late, search("a"), seen(results("a")), search("a"), seen(results("a")), answer())
        assert texts(step("repeats", found).trajectory) == [*texts(found)[:4], answer()]
        assert texts(step("repeats", found, keep_retries=False).trajectory) == [search("a"), late, answer()]

    def test_a_call_that_nobody_answered_was_not_made(self) -> None:
        found = talk(search("a"), seen(results("a")), answer())
        twice = chain(*found.nodes[:3], *found.nodes[2:])
        assert step("repeats", twice).trajectory is twice
        assert texts(cleaned(twice)) == texts(found)

    def test_a_turn_with_a_new_call_beside_keeps_that(self) -> None:
        found = talk(search("a"), seen("1"), call_text(FIND, READ), seen("2", "3"), answer())
        assert texts(step("repeats", found).trajectory)[2:4] == [call_text(READ), seen("3")]


class TestMalformed:
    def test_a_dropped_turn_never_leaves_two_responses_in_a_row(self) -> None:
        found = talk(search("a"), seen(results("a")), "nothing to say", "Malformed.", answer())
        done = step("malformed", found)
        assert texts(done.trajectory) == [search("a"), seen(results("a")), answer()]
        assert codes(done) == {"malformed:no_action": 1, "turns_removed": 1}

    @pytest.mark.parametrize(
        ("turn", "code"),
        [
            (answer("Porto"), "early_answers"),
            ("<think>hm</think><tool_call>{</tool_call>", "malformed:no_action"),
            ('<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>', "malformed:no_think"),
            ("", "malformed:no_action"),
        ],
    )
    def test_what_cannot_stand_in_the_middle(self, turn: str, code: str) -> None:
        done = step("malformed", talk(turn, seen("x"), search("a"), seen("y"), answer()))
        assert texts(done.trajectory) == [search("a"), seen("y"), answer()]
        assert codes(done) == {code: 1, "turns_removed": 1}

    @pytest.mark.parametrize(
        ("turn", "reply", "reason"),
        [
            ('<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>', seen("x"), Reason.NO_REASONING),
            (search("a") + " and so", seen("x"), Reason.MALFORMED_TURN),
        ],
    )
    def test_an_answer_that_would_rest_on_nothing_goes_with_its_calls(self, turn: str, reply: str, reason: Reason) -> None:
        done = step("malformed", talk(turn, reply, turn, reply, answer()))
        assert (done.trajectory, done.reason) == (None, reason)
        assert done.detail.startswith("no call is left: 2 times malformed:")

    def test_an_answer_without_any_call_is_no_matter_of_repair(self) -> None:
        found = talk(answer())
        assert step("malformed", found).trajectory is found

    def test_calls_of_which_not_all_were_answered_are_not_joined(self) -> None:
        events = (ToolEvent(name="search", role="search", status=ToolStatus.OK),)
        found = talk(call_text(FIND, ("search", {"query": ["b"]})), seen(results("b")), search("c"), seen("y"), answer())
        seen_node = found.nodes[3].model_copy(update={"events": events})
        found = found.model_copy(update={"nodes": (*found.nodes[:3], seen_node, *found.nodes[4:])})
        assert texts(step("malformed", found).trajectory) == [search("c"), seen("y"), answer()]

    def test_a_call_without_a_response(self) -> None:
        found = talk(search("a"), seen("x"), answer())
        nodes = [*found.nodes[:2], message(NodeKind.TURN, search("lost")), *found.nodes[2:]]
        done = step("malformed", chain(*nodes))
        assert texts(done.trajectory) == [search("a"), seen("x"), answer()]
        assert codes(done) == {"calls_without_response": 1, "turns_removed": 1}

    def test_a_response_without_a_call(self) -> None:
        found = talk(answer())
        nodes = [*found.nodes[:2], message(NodeKind.OBSERVATION, seen("x")), *found.nodes[2:]]
        assert codes(step("malformed", chain(*nodes))) == {"responses_without_call": 1}

    def test_a_call_and_an_answer_are_what_came_of_them(self) -> None:
        both = search("a") + "\n\n<answer>\nPorto\n</answer>"
        middle = step("malformed", talk(both, seen("x"), answer()))
        assert texts(middle.trajectory) == [search("a", think="Look it up.\n\nPorto"), seen("x"), answer()]
        last = step("malformed", talk(search("b"), seen("x"), both))
        assert texts(last.trajectory)[-1] == "<think>\nLook it up.\n</think>\n\n<answer>\nPorto\n</answer>"
        assert last.trajectory is not None and last.trajectory.answer == "Porto"

    def test_nothing_is_said_after_the_answer(self) -> None:
        found = talk(search("a"), seen("x"), answer(), "Thank you.")
        assert texts(step("malformed", found).trajectory)[-1] == answer()

    def test_several_searches_become_one(self) -> None:
        both = call_text(FIND, ("search", {"query": ["b"]}))
        done = step("malformed", talk(both, seen(results("a"), results("b")), answer()))
        assert texts(done.trajectory)[:2] == [search("a", "b"), seen(results("a", "b"))]
        assert codes(done) == {"calls_joined": 2}

    def test_calls_that_cannot_be_joined_go_with_their_results(self) -> None:
        done = step("malformed", talk(call_text(FIND, READ), seen(results("a"), "page"), answer()))
        assert texts(done.trajectory)[:2] == [search("a"), seen(results("a"))]
        assert codes(done) == {"calls_not_joined": 1}
        again = talk(call_text(FIND, READ), seen("1", "2"), search("a"), seen("y"), answer())
        assert texts(step("malformed", again, several_calls="drop").trajectory) == texts(again)[2:]

    def test_a_last_turn_without_an_answer_is_no_matter_of_repair(self) -> None:
        found = talk(search("a"), seen("x"), "I give up.")
        assert step("malformed", found).trajectory is found


class TestValidate:
    GOOD = talk(search("a"), seen("x"), answer())

    def test_what_is_well_formed_is_kept_as_it_is(self) -> None:
        assert step("validate", self.GOOD).trajectory is self.GOOD

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
