"""One trajectory for each question, and parts of a data set that share no question: choices, and files written by them.

Memory holds questions, never trajectories: one pass reads what a choice needs, one writes what was chosen, in the file's order.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_trajectory
from sanderling.core.text import normalised
from sanderling.data.importing import open_trajectories
from sanderling.data.similar import QA, THRESHOLD, Groups, question_groups
from sanderling.data.stats import NOT_JUDGED, ruling_of
from sanderling.judge.verdict import Ruling
from sanderling.runs.files import check_places
from sanderling.runs.jsonl import Lines, write_trajectories


class Prefer(StrEnum):
    """What decides between trajectories that are equally right."""

    SHORTEST = "shortest"
    LONGEST = "longest"
    FIRST = "first"


class Candidate(NamedTuple):
    """What the choice looks at."""

    id: str
    question: QA
    ruling: Ruling | None
    answered: bool
    turns: int


class Deduped(NamedTuple):
    """What is kept, by place in the input."""

    kept: tuple[int, ...]
    duplicates: tuple[tuple[int, int], ...]  # each row that is left out, and the one that stands for it
    questions: int
    largest: int  # how many there are of the question that comes most often


_RANK = {Ruling.CORRECT: 0, None: 1, Ruling.UNSCORED: 1, Ruling.INCORRECT: 2}


def dedupe(
    candidates: Sequence[Candidate],
    *,
    threshold: float = THRESHOLD,
    by_answers: bool = True,
    keep: int = 1,
    prefer: Prefer = Prefer.SHORTEST,
) -> Deduped:
    """Keep the best ``keep`` of each question. ``by_answers``: see :func:`question_groups`.

    Judged correct comes before not judged or unscored, and that before incorrect; then those with an answer; then as asked;
    then the first by text, answers and id, so that the order of the file decides nothing that nobody asked it to.
    """

    def merit(row: int) -> tuple[object, ...]:
        one = candidates[row]
        length = {Prefer.SHORTEST: one.turns, Prefer.LONGEST: -one.turns, Prefer.FIRST: row}[prefer]
        return _RANK[one.ruling], not one.answered, length, *one.question, one.id, one.ruling or NOT_JUDGED, row

    groups: dict[int, list[int]] = {}
    asked = (candidate.question for candidate in candidates)
    for row, root in enumerate(question_groups(asked, threshold=threshold, by_answers=by_answers)):
        groups.setdefault(root, []).append(row)
    kept: list[int] = []
    duplicates: list[tuple[int, int]] = []
    for rows in groups.values():
        ordered = sorted(rows, key=merit)
        kept += ordered[:keep]
        duplicates += [(row, ordered[0]) for row in ordered[keep:]]
    return Deduped(tuple(sorted(kept)), tuple(sorted(duplicates)), len(groups), max(map(len, groups.values()), default=0))


def dedupe_file(
    source: Path,
    out: Path,
    *,
    threshold: float = THRESHOLD,
    by_answers: bool = True,
    keep: int = 1,
    prefer: Prefer = Prefer.SHORTEST,
) -> tuple[Deduped, list[dict[str, str]]]:
    """Write the trajectories of a file that :func:`dedupe` keeps; tells what was left out for which. Raises UserError."""
    rows: list[Candidate] = []
    for one in open_trajectories(source):
        asked, turns = QA(one.question.text, one.question.answers), sum(1 for _ in one.turns())
        rows.append(Candidate(one.id, asked, ruling_of(one), one.answer is not None, turns))
    result = dedupe(rows, threshold=threshold, by_answers=by_answers, keep=keep, prefer=prefer)
    kept = set(result.kept)
    write_trajectories(out, (item for row, item in _numbered(source, len(rows)) if row in kept))
    return result, [
        {"id": one.id, "question": one.question.text, "kept": best.id, "kept_question": best.question.text}
        for one, best in ((rows[row], rows[best]) for row, best in result.duplicates)
    ]


def _numbered(source: Path, expected: int) -> Iterator[tuple[int, Trajectory]]:
    """The rows of a file that was read before. Raises UserError, at the end, where there are more or fewer of them."""
    row = -1
    for row, item in enumerate(open_trajectories(source)):
        yield row, item
    if row + 1 != expected:
        raise UserError(f"{source} changed while it was read: run the command when nothing writes to it.")


class Shares(NamedTuple):
    """Names of the parts of a data set, and how much each shall hold."""

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def read(cls, text: str) -> "Shares":
        """From ``train=0.95,validation=0.05``; shares are scaled to 1. Raises UserError."""
        names: list[str] = []
        shares: list[float] = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, share = (piece.strip() for piece in part.partition("="))
            try:
                shares.append(float(share))
            except ValueError:
                name = ""
            if not name.replace("-", "").replace("_", "").isalnum():
                raise UserError(f"{part!r} is no share: write a name and a number, such as train=0.95.")
            names.append(name)
        if not names or len(set(names)) < len(names):
            raise UserError(f"The parts {', '.join(names) or '(none)'} are not told apart: give each a name of its own.")
        if not all(isfinite(share) and share >= 0 for share in shares) or sum(shares) <= 0:
            raise UserError("A share is negative or none is above 0: give shares such as train=0.95,validation=0.05.")
        return cls(tuple(names), tuple(shares))

    def part(self, words: str, seed: int) -> int:
        """The part that a question falls into: a keyed hash of its words is a point of [0, 1), which the shares cut."""
        digest = hashlib.blake2b(f"{seed}\0{words}".encode(), digest_size=8).digest()
        point = (int.from_bytes(digest, "big") >> 11) / float(1 << 53)
        total, reached = sum(self.shares), 0.0
        for place, share in enumerate(self.shares):
            reached += share / total
            if point < reached:
                return place
        return max(place for place, share in enumerate(self.shares) if share > 0)  # sums may fall short of 1 by rounding


class Split(NamedTuple):
    """Where each row goes."""

    parts: tuple[int, ...]  # for each row the place of its part
    questions: tuple[int, ...]  # groups of questions by part


def split(
    questions: Sequence[QA],
    shares: Shares,
    *,
    seed: int = 0,
    threshold: float = THRESHOLD,
    by_answers: bool = False,
) -> Split:
    """The part of each row: no question, nor a near-duplicate of it, is in two parts.

    It follows from a hash of words alone (of a group: of its first question's), so that adding rows moves no other. Shares are
    *expected* shares of questions. ``by_answers``: near-duplicates whose known answers differ may be apart.
    """
    words = [normalised(question.text) for question in questions]
    groups, first = Groups(len(words)), dict[str, int]()
    for row, root in enumerate(question_groups(questions, threshold=threshold, by_answers=by_answers)):
        groups.join(row, root)
        if words[row]:  # questions that nobody knows are not one question
            groups.join(row, first.setdefault(words[row], row))
    tops = [groups.top(row) for row in range(len(words))]
    least: dict[int, str] = {}
    for top, said in zip(tops, words, strict=True):
        least[top] = min(least.get(top, said), said)
    places = {top: shares.part(said, seed) for top, said in least.items()}
    counts = Counter(places.values())
    return Split(tuple(places[top] for top in tops), tuple(counts[place] for place in range(len(shares.names))))


class Part(NamedTuple):
    """How much was written to one part."""

    name: str
    trajectories: int
    questions: int


def split_file(
    source: Path,
    directory: Path,
    shares: Shares,
    *,
    seed: int = 0,
    threshold: float = THRESHOLD,
    by_answers: bool = False,
) -> list[Part]:
    """Write a store for each part; parts that got nothing are empty files. Raises UserError."""
    files = [directory / f"{name}.jsonl" for name in shares.names]
    check_places([source], files)
    others = sorted(file.name for file in directory.glob("*.jsonl") if file not in files)
    if others:
        raise UserError(
            f"{directory} holds {others[0]}, which is no part of this split: a question may be there too. Choose another --out."
        )
    asked = [QA(item.question.text, item.question.answers) for item in open_trajectories(source)]
    result = split(asked, shares, seed=seed, threshold=threshold, by_answers=by_answers)
    with ExitStack() as stack:
        parts = [stack.enter_context(Lines(file)) for file in files]
        for row, item in _numbered(source, len(asked)):
            parts[result.parts[row]].add(encode_trajectory(item))
    return [Part(*one) for one in zip(shares.names, (part.count for part in parts), result.questions, strict=True)]
