r"""WebDancer and Tongyi ChatML: the first user message holds the tools' description and, after ``User: ``, the question.

Answers are nested lists of accepted texts. The files do not say how an episode ended.
"""

from typing import Any

from sanderling.trajectory.ids import question_id
from sanderling.trajectory.importers.chat import chat_nodes, final_answer, texts
from sanderling.trajectory.importers.report import Notes
from sanderling.trajectory.record import NodeKind, Question, Trajectory

_MARK = "\nUser: "
_HELD = frozenset({"messages", "answer"})


def read_trajectory(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    """One line as a trajectory; fields that the record has no place for go to ``meta``."""
    nodes = chat_nodes(entry["messages"], id, notes)
    told = next((node.text for node in nodes if node.kind is NodeKind.QUESTION), "")
    _, mark, asked = told.rpartition(_MARK)
    if not mark:
        notes.add("no_question_mark", id, told[-200:])
    asked = asked.strip()
    return Trajectory(
        id=id,
        question=Question(id=question_id(asked), text=asked, answers=texts(entry.get("answer"))),
        nodes=tuple(nodes),
        leaf=len(nodes) - 1 if nodes else None,
        ending=None,
        answer=final_answer(nodes),
        meta={key: value for key, value in entry.items() if key not in _HELD},
    )


def read_question(entry: dict[str, Any]) -> Question:
    """One line of a file of questions and answers."""
    text = str(entry["question"])
    meta = {key: value for key, value in entry.items() if key not in ("question", "answer")}
    return Question(id=question_id(text), text=text, answers=texts(entry.get("answer")), meta=meta)
