"""One canonical text for a turn: reasoning, then its calls or its answer; and a turn as its parts.

Nothing that was said is lost: text between the parts, calls that could not be read and earlier answers go to the end of the
reasoning. Only what a model wrote after ``<tool_response>``, an invented response, is cut. A turn that cannot be written so
that it reads back the same stays as it is. Knows no order of turns.
"""

import json
import re
from dataclasses import dataclass, replace

from sanderling.core.chat import strip_think_prefix
from sanderling.core.grammar import Violation, check_turn
from sanderling.core.parse import ParsedTurn, ParseProblem, parse_turn
from sanderling.core.profiles import Profile
from sanderling.core.record import Node
from sanderling.core.types import ToolCall
from sanderling.data.cleaning.graph import with_text

_TAGS = re.compile("</?(?:think|tool_call|answer|tool_response)>")
_LESS = "\\u003c"
_SEVERAL = {Violation.SEVERAL_CALLS}


def begins_inside(node: Node, profile: Profile) -> bool:
    """Whether a turn's text begins inside the reasoning: it was sampled after a prompt that holds the tag."""
    return node.token_ids is not None and "<think>" in profile.think_prefix


def read_turn(node: Node, profile: Profile) -> ParsedTurn:
    """A turn as the tolerant parser reads it, arguments as they were written."""
    return parse_turn(node.text, think_open=begins_inside(node, profile))


def is_well_formed(node: Node, profile: Profile) -> bool:
    """Whether a turn keeps to the strict grammar."""
    return not check_turn(node.text, think_open=begins_inside(node, profile))


def written_out(node: Node, profile: Profile) -> str:
    """A turn's text with the reasoning tag that its prompt held."""
    if not begins_inside(node, profile):
        return node.text
    return profile.think_prefix + strip_think_prefix(node.text, profile.think_prefix)


def call_body(call: ToolCall) -> str:
    """A call as JSON on one line; a protocol tag within its strings is escaped, so that it ends nothing."""
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return _TAGS.sub(lambda tag: _LESS + tag[0][1:], body)


def compose(think: str, calls: tuple[ToolCall, ...], answer: str | None) -> str:
    """A turn's canonical text."""
    parts = [f"<think>\n{think}\n</think>"]
    parts += [f"<tool_call>\n{call_body(call)}\n</tool_call>" for call in calls]
    if answer is not None:
        parts.append(f"<answer>\n{answer}\n</answer>")
    return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A canonical turn."""

    node: Node
    into_reasoning: tuple[str, ...] = ()
    """What stood between the parts."""
    cut: str = ""
    """The invented response that was cut off."""


def canonical(node: Node, parsed: ParsedTurn) -> Rewritten | None:
    """The turn in canonical text, without its ids where that changes it; None where it has no canonical form.

    That is so for a turn without reasoning of any kind, without a call or an answer, or with both.
    """
    left = tuple(text for text in (_TAGS.sub(" ", piece).strip() for piece in parsed.left) if text)
    think = "\n\n".join(piece for piece in (parsed.think, *left) if piece).strip()
    if not think or bool(parsed.calls) == (parsed.answer is not None):
        return None
    text = compose(think, parsed.calls, parsed.answer)
    if not set(check_turn(text, think_open=False)) <= _SEVERAL:
        return None
    calls = tuple(call.model_copy(update={"raw": f"\n{call_body(call)}\n"}) for call in parsed.calls)
    new = with_text(node, text, think=think, calls=calls, answer=parsed.answer, problems=())
    cut = node.text[node.text.find("<tool_response>") :] if ParseProblem.CUT_AT_RESPONSE in parsed.problems else ""
    return Rewritten(new, left, cut)


def with_calls(node: Node, parsed: ParsedTurn, calls: tuple[ToolCall, ...]) -> Node | None:
    """The turn making these calls instead of its own; None where it has no canonical form."""
    found = canonical(node, replace(parsed, calls=calls))
    return None if found is None else found.node
