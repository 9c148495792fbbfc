"""DR-Venus: supervised trajectories, RL rollouts and the inference script's records.

The supervised files say what would be right (``gt``) and not how the episode ended; the rollouts say that they finished; only
the inference records name their termination.
"""

from typing import Any

from sanderling.protocol.endings import Ending
from sanderling.trajectory.ids import question_id
from sanderling.trajectory.importers.chat import chat_nodes, ending_of_finished, final_answer, texts
from sanderling.trajectory.importers.report import Notes
from sanderling.trajectory.record import NodeKind, Question, Trajectory

_TERMINATIONS = {
    "answered": Ending.ANSWERED,
    "answered_token_limit": Ending.ANSWERED_AT_BUDGET,
    "answered_max_steps": Ending.ANSWERED_AT_BUDGET,
    "token_limit_no_answer": Ending.NO_ANSWER,
    "max_steps": Ending.TURN_LIMIT,
    "timeout": Ending.TIME_LIMIT,
    "llm_error": Ending.POLICY_OUTAGE,
}
_HELD = frozenset({"question", "messages", "gt"})


def read_trajectory(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    """One file's object as a trajectory; fields that the record has no place for go to ``meta``."""
    nodes = chat_nodes(entry["messages"], id, notes)
    asked = entry.get("question")
    if not isinstance(asked, str):
        asked = next((node.text for node in nodes if node.kind is NodeKind.QUESTION), "")
    if not asked:
        notes.add("no_question", id)
    return Trajectory(
        id=id,
        question=Question(id=question_id(asked), text=asked, answers=texts(entry.get("gt"))),
        nodes=tuple(nodes),
        leaf=len(nodes) - 1 if nodes else None,
        ending=_ending(entry, nodes, id, notes),
        answer=final_answer(nodes),
        meta={key: value for key, value in entry.items() if key not in _HELD},
    )


def _ending(entry: dict[str, Any], nodes: list, id: str, notes: Notes) -> Ending | None:
    named = entry.get("termination")
    if named is not None:
        ending = _TERMINATIONS.get(str(named))
        if ending is None:
            notes.add("unknown_termination", id, named)
        return ending
    return ending_of_finished(nodes) if entry.get("finished") is True else None
