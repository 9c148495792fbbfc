"""A branch of a trajectory as pieces of token ids, one for each message.

Where ids exist they are used as they are; text-only branches are rendered as the loop would have sent them. Knows no model,
no credit and no length limit.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sanderling.core.chat import ChatRenderer, Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.observations import unwrap
from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory


@dataclass(frozen=True)
class Encoding:
    """Whose ids rows are made of: a tokenizer, and the profile that says how text becomes ids."""

    tokenizer: Tokenizer
    profile: Profile

    @cached_property
    def renderer(self) -> ChatRenderer:
        """Renders text-only trajectories."""
        return ChatRenderer(self.tokenizer, self.profile)


@dataclass(frozen=True)
class Piece:
    """What one message adds to a branch."""

    node: int
    """Its index in the trajectory."""
    kind: NodeKind
    ids: list[int]


def branch_leaves(trajectory: Trajectory) -> list[int]:
    """The branches that hold trained turns: the main one first, then others that are no rejected attempts."""
    if trajectory.leaf is None:
        return []
    others = [leaf for leaf in trajectory.leaves() if leaf != trajectory.leaf and not trajectory.nodes[leaf].rejected]
    return [trajectory.leaf, *others]


def branch_pieces(trajectory: Trajectory, leaf: int, encoding: Encoding) -> list[Piece]:
    """A branch up to its last turn.

    Raises UserError for ids of another tokenizer, records that mix ids and text, and messages that no loop could have sent.
    """
    path = list(trajectory.path(leaf))
    while path and trajectory.nodes[path[-1]].kind is not NodeKind.TURN:
        path.pop()
    nodes = [trajectory.nodes[index] for index in path]
    with_ids = Counter(node.token_ids is not None for node in nodes)
    if len(with_ids) > 1:
        raise UserError(f"Trajectory {trajectory.id} has ids for some messages only: import it again, or drop its ids.")
    if with_ids[True]:
        check_tokenizer(trajectory, encoding.tokenizer)
        ids = [list(node.token_ids or ()) for node in nodes]
    else:
        ids = _render(trajectory.id, nodes, encoding.renderer)
    return [Piece(index, node.kind, part) for index, node, part in zip(path, nodes, ids, strict=True)]


def check_tokenizer(trajectory: Trajectory, tokenizer: Tokenizer) -> None:
    """Raises UserError when a record holds the ids of another tokenizer."""
    if trajectory.tokenizer is not None and trajectory.tokenizer != tokenizer.fingerprint:
        raise UserError(
            f"Trajectory {trajectory.id} holds ids of tokenizer {trajectory.tokenizer}, the model's is "
            f"{tokenizer.fingerprint}: train the model these were sampled from, or drop the ids."
        )


def _render(name: str, nodes: Sequence[Node], renderer: ChatRenderer) -> list[list[int]]:
    """The ids of a text-only branch, as the loop would have sent them."""
    pieces: list[list[int]] = []
    before: NodeKind | None = None
    for index, node in enumerate(nodes):
        following = nodes[index + 1].kind if index + 1 < len(nodes) else None
        match (before, node.kind):
            case (None, NodeKind.SYSTEM):
                pieces.append(renderer.system_ids(node.text))
            case (None | NodeKind.SYSTEM, NodeKind.QUESTION):
                pieces.append(renderer.question_ids(node.text))
            case (NodeKind.QUESTION | NodeKind.OBSERVATION | NodeKind.HINT, NodeKind.TURN):
                pieces.append(renderer.turn_ids(node.text))
            case (NodeKind.TURN, NodeKind.OBSERVATION):
                prompt = following is not NodeKind.HINT
                pieces.append(renderer.observation_ids(unwrap(node.text), previous_ended=True, prompt=prompt))
            case (NodeKind.TURN | NodeKind.OBSERVATION, NodeKind.HINT):
                ended = True if before is NodeKind.TURN else None
                pieces.append(renderer.observation_ids(unwrap(node.text), previous_ended=ended))
            case _:
                where = "the beginning" if before is None else f"a {before} message"
                raise UserError(f"Trajectory {name} has a {node.kind} message after {where}: clean it before training on it.")
        before = node.kind
    return pieces
