"""What stands in the text itself: a whole episode in one text, and calls in another form than the protocol's.

verl's dumps of rollouts and Search-R1's files hold an episode as one text: the agent's words and, between marks, what the tools
gave back, or a chat's turns between ``<|im_start|>`` and ``<|im_end|>``. Calls may be ``<search>``, ``<python>`` (ToRL), or
``<function=name>`` (Qwen3-Coder).
"""

import re
from collections.abc import Mapping
from typing import Any

from sanderling.core.types import ToolCall
from sanderling.data.messages import ChatMessage, Speaker, messages_in, read_message, tool_call, understood
from sanderling.data.questions import NAMES, SURE_QUESTION_KEYS, accepted, asked, ground_truth, record_of

_BLOCKS = ("information", "tool_response", "result", "observation", "search_result")
_RESULT = re.compile("|".join(rf"<{name}>(?:.*?)(?:</{name}>|\Z)" for name in _BLOCKS), re.DOTALL)
_OUTER = re.compile(r"\A(?:<[^<>]+>)(.*?)(?:</?[^<>]+>)?\Z", re.DOTALL)
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n?|(?=<\|im_start\|>)|\Z)", re.DOTALL)
_LINE = re.compile(r"(?:\A|\n)(system|user|assistant|tool)\n")
_WRAP = re.compile(r"\A\s*<(information|result)>(.*?)(?:</\1>)?\s*\Z", re.DOTALL)


