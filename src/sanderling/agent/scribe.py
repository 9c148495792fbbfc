"""The scribe: turns what the loop wants said into messages, ids and their cost. Text in, drafts out.

A draft is a message that has not been sent yet, so a hint can still be added to it. For token-level policies a draft carries
the exact ids the template adds; for text-level ones ids are None, and the cost is estimated (one token for four bytes).
Knows the profile's words and the chat renderer; knows no budget, tool or policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sanderling.core.chat import ChatRenderer, wrap_observation
from sanderling.core.profiles import Profile
from sanderling.core.prompts import render_question
from sanderling.core.record import Node, NodeKind, ToolEvent
from sanderling.core.types import Message, Role

MESSAGE_TOKENS = 6
"""Estimated tokens of a message's scaffold, for text-level policies."""

NEXT_RESPONSE = "\n</tool_response>\n<tool_response>\n"
"""Between the results of one turn's calls: Qwen3's template gives each its own pair of tags within one user message."""


@dataclass(frozen=True)
class Draft:
    """A message that is ready to be sent."""

    kind: NodeKind
    body: str
    """What is said, without the template's wrapper."""
    text: str
    """The message's content as a chat endpoint takes it."""
    ids: tuple[int, ...] | None
    tokens: int
    """What it costs in context: exact with ids, estimated without."""
    previous_ended: bool = True
    events: tuple[ToolEvent, ...] = ()
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def message(self) -> Message:
        return Message(role=Role.SYSTEM if self.kind is NodeKind.SYSTEM else Role.USER, content=self.text)

    def node(self, parent: int | None) -> Node:
        """The draft as a node of the record."""
        return Node(
            parent=parent,
            role=self.message.role,
            kind=self.kind,
            text=self.text,
            token_ids=self.ids,
            events=self.events,
            problems=self.problems,
            seconds=self.seconds,
        )


class Scribe:
    """Writes the system prompt, the question, observations and hints in a profile's form."""

    def __init__(self, profile: Profile, chat: ChatRenderer | None) -> None:
        self._profile = profile
        self._chat = chat

    def system(self, text: str) -> Draft:
        ids = None if self._chat is None else self._chat.system_ids(text)
        return self._draft(NodeKind.SYSTEM, text, text, ids)

    def question(self, text: str) -> Draft:
        content = render_question(self._profile, text)
        ids = None if self._chat is None else self._chat.question_ids(content)
        return self._draft(NodeKind.QUESTION, content, content, ids)

    def observation(self, body: str, *, previous_ended: bool, kind: NodeKind = NodeKind.OBSERVATION) -> Draft:
        """Results, or a notice (kind HINT), in the observation wrapper; ``previous_ended``: the turn before sampled its end."""
        ids = None if self._chat is None else self._chat.observation_ids(body, previous_ended=previous_ended)
        return replace(self._draft(kind, body, wrap_observation(body), ids), previous_ended=previous_ended)

    def rewrite(self, draft: Draft, body: str, problem: str) -> Draft:
        """The same message saying something else; ``problem`` is the code that says so in the record."""
        if draft.kind is NodeKind.QUESTION:
            ids = None if self._chat is None else self._chat.question_ids(body)
            fresh = self._draft(draft.kind, body, body, ids)
        else:
            fresh = self.observation(body, previous_ended=draft.previous_ended, kind=draft.kind)
        return replace(fresh, events=draft.events, problems=(*draft.problems, problem), seconds=draft.seconds)

    def spoken_tokens(self, text: str, ids: Sequence[int] | None) -> int:
        """What a sampled turn costs in context."""
        return _estimate(text) if ids is None else len(ids)

    def _draft(self, kind: NodeKind, body: str, text: str, ids: Sequence[int] | None) -> Draft:
        tokens = _estimate(text) if ids is None else len(ids)
        return Draft(kind=kind, body=body, text=text, ids=None if ids is None else tuple(ids), tokens=tokens)


def _estimate(text: str) -> int:
    """Tokens of a message for a policy whose tokenizer is not known."""
    return len(text.encode("utf-8", errors="replace")) // 4 + MESSAGE_TOKENS
