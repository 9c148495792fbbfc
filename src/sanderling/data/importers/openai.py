"""OpenAI's chat messages, with whatever fields beside them: the layout of last resort for anything with ``messages``.

Also a request with its response, as proxies and AgentToLeaP's ``trace.json`` log them: the messages of the last request and
the message that came back are one conversation. Conversations under other names (``traj``, ``history``) and inside a graph's
state (``values.messages``) are read alike. How an episode ended is taken from ``termination`` alone.
"""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in, with_system
from sanderling.data.importers.fields import SURE_QUESTION_KEYS, accepted, asked, record_of
from sanderling.data.importers.forms import is_message
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_PROMPTS = ("system_prompt", "system")
_LISTS = ("traj", "trajectory", "history", "chat_history", "message_history", "dialogue", "dialog_history")
"""Further names of a list of messages."""
_OUTER = ("values", "state", "output", "result")
"""Objects that a conversation may stand in: what graphs of agents keep."""


def _place(entry: dict[str, Any]) -> tuple[str, str] | None:
    """Where the conversation stands: an object's name, if it stands in one, and the list's."""
    if messages_in(entry) is not None:
        return "", "messages"
    for outer in ("", *_OUTER):
        around = record_of(entry, outer) if outer else entry
        for key in (*_LISTS, *(("messages",) if outer else ())):
            found = messages_in(around, key)
            if found and all(is_message(item) for item in found[:3]):
                return outer, key
    return None


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    outer, key = _place(entry) or ("", "messages")
    around = record_of(entry, outer) if outer else entry
    messages = messages_in(around, key) or []
    if outer:
        entry = entry | {outer: {name: value for name, value in around.items() if name != key}}
    whole, held = messages, set() if outer else {key}
    for key in _PROMPTS:
        if whole is messages:
            whole = with_system(entry, messages, key)
            held |= {key} if whole is not messages else set()
    told = Told(asked(entry, SURE_QUESTION_KEYS), accepted(entry))
    return conversation(entry, whole, id, notes, told=told, held=held)


def _returned(entry: dict[str, Any]) -> list[Any]:
    """The first choice's message of a response, if there is one."""
    choices = record_of(entry, "response").get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return [first["message"]] if isinstance(first, dict) and isinstance(first.get("message"), dict) else []


def _is_log(entry: dict[str, Any]) -> bool:
    return messages_in(record_of(entry, "request")) is not None and isinstance(entry.get("response"), dict)


def _read_log(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    request = record_of(entry, "request")
    messages = [*(messages_in(request) or []), *_returned(entry)]
    beside = entry | {"request": {key: value for key, value in request.items() if key != "messages"}}
    return conversation(beside, messages, id, notes, told=Told(), held=())


OPENAI_MESSAGES = LayoutReader(Layout.OPENAI_MESSAGES, lambda entry: _place(entry) is not None, _read)
OPENAI_LOG = LayoutReader(Layout.OPENAI_LOG, _is_log, _read_log)
