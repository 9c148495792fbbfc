"""Guards against going round in circles: is a turn's text a loop, and was its call made before? Pure functions.

Knows calls as the parser gives them; knows no tool, no policy, and not what the loop does about a verdict.
"""

import json
from collections.abc import Container, Sequence
from enum import StrEnum
from typing import Any

from sanderling.core.profiles import Guards
from sanderling.core.types import ToolCall


class Verdict(StrEnum):
    """What one turn turned out to be."""

    ANSWER = "answer"
    """An answer and no call."""
    CALLS = "calls"
    """Calls, at least one of them new, and no answer."""
    REPEATED_CALL = "repeated_call"
    """Calls, all of them made before in this episode."""
    MALFORMED = "malformed"
    """Neither call nor answer, or both."""
    REPETITIVE = "repetitive"
    """The text goes round in circles, whatever else it holds."""

    @property
    def acceptable(self) -> bool:
        """Whether the turn stands at the first attempt, however many retries are left."""
        return self in (Verdict.ANSWER, Verdict.CALLS)


def signature(call: ToolCall) -> str:
    """Canonical form of a call: equal for calls that ask the same.

    Keys are sorted, runs of white space are one space, a list of texts is a sorted set, and a lone text equals a list of it.
    """
    canonical = {key: _canonical(value) for key, value in call.arguments.items()}
    return json.dumps([call.name, canonical], ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def is_repetitive(text: str, guards: Guards) -> bool:
    """Whether the text's last ``repetition_tail_chars`` characters occur in it more than ``repetition_count`` times.

    Occurrences are counted without overlap, as DR-Venus' inference does (last 50 characters, more than 5 times).
    """
    tail = guards.repetition_tail_chars
    if len(text) < tail * (guards.repetition_count + 1):
        return False
    return text.count(text[-tail:]) > guards.repetition_count


def judge_turn(text: str, calls: Sequence[ToolCall], answer: str | None, made: Container[str], guards: Guards) -> Verdict:
    """What a parsed turn is; ``made`` holds the signatures of the calls already executed."""
    if is_repetitive(text, guards):
        return Verdict.REPETITIVE
    if bool(calls) == (answer is not None):
        return Verdict.MALFORMED
    if answer is not None:
        return Verdict.ANSWER
    if all(signature(call) in made for call in calls):
        return Verdict.REPEATED_CALL
    return Verdict.CALLS


def _canonical(value: Any) -> Any:
    """One argument in canonical form."""
    if isinstance(value, str):
        return [" ".join(value.split())]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted({" ".join(item.split()) for item in value})
    return value
