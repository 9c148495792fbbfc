"""How a recorded episode ended, where its file says so; never guessed. Knows no layout."""

from collections.abc import Mapping, Sequence
from typing import Any

from sanderling.core.record import Node, NodeKind
from sanderling.core.types import Ending
from sanderling.data.importers.report import Notes

_TERMINATIONS = {
    # DR-Venus' inference script
    "answered": Ending.ANSWERED,
    "answered_token_limit": Ending.ANSWERED_AT_BUDGET,
    "answered_max_steps": Ending.ANSWERED_AT_BUDGET,
    "token_limit_no_answer": Ending.NO_ANSWER,
    "max_steps": Ending.TURN_LIMIT,
    "timeout": Ending.TIME_LIMIT,
    "llm_error": Ending.POLICY_OUTAGE,
    # Tongyi's agents
    "answer": Ending.ANSWERED,
    "generate an answer as token limit reached": Ending.ANSWERED_AT_BUDGET,
    "format error: generate an answer as token limit reached": Ending.NO_ANSWER,
    "answer not found": Ending.NO_ANSWER,
    "exceed available llm calls": Ending.TURN_LIMIT,
    "No answer found after 2h30mins": Ending.TIME_LIMIT,
}


def ending_of(entry: Mapping[str, Any], nodes: Sequence[Node], where: str, notes: Notes) -> Ending | None:
    """The ending that ``termination``, ``finished`` or ``success`` tells; None when none of them does."""
    named = entry.get("termination")
    if named is not None:
        ending = _TERMINATIONS.get(str(named))
        if ending is None:
            notes.add("unknown_termination", where, named)
        return ending
    return ending_of_finished(nodes) if entry.get("finished") is True or entry.get("success") is True else None


def final_answer(nodes: Sequence[Node]) -> str | None:
    """The answer of the last turn, if the episode ends with it."""
    return nodes[-1].answer if nodes and nodes[-1].kind is NodeKind.TURN else None


def ending_of_finished(nodes: Sequence[Node]) -> Ending | None:
    """The ending of a rollout whose file says that it finished: only an answer is beyond doubt."""
    if final_answer(nodes) is None:
        return None
    told = len(nodes) > 1 and nodes[-2].kind is NodeKind.HINT
    return Ending.ANSWERED_AT_BUDGET if told else Ending.ANSWERED
