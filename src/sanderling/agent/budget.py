"""Budgets: may another turn begin, how long may it be, and what is left for a forced answer? Pure functions of plain numbers.

The context is laid out so that a forced answer always has its place: ``prompt | turn | closing hint | answer``. A turn begins
only while the profile's reserve is free, and only where it need not be cut shorter than an answer may be; it may then use all
but the hint and the answer. An answer is itself a turn, so it never needs more than a turn's tokens, however large the reserve.
Knows nothing of texts, tokens' values or policies.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sanderling.core.profiles import Budgets
from sanderling.core.types import Ending

CUT_MARK = "\n[... cut to fit the context ...]\n"


@dataclass(frozen=True)
class Standing:
    """What an episode has used up before a turn."""

    turns: int
    prompt_tokens: int
    """Everything the model would see, what is new included."""
    seconds: float


@dataclass(frozen=True)
class Allowance:
    """What the next turn may use, or why there is no next turn."""

    max_tokens: int = 0
    """Most tokens of the turn; 0 when a budget is spent."""
    spent: Ending | None = None
    """The ending a spent budget has when answers are not forced; None: go on."""
    detail: str = ""
    """One sentence on the spent budget."""


def context_limit(budgets: Budgets, model_limit: int | None) -> int:
    """Most tokens the model may see: the profile's budget or the model's own length, whichever is smaller."""
    return budgets.max_context_tokens if model_limit is None else min(budgets.max_context_tokens, model_limit)


def allow(standing: Standing, budgets: Budgets, *, limit: int, turn_tokens: int, hint_tokens: int) -> Allowance:
    """Decide on the next turn.

    ``limit`` comes from :func:`context_limit`, ``turn_tokens`` is the most tokens of one turn, ``hint_tokens`` is what the
    closing hint costs in an observation of its own.
    """
    if budgets.max_seconds is not None and standing.seconds >= budgets.max_seconds:
        return Allowance(spent=Ending.TIME_LIMIT, detail=f"The episode's {budgets.max_seconds:g} seconds were used up.")
    if standing.turns >= budgets.max_turns:
        return Allowance(spent=Ending.TURN_LIMIT, detail=f"All {budgets.max_turns} turns were used.")
    answer = answer_tokens(budgets, turn_tokens)
    room = limit - answer - hint_tokens - standing.prompt_tokens
    if standing.prompt_tokens > limit - budgets.answer_reserve_tokens or room < answer:
        detail = f"The context was full: {standing.prompt_tokens} of {limit} tokens, with room kept for an answer."
        return Allowance(spent=Ending.CONTEXT_EXHAUSTED, detail=detail)
    return Allowance(max_tokens=min(turn_tokens, room))


def answer_tokens(budgets: Budgets, turn_tokens: int) -> int:
    """Tokens kept for a forced answer: the profile's reserve, but no more than one turn may have."""
    return min(budgets.answer_reserve_tokens, turn_tokens)


def cut_middle(text: str, cost: Callable[[str], int], most: int) -> str | None:
    """Cut a text from its middle until ``cost(text)`` is at most ``most``; None when even the mark alone costs more.

    Head and tail stay, because an observation's first results rank highest and its end was read last. Takes few calls of
    ``cost``: the first cut is proportional, later ones take a tenth more.
    """
    used, least = cost(text), cost(CUT_MARK)
    if used <= most:
        return text
    if least > most:
        return None
    keep = int(len(text) * (most - least) / max(used - cost(""), 1))
    while keep > 0:
        shorter = text[: keep - keep // 2] + CUT_MARK + text[len(text) - keep // 2 :]
        if cost(shorter) <= most:
            return shorter
        keep = keep * 9 // 10
    return CUT_MARK
