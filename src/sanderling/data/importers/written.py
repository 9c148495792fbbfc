"""Turns whose calls are written in another system's words, in the text itself.

Read are ``<use_mcp_tool>`` blocks (MiroFlow, MiroThinker), ``<function=name>`` blocks (OpenHands, Qwen3-Coder),
``Thought: … Action: …`` (ReAct, with ``name[argument]``, ``name(argument)`` or ``Action Input:``), ``<search>`` (Search-R1),
and the query marks of R1-Searcher and Search-o1. Nothing is read of a text that the protocol's own parser understands. What
the agents above get back is a user's message; :func:`result_text` takes it out of its wrapping. Knows no layout and no nodes.
"""

import re
from dataclasses import dataclass

from sanderling.core.observations import tool_role
from sanderling.core.types import ToolCall
from sanderling.data.importers.messages import read_call

_MCP = re.compile(r"<use_mcp_tool>(.*?)(?:</use_mcp_tool>|\Z)", re.DOTALL)
_TAG = "<{0}>(.*?)(?:</{0}>|\\Z)"
_NAME = re.compile(_TAG.format("tool_name"), re.DOTALL)
_ARGUMENTS = re.compile(_TAG.format("arguments"), re.DOTALL)


def _between(opening: str, closing: str) -> re.Pattern[str]:
    """What stands between two marks, from the last opening one, which keeps the time linear."""
    first, last = re.escape(opening), re.escape(closing)
    return re.compile(rf"{first}((?:(?!{first}).)*?){last}", re.DOTALL)


_QUERIES = (
    (_between("<search>", "</search>"), "search", "query"),
    (_between("<|begin_of_query|>", "<|end_of_query|>"), "search", "query"),
    (_between("<|begin_search_query|>", "<|end_search_query|>"), "search", "query"),
    (_between("<|begin_click_link|>", "<|end_click_link|>"), "visit", "url"),
    (_between("<python>", "</python>"), "python", "code"),
)
_FUNCTION = re.compile(r"(?:<tool_call>\s*)?<function=([^<>\n]+)>(.*?)(?:</function>|\Z)(?:\s*</tool_call>)?", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_CALLING = (
    "<function=",
    "<use_mcp_tool>",
    "</search>",
    "<|end_of_query|>",
    "<|end_search_query|>",
    "<|end_click_link|>",
    "</python>",
)
_THOUGHT = re.compile(r"\A\s*Thought\s*\d*\s*:\s*(.*?)(?=^[ \t]*(?:Action|Final Answer)\s*\d*\s*:|\Z)", re.DOTALL | re.M | re.I)
_ACTION = re.compile(r"^[ \t]*Action\s*\d*\s*:\s*(.*)\Z", re.DOTALL | re.M | re.I)
_FINAL = re.compile(r"^[ \t]*Final Answer\s*:\s*(.*)\Z", re.DOTALL | re.M | re.I)
_BRACKETS = re.compile(r"([\w.\-]+)\s*(?:\[(.*)\]|\((.*)\))\s*\Z", re.DOTALL)
_INPUT = re.compile(r"([^\n\[\]{}()<>]{1,100})\n\s*Action Input\s*\d*\s*:\s*(.*)\Z", re.DOTALL | re.I)
_WRAPS = (
    re.compile(r"\A\s*Observation\s*\d*\s*:\s*(.*)\Z", re.DOTALL | re.I),
    re.compile(r"\A\s*<information>(.*?)(?:</information>)?\s*\Z", re.DOTALL),
    re.compile(r"\A\s*<\|begin_of_documents\|>(.*?)(?:<\|end_of_documents\|>)?\s*\Z", re.DOTALL),
    re.compile(r"\A\s*<\|begin_search_result\|>(.*?)(?:<\|end_search_result\|>)?\s*\Z", re.DOTALL),
    re.compile(r"\A\s*<\|begin_click_result\|>(.*?)(?:<\|end_click_result\|>)?\s*\Z", re.DOTALL),
    re.compile(r"\A\s*<result>(.*?)(?:</result>)?\s*\Z", re.DOTALL),
)


@dataclass(frozen=True)
class Written:
    """A turn's parts."""

    think: str | None
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    said: str = ""
    """What stands beside them."""


def read_written(text: str) -> Written | None:
    """The parts of a turn in other words; None where there is no call and no answer in any of them."""
    found = _tagged(text) if any(mark in text for mark in _CALLING) else None
    return found or _react(text)


def result_text(text: str) -> str | None:
    """What a message of results holds, without its wrapping; None where it has none."""
    return next((found[1].strip() for wrap in _WRAPS if (found := wrap.match(text))), None)


def _tagged(text: str) -> Written | None:
    thought, mark, rest = text.rpartition("</think>")
    think = thought.partition("<think>")[2] if "<think>" in thought else thought
    calls: list[tuple[int, ToolCall | None]] = []
    for pattern, name, argument in _QUERIES:
        calls += [(hit.start(), _call(name, {argument: hit[1].strip()})) for hit in pattern.finditer(rest)]
        rest = pattern.sub(lambda hit: " " * len(hit[0]), rest)
    for hit in _MCP.finditer(rest):
        name, arguments = _NAME.search(hit[1]), _ARGUMENTS.search(hit[1])
        calls.append((hit.start(), _call(name[1] if name else "", arguments[1] if arguments else "")))
    for hit in _FUNCTION.finditer(rest):
        calls.append((hit.start(), _call(hit[1], dict(_PARAMETER.findall(hit[2])))))
    rest = _FUNCTION.sub("", _MCP.sub("", rest))
    read = [call for _, call in sorted(calls, key=lambda one: one[0]) if call is not None]
    if not read or len(read) < len(calls):
        return None
    said = rest.strip()
    if not mark and said.startswith("<think>"):  # reasoning that goes on after the result
        return Written(said.removeprefix("<think>").strip() or None, tuple(read))
    return Written(think.strip() or None if mark else None, tuple(read), said=said)


def _react(text: str) -> Written | None:
    thought = _THOUGHT.match(text)
    final, action = _FINAL.search(text), _ACTION.search(text)
    before = thought[1].strip() or None if thought else None
    if final and final[1].strip():
        return Written(before, answer=final[1].strip())
    if not action:
        return None
    said = "" if thought else text[: action.start()].strip()
    body = action[1].strip()
    given = _INPUT.match(body)
    if given:
        call = _call(given[1].strip(), given[2].strip())
        if call is not None and not call.arguments and given[2].strip() not in ("", "{}", "None"):
            call = _call(given[1].strip(), {_argument(given[1].strip()): given[2].strip()})
        return None if call is None else Written(before, (call,), said=said)
    given = _BRACKETS.match(body)
    if not given:
        return None
    told = (given[2] if given[2] is not None else given[3]).strip()
    if given[1].lower() in ("finish", "answer", "final_answer"):
        return Written(before, answer=told) if told else None
    call = _call(given[1], {_argument(given[1]): told})
    return None if call is None else Written(before, (call,), said=said)


def _argument(tool: str) -> str:
    """What the one argument of a tool is called where the text does not say."""
    return {"search": "query", "visit": "url"}.get(tool_role(tool), "input")


def _call(name: str, arguments: object) -> ToolCall | None:
    return read_call({"name": name.strip(), "arguments": arguments})
