"""Parts of a data set by question: no question, nor a near-duplicate of it, is in two of them.

A question's part follows from a keyed hash of its words alone: ``train=0.95, validation=0.05`` cut the unit interval, and the
hash is a point on it. So rows may come in any number and order, and adding some moves no other. A group of near-duplicates goes
where the least of its questions, by their words, points: only a row that joins a group can move it. Shares are therefore
expected shares of *questions*: what came out is counted, and short files may miss them widely. Knows no file.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from sanderling.core.errors import UserError
from sanderling.core.text import normalised
from sanderling.data.near import THRESHOLD
from sanderling.data.question_groups import Asked, question_groups


@dataclass(frozen=True)
class Shares:
    """Names of the parts, and how much each shall hold.

    Example: ``Shares.read("train=0.95,validation=0.05").names == ("train", "validation")``
    """

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def read(cls, text: str) -> "Shares":
        """From ``train=0.95,validation=0.05``; shares are scaled to 1. Raises UserError."""
        names: list[str] = []
        shares: list[float] = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, share = (piece.strip() for piece in part.partition("="))
            try:
                shares.append(float(share))
            except ValueError:
                equals = ""
            if not equals or not name or not name.replace("-", "").replace("_", "").isalnum():
                raise UserError(f"{part!r} is no share: write a name and a number, such as train=0.95.")
            names.append(name)
        return cls(tuple(names), tuple(shares))

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            raise UserError(f"The parts {', '.join(self.names) or '(none)'} are not told apart: give each a name of its own.")
        if not all(isfinite(share) and share >= 0 for share in self.shares) or sum(self.shares) <= 0:
            raise UserError("A share is negative or none is above 0: give shares such as train=0.95,validation=0.05.")

    def part(self, point: float) -> int:
        """The part that a point of [0, 1) falls into."""
        total, reached = sum(self.shares), 0.0
        for place, share in enumerate(self.shares):
            reached += share / total
            if point < reached:
                return place
        return max(place for place, share in enumerate(self.shares) if share > 0)  # sums may fall short of 1 by rounding


@dataclass(frozen=True)
class Split:
    """Where each row goes."""

    parts: tuple[int, ...]
    """For each row the place of its part."""
    questions: tuple[int, ...]
    """Groups of questions by part."""


def split(
    questions: Sequence[Asked], shares: Shares, *, seed: int = 0, threshold: float = THRESHOLD, by_answers: bool = False
) -> Split:
    """The part of each row, by its question.

    ``by_answers``: near-duplicates whose known answers differ may be apart, which templated questions want: without it, one
    template can tie all its questions into one group.
    """
    words = [normalised(question.text) for question in questions]
    groups = _joined(question_groups(questions, threshold=threshold, by_answers=by_answers), words)
    least: dict[int, str] = {}
    for row, group in enumerate(groups):
        least[group] = min(least.get(group, words[row]), words[row])
    places = {group: shares.part(_point(said, seed)) for group, said in least.items()}
    counts = [0] * len(shares.names)
    for place in places.values():
        counts[place] += 1
    return Split(tuple(places[group] for group in groups), tuple(counts))


def _joined(roots: Sequence[int], words: Sequence[str]) -> list[int]:
    """The group of each row, where groups that share a question's words are one, even if its answers differ."""
    parent = {root: root for root in roots}

    def top(root: int) -> int:
        while parent[root] != root:
            parent[root] = parent[parent[root]]
            root = parent[root]
        return root

    first: dict[str, int] = {}
    for root, said in zip(roots, words, strict=True):
        if said:  # questions that nobody knows are not one question
            parent[top(root)] = top(first.setdefault(said, root))
    return [top(root) for root in roots]


def _point(words: str, seed: int) -> float:
    """A point of [0, 1) for a question's normalised words."""
    digest = hashlib.blake2b(f"{seed}\0{words}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / float(1 << 53)
