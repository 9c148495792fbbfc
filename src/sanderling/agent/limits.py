"""What ends an episode besides an answer: budgets of turns, context and time, and guards against going round in circles.

The context is laid out so that a forced answer always has its place: ``prompt | turn | closing hint | answer``. A turn begins
only while the profile's reserve is free, and only where it need not be cut shorter than an answer may be.
"""

import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sanderling.core.profiles import Budgets, Guards
from sanderling.core.types import Ending, ToolCall

CUT_MARK = "\n[... cut to fit the context ...]\n"


@dataclass(frozen=True)
class Allowance:
    """What the next turn may use, or why there is none: ``spent`` is the ending when answers are not forced."""

    max_tokens: int = 0
    spent: Ending | None = None
    detail: str = ""  # one sentence on the spent budget


def allow(
    budgets: Budgets, *, turns: int, prompt_tokens: int, seconds: float, limit: int, turn_tokens: int, hint_tokens: int
) -> Allowance:
    """Decide on the next turn; ``limit``: most tokens that the model may see, ``turn_tokens``: most of one turn."""
    if budgets.max_seconds is not None and seconds >= budgets.max_seconds:
        return Allowance(spent=Ending.TIME_LIMIT, detail=f"The episode's {budgets.max_seconds:g} seconds were used up.")
    if turns >= budgets.max_turns:
        return Allowance(spent=Ending.TURN_LIMIT, detail=f"All {budgets.max_turns} turns were used.")
    answer = answer_tokens(budgets, turn_tokens)
    room = limit - answer - hint_tokens - prompt_tokens
    if prompt_tokens > limit - budgets.answer_reserve_tokens or room < answer:
        detail = f"The context was full: {prompt_tokens} of {limit} tokens, with room kept for an answer."
        return Allowance(spent=Ending.CONTEXT_EXHAUSTED, detail=detail)
    return Allowance(max_tokens=min(turn_tokens, room))


def answer_tokens(budgets: Budgets, turn_tokens: int) -> int:
    """Tokens kept for a forced answer: the profile's reserve, but no more than one turn may have."""
    return min(budgets.answer_reserve_tokens, turn_tokens)


def cut_middle(text: str, cost: Callable[[str], int], most: int) -> str | None:
    """Cut a text from its middle until ``cost(text)`` is at most ``most``; None when even the mark alone costs more."""
    used, least = cost(text), cost(CUT_MARK)
    if used <= most:
        return text
    if least > most:
        return None
    # Few calls of ``cost``: the first cut is proportional, later ones take a tenth more.
    keep = int(len(text) * (most - least) / max(used - cost(""), 1))
    while keep > 0:
        shorter = text[: keep - keep // 2] + CUT_MARK + text[len(text) - keep // 2 :]
        if cost(shorter) <= most:
            return shorter
        keep = keep * 9 // 10
    return CUT_MARK


class Verdict(StrEnum):
    """What one turn turned out to be."""

    ANSWER = "answer"  # and no call
    CALLS = "calls"  # at least one of them new, and no answer
    REPEATED_CALL = "repeated_call"  # all of the calls were made before in this episode
    MALFORMED = "malformed"  # neither call nor answer, or both
    REPETITIVE = "repetitive"  # the text goes round in circles, whatever else it holds

    @property
    def acceptable(self) -> bool:
        """Whether the turn stands at the first attempt, however many retries are left."""
        return self in (Verdict.ANSWER, Verdict.CALLS)


def judge_turn(text: str, calls: Sequence[ToolCall], answer: str | None, made: Container[str], guards: Guards) -> Verdict:
    """What a parsed turn is; ``made`` holds the signatures of the calls already executed."""
    # As DR-Venus' inference counts: how often the last characters occur in the text, without overlap.
    tail, most = guards.repetition_tail_chars, guards.repetition_count
    if len(text) >= tail * (most + 1) and text.count(text[-tail:]) > most:
        return Verdict.REPETITIVE
    if bool(calls) == (answer is not None):
        return Verdict.MALFORMED
    if answer is not None:
        return Verdict.ANSWER
    return Verdict.REPEATED_CALL if all(signature(call) in made for call in calls) else Verdict.CALLS


def signature(call: ToolCall) -> str:
    """Canonical form of a call, equal for calls that ask the same: lists of texts are sorted sets, a lone text a list of it."""
    arguments: dict[str, Any] = {}
    for key, value in call.arguments.items():
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(item, str) for item in texts):
            value = sorted({" ".join(item.split()) for item in texts})
        arguments[key] = value
    return json.dumps([call.name, arguments], ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
