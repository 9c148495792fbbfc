"""The loop's pure pieces: signatures, repetition, allowances, cutting."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.agent.limits import (
    CUT_MARK,
    Verdict,
    allow,
    answer_tokens,
    cut_middle,
    judge_turn,
    signature,
)
from sanderling.core.profiles import Budgets, Guards
from sanderling.core.types import Ending, ToolCall

GUARDS = Guards(repetition_tail_chars=10, repetition_count=3)
BEGUN = {"turns": 0, "seconds": 0.0}


def search(*queries: str) -> ToolCall:
    return ToolCall(name="search", arguments={"query": list(queries)})


def test_equal_requests_have_equal_signatures() -> None:
    assert signature(search("a", "b")) == signature(search("b", " a", "a")) != signature(search("a"))
    alone = ToolCall(name="search", arguments={"query": "a  b"}, raw="whatever")
    assert signature(alone) == signature(search("a b"))
    assert signature(ToolCall(name="visit", arguments={"query": ["a"]})) != signature(search("a"))


@pytest.mark.parametrize("other", [{"url": ["u"], "goal": "h"}, {"url": ["v"], "goal": "g"}, {"url": ["u"]}])
def test_another_page_or_another_goal_is_another_call(other: dict[str, object]) -> None:
    call = ToolCall(name="visit", arguments={"goal": "g", "url": ["u"]})
    assert signature(call) != signature(ToolCall(name="visit", arguments=other))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_signatures_ignore_the_order_of_keys(arguments: dict[str, object]) -> None:
    turned = dict(reversed(arguments.items()))
    assert signature(ToolCall(name="x", arguments=arguments)) == signature(ToolCall(name="x", arguments=turned))
    assert json.loads(signature(ToolCall(name="x", arguments=arguments)))[0] == "x"


@pytest.mark.parametrize(
    ("text", "repetitive"),
    [("0123456789" * 3, False), ("0123456789" * 4, True), ("", False), ("0123456789" * 9 + "and then the end", False)],
)
def test_a_text_is_repetitive_when_its_tail_occurs_too_often(text: str, repetitive: bool) -> None:
    assert judge_turn(text, [], "a", (), GUARDS) is (Verdict.REPETITIVE if repetitive else Verdict.ANSWER)


def test_verdicts() -> None:
    new, old = search("new"), search("old")
    made = {signature(old)}
    cases = {
        Verdict.ANSWER: ("x", [], "a"),
        Verdict.CALLS: ("x", [old, new], None),
        Verdict.REPEATED_CALL: ("x", [old, old], None),
        Verdict.MALFORMED: ("x", [new], "a"),
        Verdict.REPETITIVE: ("0123456789" * 4, [], "a"),
    }
    for verdict, (text, calls, answer) in cases.items():
        assert judge_turn(text, calls, answer, made, GUARDS) is verdict
        assert verdict.acceptable == (verdict in (Verdict.ANSWER, Verdict.CALLS))
    assert judge_turn("x", [], None, made, GUARDS) is Verdict.MALFORMED


@given(
    limit=st.integers(16, 5_000),
    prompt=st.integers(0, 5_000),
    reserve=st.integers(1, 3_000),
    turn_tokens=st.integers(1, 3_000),
    hint=st.integers(0, 200),
)
def test_an_allowed_turn_leaves_room_for_hint_and_answer(
    limit: int, prompt: int, reserve: int, turn_tokens: int, hint: int
) -> None:
    budgets = Budgets(answer_reserve_tokens=reserve)
    got = allow(budgets, **BEGUN, prompt_tokens=prompt, limit=limit, turn_tokens=turn_tokens, hint_tokens=hint)
    answer = answer_tokens(budgets, turn_tokens)
    if got.spent is None:
        assert answer <= got.max_tokens <= turn_tokens and prompt + got.max_tokens + hint + answer <= limit
        assert prompt + reserve <= limit
    else:
        assert got.spent is Ending.CONTEXT_EXHAUSTED and got.max_tokens == 0
        assert prompt + reserve > limit or prompt + 2 * answer + hint > limit


def test_dr_venus_is_forced_at_230_000_tokens() -> None:
    from sanderling.core.profiles import DR_VENUS_4B

    def at(prompt: int) -> Ending | None:
        sizes = {"limit": 262_144, "turn_tokens": DR_VENUS_4B.sampling.max_tokens, "hint_tokens": 100}
        return allow(DR_VENUS_4B.budgets, **BEGUN, prompt_tokens=prompt, **sizes).spent

    assert at(230_000) is None and at(230_001) is Ending.CONTEXT_EXHAUSTED


def test_turns_and_time_are_counted() -> None:
    budgets = Budgets(max_turns=3, max_seconds=9.0)

    def spent(turns: int, seconds: float) -> Ending | None:
        sizes = {"prompt_tokens": 10, "limit": 100_000, "turn_tokens": 10, "hint_tokens": 1}
        return allow(budgets, turns=turns, seconds=seconds, **sizes).spent

    assert [spent(2, 8.9), spent(3, 0.0), spent(0, 9.0)] == [None, Ending.TURN_LIMIT, Ending.TIME_LIMIT]


@given(st.text(max_size=400), st.integers(0, 420))
def test_cutting_keeps_both_ends_and_fits(text: str, most: int) -> None:
    cut = cut_middle(text, len, most)
    if len(text) <= most:
        assert cut == text
    elif most < len(CUT_MARK):
        assert cut is None
    else:
        assert cut is not None and len(cut) <= most
        head, _, tail = cut.partition(CUT_MARK)
        assert text.startswith(head) and text.endswith(tail) and 0 <= len(head) - len(tail) <= 1


@given(st.integers(100, 2_000), st.floats(0.1, 0.9))
def test_cutting_wastes_little_and_measures_little(size: int, share: float) -> None:
    measured = 0

    def cost(text: str) -> int:
        nonlocal measured
        measured += 1
        return len(text) + 30  # a scaffold around the text

    most = min(int(size * share) + len(CUT_MARK), size - 1) + 30
    cut = cut_middle("x" * size, cost, most)
    assert cut is not None and len(cut) + 30 >= most - 3 and measured <= 5
