"""The loop's pure pieces: signatures, repetition, allowances, cutting."""

from hypothesis import given
from hypothesis import strategies as st

from sanderling.agent.turns import (
    CUT_MARK,
    allow,
    answer_tokens,
    cut_middle,
)
from sanderling.core.profiles import Budgets
from sanderling.core.types import Ending

BEGUN = {"turns": 0, "seconds": 0.0}


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
