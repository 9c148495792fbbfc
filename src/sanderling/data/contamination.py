"""Questions that a benchmark asks as well: found before training, with both texts to look at.

Three kinds, strongest first: *exact* (the same words), *near* (shingles similar to 0.7), *contained* (a run of 13 words of the
benchmark's question stands in ours, as the field checks; a shorter question is looked for whole, from 6 words on, or 10
characters of scripts without spaces). A run that more than ten *different* questions share is phrasing and counts for nothing.
Paraphrases and translations are not found.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, encode_record
from sanderling.core.text import question_tokens
from sanderling.data.dedupe import NearIndex, accepted
from sanderling.data.importing import Import
from sanderling.data.questions import read_questions
from sanderling.runs.jsonl import Lines

_RUN = 13
_FEWEST_WORDS, _FEWEST_CHARACTERS = 6, 10
_COMMON = 10


class Kind(StrEnum):
    """How a question was recognised, the strongest first."""

    EXACT = "exact"
    NEAR = "near"
    CONTAINED = "contained"


@dataclass(frozen=True)
class Hit:
    """A question that a benchmark asks as well."""

    id: str
    kind: Kind
    question: str
    benchmark: str
    benchmark_question: str
    similarity: float | None
    run: str
    same_answer: bool | None  # whether an accepted answer is in common; None when either knows none


class Benchmarks:
    """Questions that shall not be trained on."""

    def __init__(self) -> None:
        self._questions: list[tuple[str, Question]] = []
        self._exact: dict[str, int] = {}
        self._index = NearIndex()
        # By length: runs of words, and the different questions that hold them (no more than show that one is phrasing).
        self._runs: dict[int, dict[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._questions)

    def add(self, name: str, questions: Iterable[Question]) -> None:
        for place, question in enumerate(questions):
            number, words = len(self._questions), question_tokens(question.text)
            text = " ".join(words)
            self._questions.append((f"{name}#{place}", question))
            self._index.add(text)
            if not words or self._exact.setdefault(text, number) != number:
                continue
            size = min(_RUN, len(words))
            if size < _RUN:  # looked for whole, if it has enough words to tell it
                unspaced = 2 * sum(len(word) == 1 and not word.isascii() for word in words) > len(words)
                if size < (_FEWEST_CHARACTERS if unspaced else _FEWEST_WORDS):
                    continue
            for run in set(_runs(words, size)):
                holders = self._runs.setdefault(size, {}).setdefault(run, [])
                if len(holders) <= _COMMON:
                    holders.append(number)

    def check(self, id: str, question: Question) -> Hit | None:
        """The strongest sign that a benchmark asks this; None without any."""
        words, own = question_tokens(question.text), accepted(question.answers)

        def hit(kind: Kind, number: int, similarity: float | None = None, run: str = "") -> Hit:
            name, theirs = self._questions[number]
            known = accepted(theirs.answers)
            same = bool(own & known) if own and known else None
            return Hit(id, kind, question.text, name, theirs.text, similarity, run, same)

        text = " ".join(words)
        if text in self._exact:
            return hit(Kind.EXACT, self._exact[text], 1.0)
        near = self._index.near(text)
        if near:
            return hit(Kind.NEAR, *max(near, key=lambda found: (found[1], -found[0])))
        for size in sorted(self._runs, reverse=True):
            for run in _runs(words, size):
                holders = self._runs[size].get(run, [])
                if 0 < len(holders) <= _COMMON:
                    return hit(Kind.CONTAINED, holders[0], run=run)
        return None


def _runs(words: list[str], size: int) -> Iterator[str]:
    return (" ".join(words[start : start + size]) for start in range(len(words) - size + 1))


class Checked(NamedTuple):
    """What was found in a file."""

    benchmarks: int
    rows: int
    hits: tuple[Hit, ...]

    def kinds(self) -> str:
        """How many there are of each kind, in words."""
        counts = Counter(hit.kind for hit in self.hits)
        return ", ".join(f"{counts[kind]:,} {kind}" for kind in Kind if counts[kind])


def check_file(source: Path, against: Sequence[Path], *, out: Path | None = None) -> Checked:
    """Check trajectories or questions; what no benchmark asks goes ``out``. Raises UserError."""
    known = Benchmarks()
    for path in against:
        known.add(path.stem, read_questions(path))
    if not source.exists():
        raise UserError(f"There is no file {source}: give trajectories or questions.")
    is_empty = source.is_file() and not source.stat().st_size  # a step that kept nothing leaves an empty file
    hits, rows = list[Hit](), 0
    with ExitStack() as stack:
        clean = stack.enter_context(Lines(out)) if out is not None else None
        for row in () if is_empty else Import(source):
            rows += 1
            hit = known.check(row.id, row.question if isinstance(row, Trajectory) else row)
            if hit is not None:
                hits.append(hit)
            elif clean is not None:
                clean.add(encode_record(row))
    return Checked(len(known), rows, tuple(hits))
