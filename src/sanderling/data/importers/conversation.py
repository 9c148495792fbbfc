"""An entry with a conversation as a trajectory: what the chat layouts share beyond their messages.

The question is what the entry calls so, or else its first user message; its id is made of its text, so that rollouts of one
question share it. Fields that the record has no place for stay in ``meta``. Knows no one layout.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.core.record import Node, NodeKind, Question, Trajectory, question_id
from sanderling.data.importers.chat import chat_nodes
from sanderling.data.importers.endings import ending_of, final_answer
from sanderling.data.importers.fields import ANSWER_KEYS, SURE_QUESTION_KEYS, masked_urls, opened, rest
from sanderling.data.importers.report import Notes


@dataclass(frozen=True)
class Told:
    """What a layout's file says of the question."""

    question: str | None = None
    answers: tuple[str, ...] = ()


def conversation(
    entry: Mapping[str, Any], messages: Sequence[Any], id: str, notes: Notes, *, told: Told, held: Iterable[str]
) -> Trajectory:
    """A trajectory of a list of messages. ``held``: the entry's fields that need not stay in ``meta``."""
    return assembled(entry, chat_nodes(messages, id, notes), id, notes, told=told, held=held)


def assembled(
    entry: Mapping[str, Any], nodes: Sequence[Node], id: str, notes: Notes, *, told: Told, held: Iterable[str]
) -> Trajectory:
    """A trajectory of finished nodes."""
    asked = told.question
    if asked is None:
        asked = next((node.text for node in nodes if node.kind is NodeKind.QUESTION), "")
    if not asked.strip():
        notes.add("no_question", id)
    said = set(held)
    if not told.answers:  # an answer that is not text, in whatever form, stays in ``meta``
        said -= {key for key in ANSWER_KEYS if entry.get(key)}
    last = _last(nodes)
    return Trajectory(
        id=id,
        question=Question(id=question_id(asked), text=asked, answers=told.answers, masked_urls=masked_urls(entry)),
        nodes=tuple(nodes),
        leaf=last - 1 if last else None,
        ending=ending_of(entry, nodes[:last], id, notes),
        answer=final_answer(nodes[:last]),
        meta=rest(entry, {*said, *(key for key in SURE_QUESTION_KEYS if entry.get(key) == asked)}),
    )


def _last(nodes: Sequence[Node]) -> int:
    """How many nodes the episode has: what an environment says after the answer ("episode finished") hangs off its end."""
    ends = len(nodes)
    if ends > 1 and nodes[-1].kind is NodeKind.OBSERVATION and nodes[-2].kind is NodeKind.TURN:
        ends -= nodes[-2].answer is not None and not nodes[-2].calls
    return ends


def messages_in(entry: Mapping[str, Any], key: str = "messages") -> list[Any] | None:
    """A field's list of messages: as it is, as JSON text, or as ``datasets`` stores it, a list for each of their fields."""
    value = opened(entry.get(key))
    if isinstance(value, dict) and value and {"role", "from"} & set(value):
        columns = {name: column for name, column in value.items() if isinstance(column, list)}
        sizes = {len(column) for column in columns.values()}
        if len(columns) == len(value) and len(sizes) == 1:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return value if isinstance(value, list) else None


def with_system(entry: Mapping[str, Any], messages: list[Any], key: str) -> list[Any]:
    """The messages, with a system prompt that stands beside them as the first; unless they have one of their own."""
    prompt = entry.get(key)
    first = messages[0] if messages else None
    has_one = isinstance(first, dict) and first.get("role", first.get("from")) in ("system", "developer")
    return (
        messages if has_one or not isinstance(prompt, str) or not prompt else [{"role": "system", "content": prompt}, *messages]
    )
