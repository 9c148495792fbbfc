"""What a person has judged in a run: ``by_hand.csv`` in its directory, which later verdicts are added to.

A line about an attempt's id is bound to the answer that the attempt had when the line came, so that another answer, made in a
later round, is not judged by it; an attempt without an answer cannot be judged by hand. Knows no judge.
"""

import csv
import io
from pathlib import Path

from sanderling.evaluate.run_directory import RunDirectory
from sanderling.judge.by_hand import ByHand, plain
from sanderling.runs.files import replace_file

_HEADING = ("question", "answer", "correct", "note")


def by_hand_of(directory: RunDirectory, given: Path | None) -> ByHand:
    """A person's verdicts: those that the run has, and those of the file given, which stand before them. Raises UserError.

    Lines about no attempt that has an answer stay in what is returned, to be told, and apply to nothing.
    """
    held = ByHand.read(directory.by_hand_file) if directory.by_hand_file.exists() else ByHand()
    held.require_clear(directory.questions())
    if given is None:
        return held
    told = ByHand.read(given)
    told.require_clear(directory.questions())
    answers = {row.id: row.answer for row in directory.attempts.rows()}
    found = dict(held.said)
    for (what, *answer), correct in told.said.items():
        found[what, answer[0] if answer else plain(answers.get(what) or "")] = correct
    merged = ByHand(found)
    _write(directory.by_hand_file, merged)
    return merged


def unused_by_hand(directory: RunDirectory, by_hand: ByHand) -> list[str]:
    """What a person gave a verdict on and no attempt of the run is, in words."""
    if not by_hand.said:
        return []
    questions = {one.id: one for one in directory.questions()}
    known = (row for row in directory.attempts.rows() if row.episode.question in questions)
    cases = (row.case(questions[row.episode.question]) for row in known)
    return by_hand.unused({name for case in cases for name in by_hand.lines_about(case)})


def _write(path: Path, by_hand: ByHand) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADING)
    for (question, answer), correct in by_hand.said.items():
        if answer:
            writer.writerow((question, answer, "yes" if correct else "no", ""))
    replace_file(path, text.getvalue(), durable=True, private=True)
