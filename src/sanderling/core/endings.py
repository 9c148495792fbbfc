"""How an episode ends: one enum for the loop, rewards, evaluation and reports.

An ending says what happened; it never says whether the answer was right. Outages are not the agent's doing, so they are
*unscored*: neither zero reward nor a wrong answer.
"""

from enum import StrEnum


class Ending(StrEnum):
    """Why an episode stopped."""

    ANSWERED = "answered"
    """The agent gave an answer of its own accord."""
    ANSWERED_AT_BUDGET = "answered_at_budget"
    """The agent gave an answer after being told that its turns, context or time were used up."""
    NO_ANSWER = "no_answer"
    """The agent was told to answer and produced a turn without an answer."""
    CONTEXT_EXHAUSTED = "context_exhausted"
    """The context was full, and no room was left for a forced answer."""
    TURN_LIMIT = "turn_limit"
    """All turns were used, and forced answers are switched off."""
    TIME_LIMIT = "time_limit"
    """The wall-clock budget was used up, and forced answers are switched off."""
    REPETITION = "repetition"
    """The agent repeated itself (text loop or the same calls) past the guard's limit."""
    MALFORMED = "malformed"
    """Too many turns in a row could not be read as a tool call or an answer."""
    TOOL_OUTAGE = "tool_outage"
    """A tool's backend was unreachable; unscored."""
    POLICY_OUTAGE = "policy_outage"
    """The model's backend was unreachable; unscored."""
    CANCELLED = "cancelled"
    """Somebody stopped the episode; unscored."""

    @property
    def scored(self) -> bool:
        """Whether the episode may receive an outcome; false for outages and cancellation."""
        return self not in _UNSCORED

    @property
    def has_answer(self) -> bool:
        """Whether the agent's own final answer exists."""
        return self in (Ending.ANSWERED, Ending.ANSWERED_AT_BUDGET)


_UNSCORED = frozenset({Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED})
