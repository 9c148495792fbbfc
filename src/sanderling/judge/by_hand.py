"""A person's verdicts, which outweigh every judge's: a CSV file of ids, or of questions with answers.

Two layouts. ``id,correct`` names trajectories, with or without that heading. ``question,answer,correct``, with that heading
and perhaps a fourth column ``note``, names a question by its id or its text (or a trajectory by its id) and an answer by its
text: one line covers each attempt that answers so, in this run and any other. With a column ``note`` a line without a word is
still to be settled, and decides nothing. A line about a trajectory's id goes before one about its answer.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory

_YES, _NO = ("1", "true", "yes", "correct"), ("0", "false", "no", "incorrect")
_IDS = ("id", "correct")
_ANSWERS = ("question", "answer", "correct")

Name = tuple[str, ...]  # what a line is about: an id alone, or a question and an answer


@dataclass(frozen=True)
class ByHand:
    """A person's verdicts, such as ``ByHand({("q1-0",): True, ("q1", "Oslo"): False})``."""

    lines: Mapping[Name, bool] = field(default_factory=dict[Name, bool])

    @classmethod
    def read(cls, path: Path) -> "ByHand":
        """From a file. Raises UserError for lines that are none, and for two that contradict each other."""
        try:
            with io.StringIO(path.read_text(encoding="utf-8-sig"), newline="") as file:
                reader = csv.reader(file, strict=True)
                rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"Cannot read {path} ({error}): give a CSV file of id,correct in UTF-8.") from error
        heading = tuple(cell.casefold() for cell in rows[0][1]) if rows else ()
        by_answer = heading in (_ANSWERS, (*_ANSWERS, "note"))
        lines: dict[Name, bool] = {}
        for number, cells in rows[1:] if by_answer or heading == _IDS else rows:
            if by_answer and len(cells) in (len(_ANSWERS), len(heading)) and cells[0] and cells[1]:
                name = plain(cells[0]), plain(cells[1])
            elif not by_answer and len(cells) == len(_IDS) and cells[0]:
                name = (cells[0],)
            else:
                wanted, example = (_ANSWERS, "Oslo?,Bergen,no") if by_answer else (_IDS, "q17-0,yes")
                raise UserError(f"Line {number} of {path} is not {','.join(wanted)}: write for example {example}.")
            word = cells[len(name)]
            if not word and len(heading) > len(_ANSWERS):
                continue  # still to be settled
            if word.casefold() not in (*_YES, *_NO):
                raise UserError(f"Line {number} of {path} ends in {word!r}, which is no verdict: write yes or no.")
            correct = word.casefold() in _YES
            if lines.setdefault(name, correct) is not correct:
                raise UserError(f"{path} says both yes and no of {' '.join(name)!r}: remove one of the lines.")
        return cls(lines)

    def lines_about(self, trajectory: Trajectory) -> list[Name]:
        """The lines that it matches, the closest first: that one decides."""
        names: list[Name] = [(trajectory.id,)]
        if trajectory.answer is not None:
            meant = (trajectory.id, trajectory.question.id, trajectory.question.text)
            names += [(plain(question), plain(trajectory.answer)) for question in meant]
        return [name for name in names if name in self.lines]

    def verdict(self, trajectory: Trajectory) -> bool | None:
        """What was said of it; None: nothing."""
        about = self.lines_about(trajectory)
        return self.lines[about[0]] if about else None

    def unused(self, used: Iterable[Name]) -> list[str]:
        """Lines that match none of what was seen, each in words."""
        seen = set(used)
        return [": ".join(name) for name in self.lines if name not in seen]


def plain(text: str) -> str:
    """A text as lines and answers are compared: blanks count as one."""
    return " ".join(text.split())
