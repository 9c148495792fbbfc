"""Trajectories to supervised rows: one for each branch, loss on what the policy said.

Where ids exist they are used as they are; text-only branches are rendered as the loop would have sent them. Trained are the
policy's own tokens, end tokens included. Rejected attempts are not trained, and a turn that lies on several branches is trained
once. A branch that is longer than the limit is dropped, or split at turns.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate

import numpy as np

from sanderling.core.chat import ChatRenderer, Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.observations import unwrap
from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.train.contract import Row

_HEAD = (NodeKind.SYSTEM, NodeKind.QUESTION)


@dataclass(frozen=True)
class Encoding:
    """A tokenizer, and the profile that says how text becomes ids."""

    tokenizer: Tokenizer
    profile: Profile

    @cached_property
    def renderer(self) -> ChatRenderer:
        return ChatRenderer(self.tokenizer, self.profile)


@dataclass(frozen=True)
class Piece:
    """What one message adds to a branch."""

    node: int
    kind: NodeKind
    ids: list[int]


def branch_leaves(trajectory: Trajectory) -> list[int]:
    """The branches that hold trained turns: the main one first, then others that are no rejected attempts."""
    if trajectory.leaf is None:
        return []
    others = [leaf for leaf in trajectory.leaves() if leaf != trajectory.leaf and not trajectory.nodes[leaf].rejected]
    return [trajectory.leaf, *others]


def branch_pieces(trajectory: Trajectory, leaf: int, encoding: Encoding) -> list[Piece]:
    """A branch up to its last turn. Raises UserError as :func:`rows_of`."""
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
    kinds = [None, *(node.kind for node in nodes), None]
    for node, before, following in zip(nodes, kinds, kinds[2:], strict=False):
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
    return pieces


class Overlong(StrEnum):
    """What to do with a branch beyond the limit."""

    DROP = "drop"
    SPLIT = "split"
    """Several rows, each with the system prompt and the question; every turn is trained in one of them."""


@dataclass(frozen=True)
class Limit:
    """The longest row, and what to do beyond it."""

    max_tokens: int
    overlong: Overlong = Overlong.DROP
    context_share: float = 0.5
    """Split: the part of a row, at most, that repeats turns trained in the row before, as context."""


@dataclass(frozen=True)
class Part:
    """One row to be: pieces, and which of them (by place) are turns that are trained here."""

    pieces: list[Piece]
    trains: frozenset[int]


def fit(pieces: Sequence[Piece], wanted: frozenset[int], limit: Limit) -> list[Part]:
    """A branch within the limit, or in parts that are; none where it is left out. ``wanted``: places of turns to be trained."""
    if _tokens(pieces) <= limit.max_tokens:
        return [Part(list(pieces), wanted)]
    return [] if limit.overlong is Overlong.DROP else _split(pieces, wanted, limit)


def _tokens(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces)


def _split(pieces: Sequence[Piece], wanted: frozenset[int], limit: Limit) -> list[Part]:
    """Rows from left to right, each as long as fits, begun at a turn so that a share of it repeats what came before."""
    head = next((at for at, piece in enumerate(pieces) if piece.kind not in _HEAD), len(pieces))
    turns = [at for at, piece in enumerate(pieces) if piece.kind is NodeKind.TURN]
    start = list(accumulate((len(piece.ids) for piece in pieces), initial=0))
    room = limit.max_tokens - start[head]

    def end(begin: int) -> int:
        """The place behind the last turn that still fits."""
        return max((at + 1 for at in turns if at >= begin and start[at + 1] - start[begin] <= room), default=begin)

    parts: list[Part] = []
    done = head
    while done < len(pieces):
        context = int(room * limit.context_share)
        begin = next((at for at in turns if at < done and start[done] - start[at] <= context), done)
        if end(begin) <= done:
            begin = done
        last = end(begin)
        trains = frozenset(head + at - begin for at in range(done, last) if at in wanted)
        if trains:
            parts.append(Part([*pieces[:head], *pieces[begin:last]], trains))
        # A turn that does not fit by itself is left out, with what answers it.
        done = next((at for at in turns if at >= max(last, done + 1)), len(pieces))
    return parts


@dataclass(frozen=True)
class Made:
    """The rows of one trajectory, and what was left out of them."""

    rows: list[Row] = field(default_factory=list)
    longest: int = 0
    """Tokens of its longest branch."""
    too_long: int = 0
    split: int = 0
    turns_left_out: int = 0


def rows_of(trajectory: Trajectory, encoding: Encoding, limit: Limit) -> Made:
    """One trajectory as rows.

    Raises UserError for ids of another tokenizer, records that mix ids and text, and messages that no loop could have sent.
    """
    rows: list[Row] = []
    wanted, trained, counts = set[int](), set[int](), Counter[str]()
    longest = 0
    for leaf in branch_leaves(trajectory):
        pieces = branch_pieces(trajectory, leaf, encoding)
        chosen = [
            at
            for at, piece in enumerate(pieces)
            if piece.kind is NodeKind.TURN and piece.node not in trained and any(_mask(trajectory, piece))
        ]
        if not chosen:
            continue
        longest = max(longest, _tokens(pieces))
        parts = fit(pieces, frozenset(chosen), limit)
        rows += [_row(trajectory, part) for part in parts]
        wanted |= {pieces[at].node for at in chosen}
        trained |= {part.pieces[at].node for part in parts for at in part.trains}
        counts.update(too_long=not parts, split=len(parts) > 1)
    return Made(rows=rows, longest=longest, turns_left_out=len(wanted - trained), **counts)


def _mask(trajectory: Trajectory, piece: Piece) -> list[bool]:
    """Which of a turn's tokens are trained: as the record says, and all of them where it says nothing."""
    return list(trajectory.nodes[piece.node].loss_mask or [True] * len(piece.ids))


def _row(trajectory: Trajectory, part: Part) -> Row:
    ids: list[int] = []
    mask: list[bool] = []
    for at, piece in enumerate(part.pieces):
        ids += piece.ids
        mask += _mask(trajectory, piece) if at in part.trains else [False] * len(piece.ids)
    return Row(
        ids=np.array(ids, dtype=np.int64),
        loss_mask=np.array(mask, dtype=np.bool_),
        trajectory=trajectory.id,
        group=trajectory.question.id,
    )
