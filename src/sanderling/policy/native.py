"""Tool calls as OpenAI-shaped servers take and give them, from and to the text that a record holds.

A record keeps one form of a turn: reasoning in ``<think>``, then words, then a ``<tool_call>`` for each call. What a server
said in other fields is put into that form, and what is said back to it is made from it; so a conversation that is resumed from
its record is sent as it was.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sanderling.core.chat import BETWEEN_RESULTS, unwrap
from sanderling.core.parse import CALL, CALL_END, THINK, THINK_END, parse_turn
from sanderling.core.types import Message, Role, ToolCall, ToolSpec

_ODD = re.compile(r"[^a-zA-Z0-9_-]")  # in a name, which strict servers refuse
_NOT_RUN = "(Not run: the budget was used up.)"
_WITHOUT = "(Given with the result of the turn's first call.)"


def tool_schemas(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """What a request says of tools."""
    return [{"type": "function", "function": spec.model_dump()} for spec in specs]


def as_text(reasoning: str, words: str, calls: Sequence[tuple[str, str]]) -> str:
    """A reply in the record's form; each call has its name and its arguments' JSON, whatever the server sent there."""
    parts = [f"{THINK}\n{reasoning.strip()}\n{THINK_END}\n\n{words}"] if reasoning else [words] if words else []
    for name, arguments in calls:
        plain = name.partition("<|")[0].strip().removeprefix("functions.")  # what servers leave of gpt-oss' own form
        within = arguments.replace("<", r"\u003c")  # in JSON the same; here no tag
        named = f'"name": {json.dumps(plain, ensure_ascii=False)}, "arguments": {within.strip() or "{}"}'
        parts.append(f"{CALL}\n{{{named}}}\n{CALL_END}")
    return "\n".join(parts)


def native_messages(branch: Sequence[Message], reasoning_field: str | None) -> Iterator[dict[str, Any]]:
    """The messages of a request: calls in a field of their own, and a result for each of them.

    ``reasoning_field``: where the server gave its reasoning, and wants to have it back; None: it gave none.
    """
    calls: tuple[ToolCall, ...] = ()
    number = 0  # of the calls before those that wait for results
    for message, following in zip(branch, [*branch[1:], None], strict=True):
        if message.role is Role.ASSISTANT:
            parsed = parse_turn(message.content)
            calls = parsed.calls if following is not None else ()
            reasoning = {reasoning_field: parsed.think} if reasoning_field and parsed.think else {}
            if not calls:
                words = message.content.rpartition(THINK_END)[2] if parsed.think else message.content
                yield {"role": "assistant", "content": words.strip(), **reasoning}
                continue
            asked = [
                {
                    "id": f"call_{number + place}",
                    "type": "function",
                    "function": {
                        "name": _ODD.sub("_", call.name)[:64],
                        "arguments": json.dumps(call.arguments, ensure_ascii=False),
                    },
                }
                for place, call in enumerate(calls)
            ]
            words = "\n".join(one for one in parsed.left if CALL_END not in one)  # without calls that were not run
            yield {"role": "assistant", "content": words or None, "tool_calls": asked, **reasoning}
        elif calls:
            content = unwrap(message.content)
            results = content.split(BETWEEN_RESULTS)
            is_question = content == message.content  # it stands in no wrapper: the conversation went on without results
            if is_question:
                results = [_NOT_RUN] * len(calls)
            elif len(results) != len(calls):  # a page holds the very text that stands between results, or it was cut away
                results = [content, *[_WITHOUT] * (len(calls) - 1)]
            for place, result in enumerate(results):
                yield {"role": "tool", "tool_call_id": f"call_{number + place}", "content": result}
            number += len(calls)
            calls = ()
            if is_question:
                yield {"role": message.role.value, "content": content}
        else:
            yield {"role": message.role.value, "content": unwrap(message.content)}
