"""The items of OpenAI's Responses API: ``response.output`` after ``responses_create_params.input`` (NeMo Gym), or ``input``.

Items are messages, reasoning, calls and their results. What an assistant says, thinks and calls between two results is one
turn, made of all these items; its node holds them. Reasoning that is encrypted cannot be read.
"""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation
from sanderling.data.importers.fields import SURE_QUESTION_KEYS, accepted, asked, opened, record_of
from sanderling.data.importers.forms import Unit, unit_of
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.parts import is_parts, read_parts
from sanderling.data.importers.report import Notes

_KINDS = frozenset({"message", "reasoning", "function_call", "function_call_output", "web_search_call", "mcp_call"})
_REQUESTS = ("responses_create_params", "request")


def _output(entry: dict[str, Any]) -> list[Any] | None:
    """The items that came back."""
    for place in (record_of(entry, "response"), entry):
        items = place.get("output")
        if (
            isinstance(items, list)
            and items
            and all(isinstance(item, dict) and item.get("type") in _KINDS for item in items[:3])
        ):
            return items
    return None


def _input(entry: dict[str, Any]) -> list[Any]:
    """The items that were sent, with the instructions as the system's message."""
    for place in (*(record_of(entry, key) for key in _REQUESTS), entry):
        if place.get("input") is None:
            continue
        sent = opened(place["input"])
        prompt = place.get("instructions")
        head = [{"role": "system", "content": prompt}] if isinstance(prompt, str) and prompt else []
        return head + (sent if isinstance(sent, list) else [{"role": "user", "content": sent}])
    return []


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    messages = turns([*_input(entry), *(_output(entry) or [])])
    told = Told(asked(entry, SURE_QUESTION_KEYS), accepted(entry))
    return conversation(_beside(entry), messages, id, notes, told=told, held=())


def _beside(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without the items that are in the nodes."""
    held = {"response": "output", **dict.fromkeys(_REQUESTS, "input")}
    inner = {key: {k: v for k, v in entry[key].items() if k != held[key]} for key in held if isinstance(entry.get(key), dict)}
    whole = {"output", "input"} if not isinstance(entry.get("response"), dict) else set()
    return {key: value for key, value in (entry | inner).items() if key not in whole}


def turns(items: list[Any]) -> list[Any]:
    """Items as messages: those of an assistant that follow each other are one."""
    found: list[Any] = []
    waiting: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, dict) and _is_own(item):
            waiting.append(item)
            continue
        found += [_turn(waiting)] if waiting else []
        waiting = []
        found.append(_result(item) if isinstance(item, dict) and item.get("type") == "function_call_output" else item)
    return found + ([_turn(waiting)] if waiting else [])


def _is_own(item: dict[str, Any]) -> bool:
    return item.get("type") in ("reasoning", "function_call") or item.get("role") == "assistant"


def _result(item: dict[str, Any]) -> Unit:
    output = item.get("output")
    pieces = read_parts(output) if is_parts(output) else []
    text = pieces[0].text if len(pieces) == 1 and pieces[0].texts and not pieces[0].left else output
    return Unit({"role": "tool", "tool_call_id": item.get("call_id") or "", "content": text}, item)


def _turn(items: list[dict[str, Any]]) -> Unit:
    """One turn of several items."""
    thoughts: list[str] = []
    texts: list[str] = []
    calls: list[Any] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append({"id": item.get("call_id") or "", "name": item.get("name"), "arguments": item.get("arguments")})
            continue
        content = [item] if item.get("type") == "reasoning" else item.get("content")
        for piece in read_parts(content) if is_parts(content) else []:
            thoughts += piece.thoughts
            texts += [piece.text] if piece.texts else []
        texts += [content] if isinstance(content, str) else []
    common: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) if texts or not (calls or thoughts) else None}
    common |= {"reasoning_content": "\n\n".join(thoughts)} if thoughts else {}
    return unit_of(items, common | ({"tool_calls": calls} if calls else {}))


RESPONSES = LayoutReader(Layout.OPENAI_RESPONSES, lambda entry: _output(entry) is not None, _read)
