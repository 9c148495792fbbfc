"""The steps one by one: what is dropped at which number, what goes along, and where token ids stay."""

import datetime

import pytest
from cleaning_makers import (
    DR_VENUS,
    MARKDOWN,
    PYTHON,
    answer,
    call_text,
    chain,
    clean,
    kinds,
    message,
    results,
    search,
    seen,
    step,
    talk,
    visit,
)
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.grammar import check_final, check_turn
from sanderling.core.profiles import get_profile
from sanderling.core.prompts import default_specs, render_question, render_system
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import FixedClock, Role, ToolCall
from sanderling.data.cleaning.cleaner import Outcome, Reason, get_recipe

LATE = seen("Tool execution timed out after 120 seconds.")


def lite(name: str, found: Trajectory, **settings: object) -> Outcome:
    return step(name, found, get_profile("literesearcher-4b"), **settings)


def calls(*turns: str) -> Trajectory:
    said = [text for turn in turns for text in (turn, seen("x"))]
    return talk(*said, answer())


BARE = '<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>'
DEAD = "The useful information in u for user goal g as follows: \n\nEvidence in page: \nThe page could not be accessed."
GOALS = calls(*(visit("https://a.example/", goal=f"{number}") for number in range(4)))
FAILED = talk(search("a"), LATE, search("b"), LATE, search("c"), seen("[]"), answer())
TWO = calls(search("a"), search("b"))
SIZE = sum(len(node.text) for node in TWO.branch())
USED = calls(search("a"), call_text(("pythoninterpreter", {"code": "1"})))


@pytest.mark.parametrize(
    ("name", "found", "settings", "reason", "detail"),
    [
        ("repeat_limit", calls(*[search("a")] * 3), {}, None, ""),
        ("repeat_limit", calls(*[search("a")] * 4), {}, Reason.REPEATED_CALLS, '4 times ["search", ["a"]]'),
        ("repeat_limit", GOALS, {}, None, ""),
        ("repeat_limit", GOALS, {"with_goal": False}, Reason.REPEATED_CALLS, '4 times ["visit", ["https://a.example/"], null]'),
        ("min_calls", calls(search("a")), {}, Reason.TOO_FEW_CALLS, "1 calls"),
        ("min_calls", calls(search("a"), search("a")), {}, None, ""),
        ("tool_errors", FAILED, {}, None, ""),
        ("tool_errors", FAILED, {"most": 1}, Reason.TOOL_ERRORS, "2 failed calls"),
        ("tool_errors", talk(visit("u"), seen(DEAD), answer()), {"most": 0}, Reason.TOOL_ERRORS, "1 failed calls"),
        ("reasoning", talk(search("a"), seen("x"), BARE, seen("x"), answer()), {}, Reason.NO_REASONING, "turn 2"),
        ("reasoning", calls(search("a", think="Hm.")), {"least_characters": 4}, Reason.NO_REASONING, "turn 1"),
        ("forbidden", USED, {}, Reason.FORBIDDEN_TOOL, "pythoninterpreter"),
        ("length", TWO, {"most_turns": 2}, Reason.TOO_LONG, "3 turns"),
        ("length", TWO, {"most_characters": SIZE}, None, ""),
        ("length", TWO, {"most_characters": SIZE - 1}, Reason.TOO_LONG, f"{SIZE} characters"),
    ],
)
def test_filters_at_their_numbers(name: str, found: Trajectory, settings: dict, reason: Reason | None, detail: str) -> None:
    done = lite(name, found, **settings)
    assert (done.reason, done.detail) == (reason, detail) and (reason is not None or done.trajectory is found)


