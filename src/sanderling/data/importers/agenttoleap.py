"""AgentToLeaP, AgentCPM-Explore's evaluation: ``result.json`` of each attempt, and the file of right dialogues.

``result.json`` holds ``task_id``, ``query``, ``success``, the whole ``conversation_history``, ``tool_calls``,
``execution_time``, ``interactions``, ``max_interactions_reached`` and ``logprobs``; ``dialog.json`` beside it repeats the
history, or its first part where the context was reset (later parts stand in folders ``TASK-context-N``, without a result, and
are bare lists of messages). The accepted answer is not in it: the task joins the result only after it was written, so that
``gaia_sample`` is met in the list of a whole batch (``batch_results.json``) alone.

``success`` says that nothing broke, not that there is an answer: last words without tags are an answer only where turns were
left. A run that failed has no ending, as the file does not say whose failure it was.
"""

import re
from typing import Any

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Ending
from sanderling.data.importers.conversation import Told, conversation, messages_in
from sanderling.data.importers.fields import accepted, asked, record_of
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes
from sanderling.data.importers.turns import structured_turn_node

_KEYS = ("conversation_history", "dialog")
_TAGGED = re.compile(r"(?:<answer\b>?|\banswer>)(.*?)(?:</answer\b>?|/answer>)", re.IGNORECASE | re.DOTALL)
"""An answer as this harness reads one: a bracket of either tag may be missing."""
REPEATED = frozenset(
    {"dialog.json", "trace.json", "tool_calls.json", "meta_config.json", "llm_interactions.json", "logprobs.json"}
)
"""Files that repeat a part of the ``result.json`` beside them."""


def _key(entry: dict[str, Any]) -> str | None:
    return next((key for key in _KEYS if messages_in(entry, key) is not None), None)


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    key = _key(entry) or _KEYS[0]
    sample = record_of(entry, "gaia_sample")
    told = Told(asked(sample) or asked(entry, ("query", "question")), accepted(sample) or accepted(entry))
    if entry.get("success") is False:
        notes.add("failed_run", id, entry.get("error", ""))
    messages = messages_in(entry, key) or []
    found = conversation(entry, messages, id, notes, told=told, held={key})
    seconds = entry.get("execution_time")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < float("inf"):
        found = found.model_copy(update={"seconds": float(seconds)})
    last = _last(messages)
    tagged = _tagged(last)
    whole = "<answer>" in last and "</answer>" in last
    if tagged is not None and not whole:
        notes.add("answer_in_broken_tags", id, last)
        ended = Ending.ANSWERED if entry.get("success") is True else found.ending
        found = found.model_copy(update={"answer": tagged, "ending": ended})
    if entry.get("max_interactions_reached") is not True:
        return found
    if tagged is None:
        notes.add("no_answer_at_the_limit", id)
        return _without_answer(found, id, notes)
    return found.model_copy(update={"ending": Ending.ANSWERED_AT_BUDGET}) if _was_told(messages) else found


def _was_told(messages: list[Any]) -> bool:
    """Whether the harness asked for the last message, as it does once when no turn is left."""
    return len(messages) > 1 and isinstance(messages[-2], dict) and messages[-2].get("role") == "system"


def _last(messages: list[Any]) -> str:
    """What the last message says."""
    content = messages[-1].get("content") if messages and isinstance(messages[-1], dict) else None
    return content if isinstance(content, str) else ""


def _tagged(text: str) -> str | None:
    """The answer that a message holds between tags, whole or broken; None: it holds none."""
    found = _TAGGED.findall(text)
    return found[-1].strip() if found and found[-1].strip() else None


def _without_answer(found: Trajectory, id: str, notes: Notes) -> Trajectory:
    """The same without the answer that its last words were taken for."""
    ended = {"ending": Ending.TURN_LIMIT, "answer": None}
    last = None if found.leaf is None else found.nodes[found.leaf]
    if last is None or last.kind is not NodeKind.TURN or last.answer is None:
        return found.model_copy(update=ended)
    nodes = list(found.nodes)
    nodes[found.leaf or 0] = _untagged(last, id, notes)
    return found.model_copy(update={**ended, "nodes": tuple(nodes)})


def _untagged(last: Node, id: str, notes: Notes) -> Node:
    node = structured_turn_node(
        last.think, last.calls, None, last.parent, id, notes, raw=last.raw or {}, said=last.answer or ""
    )
    return node.model_copy(update={"raw": last.raw})


AGENTTOLEAP = LayoutReader(Layout.AGENTTOLEAP, lambda entry: _key(entry) is not None, _read)
