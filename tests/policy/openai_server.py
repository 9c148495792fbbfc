"""A chat server that refuses what OpenAI refuses, and answers from a script."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripted_server import Quiet, listening, plain, stream

KNOWN = {
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_completion_tokens",
    "seed", "stop", "presence_penalty", "frequency_penalty", "stream", "stream_options", "response_format", "logprobs",
}  # fmt: skip
FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}

Said = Callable[[list[dict[str, Any]]], dict[str, Any]]
"""From the messages so far to the next message: content, tool_calls; or the ``status`` of a refusal."""
Usage = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
"""From a message and the request that it answers to what the server counts."""


def _few(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return {"prompt_tokens": 10 * len(body["messages"]), "completion_tokens": 5}


def call(name: str, arguments: Any, id: str = "c") -> dict[str, Any]:
    """A call as such a server gives it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def refusal(body: dict[str, Any], *, reasoning_model: bool, tools: bool) -> str | None:
    """Why a request is not taken."""
    if "max_tokens" in body and reasoning_model:
        return "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    if unknown := sorted(set(body) - KNOWN - {"max_tokens"}):
        return f"Unrecognized request argument supplied: {unknown[0]}"
    if reasoning_model and body.get("temperature", 1.0) != 1.0:
        return "Unsupported value: 'temperature' does not support this value. Only the default (1) value is supported."
    if "tools" in body and not tools:
        return "This model does not support tools."
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        if extra := sorted(set(message) - FIELDS[message["role"]]):
            return f"Additional properties are not allowed ('{extra[0]}' was unexpected) - 'messages.{place}'"
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"Invalid parameter: messages with role 'tool' must be a response to 'tool_calls': messages.{place}"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"An assistant message with 'tool_calls' must be followed by tool messages for each: {waiting} is open."
        called = [one["function"]["name"] for one in message.get("tool_calls") or []]
        if odd := next((name for name in called if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)), None):
            return f"Invalid 'messages[{place}].tool_calls[0].function.name': {odd} does not match the pattern."
        waiting = [one["id"] for one in message.get("tool_calls") or []]
        if len(set(waiting)) != len(waiting):
            return "Duplicate tool_call ids."
    return f"'tool_calls' {waiting} have no response." if waiting else None


def pieces(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as a stream sends it: text by the word, a call's arguments in halves."""
    found = [{"content": word} for word in (message.get("content") or "").split(" ") if word]
    found = [{"content": one["content"] + " "} for one in found[:-1]] + found[-1:]
    for name in ("reasoning_content", "reasoning"):
        found = [{name: part} for part in ((message[name][:3], message[name][3:]) if message.get(name) else ())] + found
    for index, one in enumerate(message.get("tool_calls") or []):
        text = one["function"]["arguments"]
        half = len(text) // 2
        found.append({"tool_calls": [{**one, "index": index, "function": {**one["function"], "arguments": text[:half]}}]})
        found.append({"tool_calls": [{"index": index, "function": {"arguments": text[half:]}}]})
    return found


@contextmanager
def openai_server(
    said: Said, *, reasoning_model: bool = False, tools: bool = True, usage: Usage | None = _few
) -> Iterator[tuple[str, list[dict[str, Any]], list[str]]]:
    """Its address, the requests that it took, and why it refused others."""
    taken: list[dict[str, Any]] = []
    refused: list[str] = []

    class Handler(Quiet):
        def do_GET(self) -> None:
            plain({"object": "list", "data": [{"id": "m", "object": "model"}]})(self)

        def do_POST(self) -> None:
            body = self.body()
            why = refusal(body, reasoning_model=reasoning_model, tools=tools)
            if why is not None:
                refused.append(why)
                plain({"error": {"message": why, "type": "invalid_request_error"}}, 400)(self)
                return
            taken.append(body)
            message = {"role": "assistant", "content": None, **said(body["messages"])}
            if "status" in message:
                plain({"error": {"message": "no"}}, message["status"])(self)
                return
            finish = message.pop("finish", "tool_calls" if message.get("tool_calls") else "stop")
            used = usage and usage(message, body)
            if not body.get("stream"):
                plain({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": used})(self)
                return
            events = [{"choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces(message)]
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            stream(*events, {"choices": [], "usage": used})(self)

    with listening(Handler) as url:
        yield url, taken, refused
