"""Trajectories to supervised rows: one for each branch, loss on what the policy said.

Trained are the policy's own tokens, end tokens included; the generation prompt, observations and hints never are. Rejected
attempts are not trained, and a turn that lies on several branches is trained once. A branch beyond the limit is dropped, cut or
split (`overlong`), and counted. Knows no model and no algorithm.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.train.contract import Row
from sanderling.train.encoding import Encoding, branch_leaves, branch_pieces
from sanderling.train.overlong import Limit, Part, fit

TrainTurn = Callable[[int, Node], bool]
"""Whether a turn, by its number on its branch and node, is trained."""
MARK = "\n[… {tokens} tokens left out …]\n"
"""What stands where an observation was cut."""


@dataclass(frozen=True)
class Made:
    """The rows of one trajectory, and what was left out of them."""

    rows: list[Row] = field(default_factory=list)
    longest: int = 0
    """Tokens of its longest branch, before anything was cut."""
    too_long: int = 0
    """Branches dropped."""
    cut: int = 0
    """Branches with shortened observations."""
    cut_tokens: int = 0
    split: int = 0
    """Branches that became several rows."""
    turns_left_out: int = 0
    """Turns that should have been trained and are in no row."""


@dataclass(frozen=True)
class RowSet:
    """The rows of many trajectories, and what was left out."""

    rows: list[Row]
    counts: Counter[str]
    """``too_long``, ``cut``, ``cut_tokens``, ``split``, ``turns_left_out`` as in :class:`Made`; ``without_turns``: trajectories
    in which the policy said nothing that is trained."""


def sft_rows(
    trajectories: Sequence[Trajectory], encoding: Encoding, limit: Limit, train_turn: TrainTurn | None = None
) -> RowSet:
    """The rows of all trajectories, in order. Raises UserError as :func:`rows_of` does."""
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    for trajectory in trajectories:
        made = rows_of(trajectory, encoding, limit, train_turn)
        rows += made.rows
        for name in ("too_long", "cut", "cut_tokens", "split", "turns_left_out"):
            counts[name] += getattr(made, name)
        counts["without_turns"] += not made.longest
    return RowSet(rows, counts)


def rows_of(trajectory: Trajectory, encoding: Encoding, limit: Limit, train_turn: TrainTurn | None = None) -> Made:
    """One trajectory as rows.

    Raises UserError for ids of another tokenizer, records that mix ids and text, and messages that no loop could have sent.
    """
    rows: list[Row] = []
    wanted: set[int] = set()
    trained: set[int] = set()
    longest, counts = 0, Counter[str]()
    for leaf in branch_leaves(trajectory):
        pieces = branch_pieces(trajectory, leaf, encoding)
        turns = [at for at, piece in enumerate(pieces) if piece.kind is NodeKind.TURN]
        chosen = [
            at
            for number, at in enumerate(turns)
            if pieces[at].node not in trained
            and any(_mask(trajectory, pieces[at].node, len(pieces[at].ids)))
            and (train_turn is None or train_turn(number, trajectory.nodes[pieces[at].node]))
        ]
        if not chosen:
            continue
        longest = max(longest, sum(len(piece.ids) for piece in pieces))
        fitted = fit(pieces, frozenset(chosen), limit, lambda cut: encoding.tokenizer.encode(MARK.format(tokens=cut)))
        rows += [_row(trajectory, part) for part in fitted.parts]
        wanted |= {pieces[at].node for at in chosen}
        trained |= {part.pieces[at].node for part in fitted.parts for at in part.trains}
        counts["too_long"] += not fitted.parts
        counts["cut"] += fitted.cut_tokens > 0
        counts["cut_tokens"] += fitted.cut_tokens
        counts["split"] += len(fitted.parts) > 1
    return Made(rows=rows, longest=longest, turns_left_out=len(wanted - trained), **counts)


def _mask(trajectory: Trajectory, node: int, size: int) -> list[bool]:
    """Which of a turn's tokens are trained: as the record says, and all of them where it says nothing."""
    return list(trajectory.nodes[node].loss_mask or [True] * size)


def _row(trajectory: Trajectory, part: Part) -> Row:
    ids: list[int] = []
    mask: list[bool] = []
    for at, piece in enumerate(part.pieces):
        size = len(piece.ids)
        ids += piece.ids
        mask += _mask(trajectory, piece.node, size) if at in part.trains else [False] * size
    return Row(
        ids=np.array(ids, dtype=np.int64),
        loss_mask=np.array(mask, dtype=np.bool_),
        trajectory=trajectory.id,
        group=trajectory.question.id,
    )
