"""What becomes of a branch that is longer than the limit: dropped, cut in the middle of what tools returned, or split at turns.

Never is a row cut off at its end: there stands the answer. Whatever is left out is counted. Knows no model and no trajectory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from sanderling.core.record import NodeKind
from sanderling.train.encoding import Piece

_HEAD = (NodeKind.SYSTEM, NodeKind.QUESTION)


class Overlong(StrEnum):
    """What to do with a branch beyond the limit."""

    DROP = "drop"
    """Leave it out."""
    CUT = "cut"
    """Shorten observations in their middle, the longest first, all to one length; left out where that does not suffice."""
    SPLIT = "split"
    """Several rows, each with the system prompt and the question; every turn is trained in one of them."""


@dataclass(frozen=True)
class Limit:
    """The longest row, and what to do beyond it."""

    max_tokens: int
    overlong: Overlong = Overlong.DROP
    least_observation: int = 256
    """An observation is never cut below this many tokens."""
    context_share: float = 0.5
    """Split: the part of a row, at most, that repeats turns trained in the row before, as context."""


@dataclass(frozen=True)
class Part:
    """One row to be: pieces, and which of them (by place) are turns that are trained here."""

    pieces: list[Piece]
    trains: frozenset[int]


@dataclass(frozen=True)
class Fitted:
    """What a branch became."""

    parts: list[Part]
    """None: the branch is left out. A split may leave out single turns that do not fit by themselves."""
    cut_tokens: int = 0


def fit(pieces: Sequence[Piece], wanted: frozenset[int], limit: Limit, marker: Callable[[int], list[int]]) -> Fitted:
    """A branch within the limit, or in parts that are.

    Args:
        pieces: the branch, message by message.
        wanted: places of the turns to be trained.
        limit: how long, and how.
        marker: the ids that stand where so many tokens were cut out.

    """
    if sum(len(piece.ids) for piece in pieces) <= limit.max_tokens:
        return Fitted([Part(list(pieces), wanted)])
    match limit.overlong:
        case Overlong.DROP:
            return Fitted([])
        case Overlong.CUT:
            return _cut(pieces, wanted, limit, marker)
        case Overlong.SPLIT:
            return _split(pieces, wanted, limit)


def _cut(pieces: Sequence[Piece], wanted: frozenset[int], limit: Limit, marker: Callable[[int], list[int]]) -> Fitted:
    """The largest length that, as a bound on every observation, makes the branch fit."""

    def bounded(most: int) -> list[Piece]:
        return [_shortened(piece, most, marker) if piece.kind is NodeKind.OBSERVATION else piece for piece in pieces]

    def tokens(parts: Sequence[Piece]) -> int:
        return sum(len(piece.ids) for piece in parts)

    low, high = limit.least_observation, max((len(p.ids) for p in pieces if p.kind is NodeKind.OBSERVATION), default=0)
    if tokens(bounded(low)) > limit.max_tokens:
        return Fitted([])
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(bounded(middle)) <= limit.max_tokens:
            low = middle
        else:
            high = middle - 1
    found = bounded(low)
    return Fitted([Part(found, wanted)], cut_tokens=tokens(pieces) - tokens(found))


def _shortened(piece: Piece, most: int, marker: Callable[[int], list[int]]) -> Piece:
    """A piece of at most ``most`` tokens: its beginning, a mark, its end."""
    if len(piece.ids) <= most:
        return piece
    mark = marker(len(piece.ids) - most)
    kept = max(0, most - len(mark))
    end = kept // 2
    return replace(piece, ids=[*piece.ids[: kept - end], *mark, *piece.ids[len(piece.ids) - end :]])


def _split(pieces: Sequence[Piece], wanted: frozenset[int], limit: Limit) -> Fitted:
    """Rows from left to right, each as long as fits, begun at a turn so that a share of it repeats what came before."""
    head = next((at for at, piece in enumerate(pieces) if piece.kind not in _HEAD), len(pieces))
    opening = list(pieces[:head])
    room = limit.max_tokens - sum(len(piece.ids) for piece in opening)
    parts: list[Part] = []
    done = head
    while done < len(pieces):
        begin = _begin(pieces, head, done, int(room * limit.context_share))
        end = _end(pieces, begin, room)
        if end <= done:
            begin, end = done, _end(pieces, done, room)
        if end <= done:  # a turn that does not fit by itself; what answers it goes with it
            done = next((at for at in range(done + 1, len(pieces)) if pieces[at].kind is NodeKind.TURN), len(pieces))
            continue
        trains = frozenset(head + at - begin for at in range(done, end) if at in wanted)
        if trains:
            parts.append(Part([*opening, *pieces[begin:end]], trains))
        done = next((at for at in range(end, len(pieces)) if pieces[at].kind is NodeKind.TURN), len(pieces))
    return Fitted(parts)


def _begin(pieces: Sequence[Piece], head: int, done: int, most: int) -> int:
    """The earliest turn from which at most ``most`` tokens lead up to ``done``."""
    begin, tokens = done, 0
    for at in range(done - 1, head - 1, -1):
        tokens += len(pieces[at].ids)
        if tokens > most:
            break
        if pieces[at].kind is NodeKind.TURN:
            begin = at
    return begin


def _end(pieces: Sequence[Piece], begin: int, room: int) -> int:
    """The place behind the last turn that still fits; ``begin`` when none does."""
    end, tokens = begin, 0
    for at in range(begin, len(pieces)):
        tokens += len(pieces[at].ids)
        if tokens > room:
            break
        if pieces[at].kind is NodeKind.TURN:
            end = at + 1
    return end
