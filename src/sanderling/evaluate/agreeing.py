"""Where judges of a run differ: its decisive judge against the second one, and against a person. Computes no verdict.

What a person has judged is in neither judge's favour: their word is compared with what the judge had said before.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.evaluate.agreement import AgreementFigures, Pair, agreement_of
from sanderling.evaluate.judged import PUBLISHED, JudgedAttempt
from sanderling.evaluate.rows import AttemptRow, Key
from sanderling.judge.by_hand import plain
from sanderling.judge.verdict import Code
from sanderling.runs.files import replace_file

_SEED = 0


@dataclass(frozen=True)
class Comparison:
    """Two who judged the same attempts."""

    first: str
    second: str
    figures: AgreementFigures
    differing: tuple[JudgedAttempt, ...]


def comparisons(judged: Sequence[JudgedAttempt], judge: str, second: str) -> list[Comparison]:
    """The judge and the second judge, those who made the attempts, a person; those of them that both spoke."""
    found: list[Comparison] = []
    if second:
        found.append(_comparison(judge, second, [(one, _word(one), one.second) for one in judged]))
    if any(one.published is not None for one in judged):
        found.append(_comparison(judge, PUBLISHED, [(one, _word(one), one.published) for one in judged]))
    if by_hand := [one for one in judged if one.code is Code.BY_HAND and one.overruled is not None]:
        found.append(
            _comparison(judge, "a person, on what they settled", [(one, one.overruled, one.correct) for one in by_hand])
        )
    return found


def _word(one: JudgedAttempt) -> bool | None:
    """The judge's own."""
    return one.overruled if one.code is Code.BY_HAND else one.correct


def _comparison(first: str, second: str, said: Sequence[tuple[JudgedAttempt, bool | None, bool | None]]) -> Comparison:
    figures = agreement_of((Pair(one.question, a, b) for one, a, b in said), seed=_SEED)
    return Comparison(first, second, figures, tuple(one for one, a, b in said if None not in (a, b) and a is not b))


def write_to_settle(path: Path, attempts: Sequence[JudgedAttempt], rows: Mapping[Key, AttemptRow]) -> int:
    """``question,answer,correct,note`` for a person to fill in, each answer once; returns how many. Raises UserError."""
    lines: dict[tuple[str, str], str] = {}
    for one in attempts:
        answer = rows[one.key].answer
        if one.code is not Code.BY_HAND and answer is not None and answer.strip():
            lines.setdefault((one.question, plain(answer)), plain(" | ".join(filter(None, (one.reason, one.second_reason)))))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("question", "answer", "correct", "note"))
    writer.writerows((question, answer, "", note) for (question, answer), note in lines.items())
    replace_file(path, text.getvalue(), private=True)
    return len(lines)
