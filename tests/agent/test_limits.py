"""The loop's pure pieces: signatures, repetition, allowances, cutting."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sanderling.agent.limits import (
    CUT_MARK,
    allow,
    answer_tokens,
    cut_middle,
    signature,
)
from sanderling.core.profiles import Budgets
from sanderling.core.types import Ending, ToolCall

BEGUN = {"turns": 0, "seconds": 0.0}


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
