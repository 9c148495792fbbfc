"""The transcript of an episode under way: what goes to the policy, with its ids and cost, and the nodes of the record.

For token-level policies a message has the exact ids that the template adds; for text-level ones the cost is estimated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.agent.turns import CUT_MARK, cut_middle
from sanderling.core.chat import ChatRenderer, wrap_observation
from sanderling.core.errors import UserError
from sanderling.core.parse import ParsedTurn
from sanderling.core.profiles import Profile, render_question
from sanderling.core.record import Node, NodeKind, ToolEvent, Trajectory
from sanderling.core.types import Message, Role, ToolSpec
from sanderling.policy.contract import Completion, Delta

FORCED = "forced_answer"  # problem code of a message that the closing hint was added to
ANEW = "\n\n(The budget is a new one: tools can be called again.)"
"""Stands behind a further question where the budget of the one before it was spent."""
OBSERVATION_CUT = "observation_cut"
"""Problem code of an observation cut from its middle, so that the closing hint and an answer fit."""

_SAMPLED = ("text", "token_ids", "logprobs", "versions", "prefilled_tokens", "prompt_tokens", "sampled_tokens")


@dataclass(frozen=True)
class Draft:
    """A message that is ready to be sent, and to which the closing hint can still be added."""

    node: Node  # as the record will have it, but for its parent
    body: str  # without the template's wrapper
    tokens: int  # what it costs in context: exact with ids, estimated without
    previous_ended: bool  # whether the turn before it sampled its end


class Transcript:
    """The nodes of an episode, the end of its main branch, the context it fills, and the drafts that wait to be sent."""

    def __init__(self, profile: Profile, chat: ChatRenderer | None) -> None:
        """``chat``: the renderer of a token-level policy's tokenizer; None for a text-level policy."""
        self.nodes: list[Node] = []
        self.leaf: int | None = None
        self.seen_tokens = 0  # context filled by what was sent and sampled on the main branch
        self._profile, self._chat = profile, chat
        self._pending: list[Draft] = []
        self._unheard: list[Node] = []  # of an earlier episode's branch: a new session has to be told it first
        self._hint = f"\n\n{profile.force_hint}"
        self.hint_tokens = self._draft(NodeKind.HINT, CUT_MARK + self._hint, previous_ended=False).tokens
        """What the closing hint costs at most in an observation of its own."""

    def open(self, system: str, question: str) -> None:
        """Queue the system prompt and the question, as the profile words it."""
        asked = render_question(self._profile, question)
        self._pending += [self._draft(NodeKind.SYSTEM, system), self._draft(NodeKind.QUESTION, asked)]

    def follow(self, before: Trajectory, question: str) -> None:
        """Begin with the main branch of an episode that has ended, as it is, and queue a further question."""
        branch = before.branch()
        spoken = [place for place, node in enumerate(branch) if node.kind is NodeKind.TURN]
        if not spoken or (self._chat is not None and spoken[-1] != len(branch) - 1):
            raise UserError(f"{before.id} ended before the model had spoken: nothing can follow it, so ask anew.")
        for node in branch:
            self.nodes.append(node.model_copy(update={"parent": self.leaf}))
            self.leaf = len(self.nodes) - 1
            reported = node.prompt_tokens if node.kind is NodeKind.TURN and node.token_ids is None else 0
            self.seen_tokens = (reported or self.seen_tokens) + _tokens(node.text, node.token_ids)
        self._unheard = list(self.nodes)
        asked = render_question(self._profile, question) + (ANEW if any(FORCED in node.problems for node in branch) else "")
        ended = self._chat is None or (branch[-1].token_ids or ())[-1:] == (self._chat.end_id,)
        self._pending.append(self._draft(NodeKind.QUESTION, asked, previous_ended=ended))

    def observe(
        self,
        body: str,
        answered: Completion,
        *,
        kind: NodeKind = NodeKind.OBSERVATION,
        events: tuple[ToolEvent, ...] = (),
        seconds: float = 0.0,
    ) -> None:
        """Queue results, or a notice (kind HINT), in the observation wrapper, after the turn that they answer."""
        end_id = None if self._chat is None else self._chat.end_id
        ended = answered.token_ids is None or answered.token_ids[-1:] == (end_id,)
        self._pending.append(self._draft(kind, body, previous_ended=ended, events=events, seconds=seconds))

    def close_with_hint(self, limit: int, answer_tokens: int) -> int | None:
        """Add the closing hint to the last queued message, cutting an observation from its middle where it must.

        Returns the tokens left for the answer within ``limit``; None when hint and answer cannot fit, or nothing is queued.
        """
        if not self._pending:
            return None
        draft = self._pending[-1]
        node, before = draft.node, self.prompt_tokens - draft.tokens
        most = limit - before - answer_tokens

        def closed(body: str, *problems: str) -> Draft:
            kept = {"events": node.events, "seconds": node.seconds, "previous_ended": draft.previous_ended}
            return self._draft(node.kind, body + self._hint, problems=(*node.problems, FORCED, *problems), **kept)

        last = closed(draft.body)
        if last.tokens > most:
            asks = node.kind is NodeKind.QUESTION
            body = None if asks else cut_middle(draft.body, lambda text: closed(text).tokens, most)
            if body is None:
                return None
            last = closed(body, OBSERVATION_CUT)
        self._pending[-1] = last
        return limit - before - last.tokens

    def _draft(self, kind: NodeKind, body: str, *, previous_ended: bool = True, **of_node: Any) -> Draft:
        """``of_node``: what else the record has of it."""
        text, ids = body, None
        if kind is NodeKind.SYSTEM:
            ids = self._chat and self._chat.system_ids(body)
        elif kind is NodeKind.QUESTION:
            if self._chat is not None and self.leaf is not None:
                ids = self._chat.follow_up_ids(body, previous_ended=previous_ended)
            else:
                ids = self._chat and self._chat.question_ids(body)
        else:
            text = wrap_observation(body)
            ids = self._chat and self._chat.observation_ids(body, previous_ended=previous_ended)
        role = Role.SYSTEM if kind is NodeKind.SYSTEM else Role.USER
        token_ids = None if ids is None else tuple(ids)
        node = Node(parent=None, role=role, kind=kind, text=text, token_ids=token_ids, **of_node)
        return Draft(node, body, _tokens(text, ids), previous_ended)

    @property
    def prompt_tokens(self) -> int:
        """Context that the next turn would start from."""
        return self.seen_tokens + sum(draft.tokens for draft in self._pending)

    def delta(self, tools: tuple[ToolSpec, ...] = (), *, must_answer: bool = False) -> Delta:
        """What is new for the session: the queued messages, joined, and the tools that it is told natively."""
        nodes = [*self._unheard, *(draft.node for draft in self._pending)]
        ids: list[int] = []
        for node in nodes:
            ids += node.token_ids or ()  # a tenth of a chain's time
        messages = tuple(Message(role=node.role, content=node.text) for node in nodes)
        return Delta(messages, None if self._chat is None else tuple(ids), tools=tools, must_answer=must_answer)

    def commit(self) -> None:
        """Make the queued messages nodes of the main branch."""
        for draft in self._pending:
            self.nodes.append(draft.node.model_copy(update={"parent": self.leaf}))
            self.leaf = len(self.nodes) - 1
            self.seen_tokens += draft.tokens
        self._pending.clear()
        self._unheard.clear()

    def add_turn(
        self, completion: Completion, parsed: ParsedTurn, problems: Sequence[str], *, rejected: bool, seconds: float
    ) -> None:
        """Append a sampled turn to the messages that it answers; a rejected one stays as a leaf beside the main branch."""
        self.commit()
        sampled = {name: getattr(completion, name) for name in _SAMPLED}
        node = Node(
            parent=self.leaf,
            role=Role.ASSISTANT,
            kind=NodeKind.TURN,
            think=parsed.think,
            calls=parsed.calls,
            answer=parsed.answer,
            problems=(*(problem.value for problem in parsed.problems), *problems),
            rejected=rejected,
            seconds=seconds,
            **sampled,
        )
        self.nodes.append(node)
        if not rejected:
            self.leaf = len(self.nodes) - 1
            reported = completion.prompt_tokens if completion.token_ids is None else 0
            self.seen_tokens = (reported or self.seen_tokens) + _tokens(completion.text, completion.token_ids)


def _tokens(text: str, ids: Sequence[int] | None) -> int:
    """What a message costs in context; for a policy whose tokenizer is not known estimated, with 6 for its scaffold."""
    return len(text.encode("utf-8", errors="replace")) // 4 + 6 if ids is None else len(ids)