def turns_of_text(text: str) -> list[tuple[str, str]]:
    """The turns of a chat's text, as role and words; none where it is no chat's text."""
    if "<|im_start|>" in text:
        before, turns = text.partition("<|im_start|>")[0], [(found[1], found[2]) for found in _TURN.finditer(text)]
    else:
        marks = list(_LINE.finditer(text))
        if not marks or (marks[0].start() > 0 and not {"user", "assistant"} <= {mark[1] for mark in marks}):
            return []
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        before = text[: marks[0].start()]
        turns = [(mark[1], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    return ([("assistant", before.replace("<|im_end|>", ""))] if before.strip() else []) + turns


def _cut_out(role: str, content: str, original: str) -> ChatMessage:
    """A message that was cut out of a longer text."""
    return understood({"role": role, "content": content}, {"role": role, "content": original})


def pieces(text: str) -> list[ChatMessage]:
    """The messages of an episode's text, in order: nothing of it is left out but blanks and the marks of turns."""
    found: list[ChatMessage] = []
    for role, said in turns_of_text(text) or [("assistant", text)]:
        said = said.removesuffix("<|im_end|>").removesuffix("<|endoftext|>")
        if role != "assistant":
            found += [_cut_out(role, said, said)] if said.strip() else []
            continue
        cut, at = [], 0
        for hit in _RESULT.finditer(said):
            cut += [("assistant", said[at : hit.start()].strip()), ("tool", hit[0])]
            at = hit.end()
        cut = [piece for piece in [*cut, ("assistant", said[at:].strip())] if piece[1]]
        # Reasoning that was opened by the prompt, or before a result, is opened in each piece that it goes on in.
        first = next((words for who, words in cut if who == "assistant" and "think>" in words), "")
        open = "</think>" in first and "<think>" not in first.partition("</think>")[0]
        for who, words in cut:
            if who == "tool":
                inner = None if words.startswith("<tool_response>") else _OUTER.match(words)
                found.append(_cut_out("tool", inner[1].strip() if inner else words, words))
                continue
            shown = f"<think>\n{words}" if open and not words.startswith("<think>") else words
            open = shown.rfind("<think>") > shown.rfind("</think>")
            found.append(_cut_out("assistant", shown, words))
    return found


_QUESTION = re.compile(r".*(?:\A|\s)(?:Question|Query)\s*:\s*(.+)\Z", re.DOTALL)


def is_transcript(entry: Mapping[str, Any]) -> bool:
    """Whether an entry holds an episode in one text, and says in any way what was asked."""
    key = _output_key(entry)
    return bool(key) and bool(_question_told(entry) or _prompt_key(entry) or turns_of_text(entry[key]))


def read_transcript(entry: Mapping[str, Any]) -> tuple[list[Any], str | None, tuple[str, ...], tuple[str, ...]]:
    """The messages of an episode in one text, after those of its prompt; question, answers; the fields that hold the messages.

    The question is what the file calls so, or else what the last message of the user asks, after its label where it has one.
    """
    key, prompt, question = _output_key(entry), _prompt_key(entry), _question_told(entry)
    after = pieces(entry[key])
    before: list[Any] = []
    if prompt:
        text = str(entry[prompt])
        turns = [turn for turn in turns_of_text(text) if turn[1].strip()] or [("user", text)]
        before = messages_in(entry, prompt) or [_cut_out(role, said, said) for role, said in turns]
    elif question is not None:
        before = [_cut_out("user", question, question)]
    answers = accepted(entry) or accepted(record_of(entry, "extra_info"))
    answers = answers or ground_truth(record_of(entry, "reward_model").get("ground_truth")) or ground_truth(entry.get("gts"))
    if question is None:
        said = [one.text for message in before or after for one in read_message(message) if one.speaker is Speaker.USER]
        last = next((text for text in reversed(said) if text.strip()), None)
        found = None if last is None else _QUESTION.match(last)
        question = None if last is None else (found[1] if found else last).strip()
    return [*before, *after], question, answers, (key, prompt) if prompt else (key,)


def _output_key(entry: Mapping[str, Any]) -> str:
    """The field with what tools gave back, or a thought and what it led to; beside a prompt a thought is enough."""
    sure, ended = ("</information>", "</tool_response>"), ("</answer>", "</result>", "</tool_call>")
    prompted = _prompt_key(entry) in ("prompt", "prompt_str", "input")
    for key, text in ((key, entry[key]) for key in NAMES["columns"]["episode"] if isinstance(entry.get(key), str)):
        thinks = "</think>" in text and (prompted or any(mark in text for mark in ended))
        if thinks or any(mark in text for mark in sure):
            return key
    return ""


def _prompt_key(entry: Mapping[str, Any]) -> str:
    return next((name for name in NAMES["columns"]["prompt"] if isinstance(entry.get(name), (str, list)) and entry[name]), "")


def _question_told(entry: Mapping[str, Any]) -> str | None:
    return asked(entry, SURE_QUESTION_KEYS) or asked(record_of(entry, "extra_info"), SURE_QUESTION_KEYS)


_TAGS = tuple(  # what stands in a tag, from the last opening one, which keeps the time linear
    (re.compile(rf"<{name}>((?:(?!<{name}>).)*?)</{name}>", re.DOTALL), name, argument)
    for name, argument in (("search", "query"), ("python", "code"))
)
_FUNCTION = re.compile(r"(?:<tool_call>\s*)?<function=([^<>\n]+)>(.*?)(?:</function>|\Z)(?:\s*</tool_call>)?", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_CALLING = ("<function=", "</search>", "</python>")


def calls_in_words(text: str) -> tuple[str | None, tuple[ToolCall, ...], str] | None:
    """Reasoning, calls and what stands beside them, of a turn in other words; None where there is no call in any of them.

    Example: ``calls_in_words("<think>a</think><search>b</search>")`` is ``"a"``, a call of search for ``b``, and ``""``.
    """
    if not any(mark in text for mark in _CALLING):
        return None
    thought, mark, rest = text.rpartition("</think>")
    calls: list[tuple[int, ToolCall]] = []
    for pattern, name, argument in _TAGS:
        calls += [(hit.start(), tool_call(name, {argument: hit[1].strip()})) for hit in pattern.finditer(rest)]
        rest = pattern.sub(lambda hit: " " * len(hit[0]), rest)
    for hit in _FUNCTION.finditer(rest):
        if not hit[1].strip():
            return None
        calls.append((hit.start(), tool_call(hit[1].strip(), dict(_PARAMETER.findall(hit[2])))))
    said = _FUNCTION.sub("", rest).strip()
    if not calls:
        return None
    read = tuple(call for _, call in sorted(calls, key=lambda one: one[0]))
    if not mark and said.startswith("<think>"):  # reasoning that goes on after the result
        return said.removeprefix("<think>").strip() or None, read, ""
    think = thought.partition("<think>")[2] if "<think>" in thought else thought
    return (think.strip() or None) if mark else None, read, said


def result_text(text: str) -> str | None:
    """What a message of results holds, without its wrapping; None where it has none."""
    found = _WRAP.match(text)
    return found[2].strip() if found else None
