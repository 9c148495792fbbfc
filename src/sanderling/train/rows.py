"""What is trained on: rows, what a loss and a scorer are handed of them, and how trajectories become supervised ones.

B rows of an optimizer batch, T tokens. The trainer executes rows; it does not know which algorithm wrote their advantages.
A supervised row is one branch of a trajectory, with loss on what the policy said: where ids exist they are used as they are;
text-only branches are rendered as the loop would have sent them. Trained are the policy's own tokens, end tokens included.
Rejected attempts are not trained, and a turn that lies on several branches is trained once. A branch that is longer than the
limit is dropped, or split at turns. Importable without torch.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sanderling.core.chat import ChatRenderer, Tokenizer, unwrap
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
PER_TOKEN = ("ids", "loss_mask", "advantages", "sampler_logprobs", "proximal_logprobs", "reference_logprobs")
"""The arrays of a row."""


@dataclass(frozen=True)
class Row:
    """One branch, ready to train on. All per-token arrays are parallel to ``ids`` (T)."""

    ids: IntArray
    loss_mask: BoolArray
    """True on tokens that are trained: predicting ``ids[t]`` from ``ids[:t]``."""
    advantages: FloatArray | None = None
    sampler_logprobs: FloatArray | None = None
    proximal_logprobs: FloatArray | None = None
    reference_logprobs: FloatArray | None = None
    trajectory: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        size = self.ids.shape[0]
        for name in PER_TOKEN:
            values = getattr(self, name)
            if values is not None and values.shape != (size,):
                raise ValueError(f"row {self.trajectory or '?'}: {name} has shape {values.shape}, ids have {size} tokens")


@dataclass(frozen=True)
class ScoreRequest:
    """A trajectory and the continuations to score at some of its boundaries."""

    ids: Sequence[int]
    cuts: Sequence[int]
    """Boundary b is the context of the first ``cuts[b]`` ids of its branch."""
    continuations: Sequence[Sequence[int]]
    """What is teacher-forced after each boundary (prefix, answer, suffix); one per cut."""
    answer_spans: Sequence[tuple[int, int]]
    """Half-open span of the answer's tokens within each continuation."""
    others: Sequence[Sequence[int]] = ()
    """Further branches of the trajectory, whole; what branches share at their beginning is computed once."""
    on: Sequence[int] | None = None
    """Each boundary's branch: 0 is ``ids``, 1 the first of ``others``, …; None: all are on ``ids``."""


class Scorer(Protocol):
    """Teacher-forced log-probabilities under one policy version."""

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, the log-probabilities of the answer span's tokens."""
        ...


@dataclass(frozen=True)
class LossInputs:
    """The N trained tokens of a micro-batch; every tensor but ``sequence`` is float32 [N]."""

    logprobs: "Tensor"
    """Under the model being trained; the only one with a gradient."""
    weights: "Tensor"
    advantages: "Tensor | None" = None
    sampler: "Tensor | None" = None
    """Log-probabilities under the distribution the token was sampled from."""
    proximal: "Tensor | None" = None
    """Under the trainer's own weights before this batch's first update."""
    reference: "Tensor | None" = None
    sequence: "Tensor | None" = None
    """int64 [N]: which row of the micro-batch each token belongs to; rows are whole."""

    def need(self, name: str) -> "Tensor":
        """The named tensor. Raises ValueError when the rows did not bring it."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"this loss needs {name}, and the rows have none")
        return value


Metrics = dict[str, "Tensor"]
"""Per-token values [N] by name; the trainer reports their mean over the batch."""
Loss = Callable[[LossInputs], tuple["Tensor", Metrics]]


def sft(tokens: LossInputs) -> "tuple[Tensor, Metrics]":
    """The weighted negative log-likelihood: with ``token_mean`` the mean over all trained tokens of the optimizer batch."""
    return -(tokens.weights * tokens.logprobs).sum(), {"nll": -tokens.logprobs.detach()}


def grouped(names: Sequence[str]) -> list[list[int]]:
    """Places of equal names together, in the order of first appearance; one without a name is alone."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name or f"\0{place}", []).append(place)
    return list(found.values())


# -- supervised rows ------------------------------------------------------------------------------------------------------

_HEAD = (NodeKind.SYSTEM, NodeKind.QUESTION)


@dataclass(frozen=True)
class Encoding:
    """A tokenizer, and the profile that says how text becomes ids."""

    tokenizer: Tokenizer
    profile: Profile
    train_newline: bool = False
    """Whether a turn of a supervised row ends with the newline after its ``<|im_end|>``."""

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
    if encoding.train_newline:
        _move_newlines(nodes, ids, encoding.renderer)
    return [Piece(index, node.kind, part) for index, node, part in zip(path, nodes, ids, strict=True)]


def _move_newlines(nodes: Sequence[Node], ids: list[list[int]], renderer: ChatRenderer) -> None:
    """The newline after a turn's end token, with which the next message begins, to the turn; the last turn gets one."""
    for at, node in enumerate(nodes):
        if node.kind is NodeKind.TURN and ids[at][-1:] == [renderer.end_id]:
            ids[at] += renderer.newline
            if at + 1 < len(ids):
                ids[at + 1] = ids[at + 1][len(renderer.newline) :]


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
    """Which of a turn's tokens are trained: as the record says, and all of them where it says nothing.

    A newline that follows its end token is trained as that is.
    """
    mask = list(trajectory.nodes[piece.node].loss_mask or [True] * len(piece.ids))
    return mask + mask[-1:] * (len(piece.ids) - len(mask))


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
