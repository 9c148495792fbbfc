"""Files of questions: one question a line, as JSON. Knows no way of making them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from sanderling.errors import UserError
from sanderling.files import replace_file
from sanderling.trajectory.codec import encode_record
from sanderling.trajectory.record import Question


def write_questions(path: Path, questions: Iterable[Question]) -> int:
    """Write a file anew, whole or not at all; returns how many there are."""
    lines = [encode_record(question) for question in questions]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"".join(line + b"\n" for line in lines))
    return len(lines)


def read_questions(path: Path) -> list[Question]:
    """The questions of a file. Raises UserError when it cannot be read or a line is no question."""
    return list(_questions(path))


def _questions(path: Path) -> Iterator[Question]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Question.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            told = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".lstrip(": ")
            raise UserError(f"Line {number} of {path} is no question ({told}): mend or remove it.") from error
