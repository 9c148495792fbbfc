"""Tool calls as OpenAI-shaped servers take and give them, from and to the text that a record holds.

A record keeps one form of a turn: reasoning in ``<think>``, then words, then a ``<tool_call>`` for each call. What a server
said in other fields is put into that form, and what is said back to it is made from it; so a conversation that is resumed from
its record is sent as it was.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sanderling.core.chat import BETWEEN_RESULTS, unwrap
from sanderling.core.parse import CALL, CALL_END, THINK, THINK_END, parse_turn
from sanderling.core.types import Message, Role, ToolCall, ToolSpec
from sanderling.policy.contract import Finish, PolicyOutageError

REASONING = ("reasoning", "reasoning_content")  # fields in which servers give it
_ODD = re.compile(r"[^a-zA-Z0-9_-]")  # in a name, which strict servers refuse
_NOT_RUN = "(Not run: the budget was used up.)"
_WITHOUT = "(Given with the result of the turn's first call.)"


def tool_schemas(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """What a request says of tools."""
    return [{"type": "function", "function": spec.model_dump()} for spec in specs]


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


# -- what a server said ----------------------------------------------------------------------------------------------------


@dataclass
class _Call:
    """A call as far as it has come."""

    index: Any  # where the server says it stands; None: it does not say
    id: str
    name: str = ""
    arguments: str = ""


@dataclass
class Reply:
    """What a server said, in one object or many events."""

    text: str = ""
    reasoning: str = ""
    reasoning_field: str | None = None
    parts: list[_Call] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cached: int = 0  # prompt tokens the server says it did not compute

    def add(self, event: dict[str, Any]) -> str:
        """Take in one reply or event; returns the new text. Raises PolicyOutageError for one that has another shape."""
        try:
            return self._add(event)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise PolicyOutageError(f"The server sent a reply of an unknown shape: {in_words(event)}.") from error

    def _add(self, event: dict[str, Any]) -> str:
        if usage := event.get("usage"):
            self.prompt_tokens = int(usage.get("prompt_tokens") or 0)
            self.sampled_tokens = int(usage.get("completion_tokens") or 0)
            self.cached = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        if not event.get("choices"):
            return ""
        choice = event["choices"][0]
        said = choice.get("message") or choice.get("delta") or choice
        text = said.get("content") or said.get("text") or ""
        if isinstance(text, list):  # in parts, as content may be sent, too
            text = "".join(part.get("text") or "" for part in text if part.get("type") == "text")
        self.text += text
        for name in REASONING:
            if isinstance(thought := said.get(name), str) and thought:
                text = ("" if self.reasoning else f"{THINK}\n") + thought + text
                self.reasoning, self.reasoning_field = self.reasoning + thought, name
                break
        else:
            text = f"\n{THINK_END}\n\n{text}" if text and self.reasoning and self.text == text else text
        for call in said.get("tool_calls") or []:
            self._add_call(call, call.get("function") or {}, whole="message" in choice)
        self.ids.extend(choice.get("token_ids") or [])
        self.logprobs.extend((choice.get("logprobs") or {}).get("token_logprobs") or [])
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.stop_reason = choice.get("stop_reason", self.stop_reason)
        return text

    def _add_call(self, call: dict[str, Any], given: dict[str, Any], *, whole: bool) -> None:
        """A call, or a piece of one: it goes on with the one of its index; of its id where several have that index, or none."""
        index, id, name, arguments = call.get("index"), call.get("id") or "", given.get("name") or "", given.get("arguments")
        part = None
        if self.parts and not whole:
            last = self.parts[-1]
            alike = [one for one in self.parts if one.id == id] if id else []
            if index is not None:
                alike = [one for one in self.parts if one.index == index and (not id or one.id in (id, ""))][-1:]
            elif not id and not (name and last.arguments):  # without either it begins anew with a name
                alike = [last]
            part = alike[0] if alike else None
        if part is None:
            part = _Call(index, id)
            self.parts.append(part)
        if name != part.name:  # some servers say it with every piece
            part.name += name
        if isinstance(arguments, str):
            part.arguments += arguments
        elif arguments is not None:
            part.arguments = json.dumps(arguments, ensure_ascii=False)

    def as_text(self) -> str:
        """In the record's form; each call has its name and its arguments' JSON, whatever the server sent there."""
        words = [self.text] if self.text else []
        parts = [f"{THINK}\n{self.reasoning.strip()}\n{THINK_END}\n\n{self.text}"] if self.reasoning else words
        for call in self.parts:
            plain = call.name.partition("<|")[0].strip().removeprefix("functions.")  # what servers leave of gpt-oss' own form
            within = call.arguments.replace("<", r"\u003c")  # in JSON the same; here no tag
            named = f'"name": {json.dumps(plain, ensure_ascii=False)}, "arguments": {within.strip() or "{}"}'
            parts.append(f"{CALL}\n{{{named}}}\n{CALL_END}")
        # A character may have come in two halves.
        return "\n".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def finish(self, cut: bool) -> Finish:
        """Why the turn stopped; ``cut``: a stop string was found in it."""
        if self.finish_reason == "length":
            return Finish.LENGTH
        return Finish.STOP if cut or isinstance(self.stop_reason, str) else Finish.END


def in_words(found: Any) -> str:
    """What a server says of an error, or an event, on one line."""
    if isinstance(found, dict):
        found = found.get("message") or found
    return " ".join(str(found).split())[:200] or "no reason given"
