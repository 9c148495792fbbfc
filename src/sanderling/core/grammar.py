r"""The strict check of a turn's form, which reward uses. Apart from the tolerant parser on purpose: both only read JSON alike.

The grammar is DR-Venus's (arXiv 2604.19859), as its released format checker applies it per assistant turn::

    turn     := think (call | answer)
    think    := "<think>" non-blank "</think>"          nothing but white space before it
    call     := "<tool_call>" body "</tool_call>"       JSON5: an object with a name and an object of arguments; or code
    answer   := "<answer>" non-blank "</answer>"

with white space between and around the parts, and no tag of one part inside another. As there, a name may be anything, and a
body that names PythonInterpreter and has ``<code>`` need not be JSON5. All differences from that checker:

- reasoning must be non-empty and comes once; there several blocks may follow each other, with anything between, and be empty;
- ``<tool_response>`` is forbidden everywhere, because generation and reading stop there;
- an action's tags within the reasoning do no harm; there they count as actions;
- any turn may be the answer, and the last one must be only after it was asked for (`check_final`); there it always must be, and
  no other may;
- JSON5 that is no JSON is read up to 8,000 characters and 32 levels; there without limits.
"""

import json
import re
from enum import StrEnum
from typing import Any

from sanderling.core.text import decode_json5

_THINK_TAGS = re.compile("</?think>")
_ACTION_TAGS = re.compile("</?(?:tool_call|answer)>")


class Violation(StrEnum):
    """A way of breaking the grammar."""

    NO_THINK = "no_think"
    THINK_NOT_FIRST = "think_not_first"
    THINK_UNORDERED = "think_unordered"  # doubled, missing their partner or out of order
    THINK_EMPTY = "think_empty"
    NO_ACTION = "no_action"
    BOTH_ACTIONS = "both_actions"
    SEVERAL_CALLS = "several_calls"
    SEVERAL_ANSWERS = "several_answers"
    ACTION_UNORDERED = "action_unordered"
    STRAY_TEXT = "stray_text"  # between the reasoning and the action, or after it
    CALL_NOT_JSON = "call_not_json"  # nor JSON5
    CALL_NOT_OBJECT = "call_not_object"
    CALL_NAME = "call_name"
    CALL_ARGUMENTS = "call_arguments"
    ANSWER_EMPTY = "answer_empty"
    RESPONSE_TAG = "response_tag"
    NOT_AN_ANSWER = "not_an_answer"  # a final turn that does not give an answer


def check_turn(text: str, *, think_open: bool, strict: bool = False) -> tuple[Violation, ...]:
    """Every way in which a turn breaks the grammar, each once. ``think_open``: the text begins inside the reasoning.

    ``strict``: a call is plain JSON whose name is a text, which training data is held to; reward is not.
    """
    text = f"<think>{text}" if think_open else text
    violations: list[Violation] = []
    tags = list(_THINK_TAGS.finditer(text))
    rest: str | None = text  # what follows the reasoning, where that can be told
    if not tags:
        violations.append(Violation.NO_THINK)
    elif [tag[0] for tag in tags] != ["<think>", "</think>"]:
        violations.append(Violation.THINK_UNORDERED)
        rest = text[tags[-1].end() :] if tags[-1][0] == "</think>" else None
    else:
        opened, closed = tags
        rest = text[closed.end() :]
        if text[: opened.start()].strip():
            violations.append(Violation.THINK_NOT_FIRST)
        if not text[opened.end() : closed.start()].strip():
            violations.append(Violation.THINK_EMPTY)
    if rest is not None:
        violations += _check_action(rest, strict)
    if "<tool_response>" in text:
        violations.append(Violation.RESPONSE_TAG)
    return tuple(violations)


def check_final(text: str, *, think_open: bool, strict: bool = False) -> tuple[Violation, ...]:
    """:func:`check_turn` for a turn that has to be the answer: a well-formed tool call is a violation here."""
    violations = check_turn(text, think_open=think_open, strict=strict)
    if not violations and not text.rstrip().endswith("</answer>"):
        return (Violation.NOT_AN_ANSWER,)
    return violations


def _check_action(rest: str, strict: bool) -> list[Violation]:
    """Violations of what follows the reasoning."""
    tags = list(_ACTION_TAGS.finditer(rest))
    names = [tag[0] for tag in tags]
    calls, answers = names.count("<tool_call>"), names.count("<answer>")
    if not tags:
        return [Violation.NO_ACTION]
    several = [Violation.BOTH_ACTIONS] if calls and answers else []
    several += [Violation.SEVERAL_CALLS] * (calls > 1) + [Violation.SEVERAL_ANSWERS] * (answers > 1)
    if several:
        return several
    if names not in (["<tool_call>", "</tool_call>"], ["<answer>", "</answer>"]):
        return [Violation.ACTION_UNORDERED]
    opened, closed = tags
    body = rest[opened.end() : closed.start()]
    violations = [Violation.STRAY_TEXT] if rest[: opened.start()].strip() or rest[closed.end() :].strip() else []
    if answers:
        return violations if body.strip() else [*violations, Violation.ANSWER_EMPTY]
    if not strict and "pythoninterpreter" in body.lower() and "<code>" in body and "</code>" in body:
        return violations
    try:
        call: Any = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        call = None if strict else decode_json5(body)
        if call is None:
            return [*violations, Violation.CALL_NOT_JSON]
    if not isinstance(call, dict):
        return [*violations, Violation.CALL_NOT_OBJECT]
    name = call.get("name")
    is_text = isinstance(name, str) and bool(name.strip())
    violations += [] if is_text or ("name" in call and not strict) else [Violation.CALL_NAME]
    return violations + ([] if isinstance(call.get("arguments"), dict) else [Violation.CALL_ARGUMENTS])


def _refuse(constant: str) -> None:
    """NaN and the infinities are no JSON (RFC 8259), although the json module reads them."""
    raise ValueError(f"{constant} is not JSON")