class TestArtefacts:
    @pytest.mark.parametrize("text", ["\ufffd", "\ud83d", "a\x00b", "it\u00e2\u20ac\u2122s", r"\u6f6e\u95f4"])
    def test_garbled_text_of_the_agent(self, text: str) -> None:
        found = talk(search("a", think=f"So {text} it is."), seen("x"), answer())
        assert lite("artefacts", found).reason is Reason.ARTEFACTS

    @given(st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffd"), min_size=1))
    def test_what_was_misread_is_found(self, text: str) -> None:
        misread = text.encode("utf-8").decode("latin-1")
        found = lite("artefacts", talk(search("a", think=misread), seen("x"), answer())).reason
        assert (found is None) == text.isascii()


def sampled(text: str, number: int) -> dict[str, object]:
    """Ids as of a loop: the turn's text begins inside the reasoning, as the prompt's tag has it."""
    ids = tuple(range(number, number + 3))
    return {"token_ids": ids, "logprobs": (-0.5,) * 3, "versions": (1,) * 3, "loss_mask": (True,) * 3}


def turn(text: str, number: int, **fields: object) -> Node:
    node = message(NodeKind.TURN, text, **sampled(text, number), **fields)
    return node.model_copy(update={"text": text.removeprefix("<think>\n")})


def given(text: str, kind: NodeKind) -> Node:
    return message(kind, text, token_ids=(9, 9))


def record(*nodes: Node) -> Trajectory:
    """An episode of our own loop, with ids throughout."""
    prompt = render_system(DR_VENUS, default_specs(DR_VENUS), FixedClock(datetime.date(2026, 3, 1)))
    opening = (given(prompt, NodeKind.SYSTEM), given(render_question(DR_VENUS, "Which city?"), NodeKind.QUESTION))
    return chain(*opening, *nodes, profile=DR_VENUS.name, tokenizer="fingerprint")  # pyright: ignore[reportArgumentType]


def cleaned(found: Trajectory) -> tuple[Trajectory, dict[str, int]]:
    (kept,), _, report = clean([found], get_recipe("dr-venus"))
    return kept, {code: count.number for one in report.steps for code, count in one.notes.items()}


def test_what_is_well_formed_is_not_touched() -> None:
    found = record(turn(search("a"), 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3))
    assert cleaned(found) == (found, {})


def test_a_removed_turn_leaves_the_others_their_ids_but_later_ones_no_log_probabilities() -> None:
    seen_ = given(seen(results("a")), NodeKind.OBSERVATION)
    found = record(turn(search("a"), 0), seen_, turn(search("a"), 3), seen_, turn(answer(), 6))
    kept, counts = cleaned(found)
    assert [node.token_ids for node in kept.branch()][2:] == [(0, 1, 2), (9, 9), (6, 7, 8)]
    first, last = [node for node in kept.branch() if node.kind is NodeKind.TURN]
    assert (first.logprobs, first.versions) == ((-0.5,) * 3, (1,) * 3)
    assert (last.logprobs, last.versions) == (None, (1,) * 3)
    assert counts["logprobs_dropped"] == 1
    assert kept.token_ids() == [9, 9, 9, 9, 0, 1, 2, 9, 9, 6, 7, 8]


def test_the_whole_order_leaves_ids_throughout_or_none() -> None:
    """Training refuses a record with ids for some messages; turns are then written out with the prompt's tag."""
    odd = search("a").replace('"search"', '"google_search"')
    kept, counts = cleaned(record(turn(odd, 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3)))
    assert {node.token_ids for node in kept.nodes} == {None}
    assert [node.text for node in kept.turns()] == [search("a"), answer()]
    assert counts["messages_without_ids"] == 4


def test_a_rejected_attempt_stays_where_its_context_stays() -> None:
    base = record(turn(search("a"), 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3))
    rejected = message(NodeKind.TURN, "no form", rejected=True).model_copy(update={"parent": 3})
    found = base.model_copy(
        update={"nodes": (*base.nodes[:4], rejected, base.nodes[4].model_copy(update={"parent": 3})), "leaf": 5}
    )
    assert cleaned(found) == (found, {})


def test_a_branch_whose_context_changed_is_pruned_and_counted() -> None:
    seen_ = given(seen(results("a")), NodeKind.OBSERVATION)
    base = record(turn(search("a"), 0), seen_, turn(search("a"), 3), seen_, turn(visit("u"), 6), seen_, turn(answer(), 9))
    early = message(NodeKind.TURN, "no form", rejected=True).model_copy(update={"parent": 3})
    late = message(NodeKind.TURN, "no form", rejected=True).model_copy(update={"parent": 7})
    child = Node(parent=10, role=Role.USER, kind=NodeKind.HINT, text="Malformed.")
    found = base.model_copy(update={"nodes": (*base.nodes, early, late, child)})
    kept, counts = cleaned(found)
    assert counts["branch_messages_pruned"] == 2
    assert len(kept.nodes) == len(found.nodes) - 2 - 2
    assert kept.leaves() == [kept.leaf, len(kept.nodes) - 1]
    assert kept.nodes[-1].parent == 3 and kept.nodes[-1].rejected


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
    done, _ = cleaned(found)
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
