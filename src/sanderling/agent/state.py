"""The transcript in the making: appends nodes to the message graph and knows what the model has seen.

Nodes are built once and only appended; the record is built once, at the end, so a turn costs the same at any length. A draft
that nobody has sent yet is *pending*: it becomes a node when it is sent, or when the episode ends before that.
Knows nothing of budgets, tools or when an episode ends.
"""

from sanderling.agent.scribe import Draft
from sanderling.core.parse import ParsedTurn
from sanderling.core.record import Node, NodeKind
from sanderling.core.types import Role
from sanderling.policy.contract import Completion, Delta


class Transcript:
    """The nodes of an episode, the end of its main branch, and the context it fills."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaf: int | None = None
        self.seen_tokens = 0
        """Context filled by what was sent and said on the main branch."""
        self._pending: list[Draft] = []

    @property
    def prompt_tokens(self) -> int:
        """Context that the next turn would start from."""
        return self.seen_tokens + sum(draft.tokens for draft in self._pending)

    @property
    def last_pending(self) -> Draft:
        """The draft that the next turn answers."""
        return self._pending[-1]

    def put(self, draft: Draft) -> None:
        """Queue a message for the next turn."""
        self._pending.append(draft)

    def replace_last(self, draft: Draft) -> None:
        """Say something else instead of the last queued message."""
        self._pending[-1] = draft

    def delta(self) -> Delta:
        """What is new for the session: the queued messages, joined."""
        ids: list[int] | None = []
        for draft in self._pending:
            if ids is None or draft.ids is None:
                ids = None
            else:
                ids.extend(draft.ids)
        return Delta(tuple(draft.message for draft in self._pending), None if ids is None else tuple(ids))

    def commit(self) -> None:
        """Make the queued messages nodes of the main branch."""
        for draft in self._pending:
            self.leaf = self._append(draft.node(self.leaf))
            self.seen_tokens += draft.tokens
        self._pending.clear()

    def add_turn(self, node: Node, seen_tokens: int) -> None:
        """Append what the policy said to the branch it answered, which must be committed.

        ``seen_tokens`` is the context filled with it. A rejected attempt becomes a leaf beside the main branch and fills none.
        """
        index = self._append(node)
        if not node.rejected:
            self.leaf = index
            self.seen_tokens = seen_tokens

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def turn_node(
    completion: Completion, parsed: ParsedTurn, parent: int | None, problems: tuple[str, ...], *, rejected: bool, seconds: float
) -> Node:
    """What the policy said as a node of the record."""
    return Node(
        parent=parent,
        role=Role.ASSISTANT,
        kind=NodeKind.TURN,
        text=completion.text,
        token_ids=completion.token_ids,
        logprobs=completion.logprobs,
        versions=completion.versions,
        think=parsed.think,
        calls=parsed.calls,
        answer=parsed.answer,
        problems=problems,
        rejected=rejected,
        seconds=seconds,
        prefilled_tokens=completion.prefilled_tokens,
        prompt_tokens=completion.prompt_tokens,
        sampled_tokens=completion.sampled_tokens,
    )
