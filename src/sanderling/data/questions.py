"""Files of questions: written as one question a line; read in any layout that can be imported."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Question, decode_record, encode_record
from sanderling.runs.files import replace_file


def write_questions(path: Path, questions: Iterable[Question], *, private: bool = False) -> int:
    """Write a file anew, whole or not at all; returns how many there are. ``private``: for its owner only."""
    lines = [encode_record(question) for question in questions]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"".join(line + b"\n" for line in lines), private=private)
    return len(lines)


def require_distinct(questions: Iterable[Question]) -> None:
    """Raise UserError where two questions have one id."""
    for id, count in Counter(question.id for question in questions).items():
        if count > 1:
            raise UserError(f"{count} questions have the id {id!r}: give each its own, or remove the copies.")


def read_questions(path: Path, *, whole: bool = False) -> list[Question]:
    """The questions of a file or folder, in order; of trajectories, what they were asked, each once.

    In a file of our own every line must be a question; of other layouts what cannot be read is left out with a warning.
    ``whole``: no entry may be left out of those either. Raises UserError where one is, or when there is no question.
    """
    if not path.is_dir() and _is_own(path):
        return list(_own(path))
    from sanderling.data.importing import Import, warn_of_left_out  # thousands of lines that our own files do not need

    asked: list[Question] = []
    of_trajectories: dict[str, Question] = {}
    unread: list[str] = []
    reading = Import(path, on_unread=lambda id, value, code, entries: unread.append(id))
    for found in reading:
        if isinstance(found, Question):
            asked.append(found)
        elif found.question.text:
            of_trajectories.setdefault(found.question.id, found.question)
    if not asked and not of_trajectories:
        raise UserError(f"{path} holds no question: give a file of questions.")
    if whole and reading.report.unread:
        name, _, index = unread[0].rpartition("#")
        raise UserError(
            f"{reading.report.unread:,} of the {reading.report.entries:,} entries of {path} cannot be read as questions, first "
            f"entry {int(index) + 1:,} of {name}: mend or remove them; sanderling data import {path} --questions FILE says why "
            "of each."
        )
    warn_of_left_out(path, reading.report)
    return asked or list(of_trajectories.values())


def _is_own(path: Path) -> bool:
    """Whether a file's first line is one of ours; an empty file may become one."""
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
        value = decode_record(first) if first else {"id": "", "text": ""}
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    except ValueError:
        return False  # another layout, or no JSON lines at all
    return isinstance(value, dict) and {"id", "text"} <= set(value)


def _own(path: Path) -> Iterator[Question]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    yield Question.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                told = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".lstrip(": ")
                raise UserError(f"Line {number} of {path} is no question ({told}): mend or remove it.") from error
