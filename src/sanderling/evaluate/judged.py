"""Who was right, attempt by attempt: ``judged.jsonl`` in a run's directory, derived from records, verdicts and a person's word.

A person's verdict stands before every judge's. The second judge decides nothing: it is there to be compared with. Knows no
judge but by name.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import encode_record
from sanderling.core.types import Ending
from sanderling.evaluate.result import Record
from sanderling.evaluate.rows import Key
from sanderling.judge.verdict import Code
from sanderling.runs.jsonl import JsonlLog, write_lines

PUBLISHED = "published"
"""Who spoke where others' own verdicts on what they made are compared with a judge's."""
_BY = "judged_by"


class JudgedAttempt(Record):
    """One attempt and what was said of it."""

    question: str
    attempt: int
    id: str
    """Of its trajectory."""
    ending: Ending | None
    correct: bool | None
    """None: unscored."""
    score: float | None = None
    code: Code = Code.JUDGED
    judge: str
    """Whose word it is: the judge, or ``by hand``."""
    reason: str = ""
    grade: str = ""
    extracted: str | None = None
    confidence: float | None = None
    parts: dict[str, bool] = Field(default_factory=dict[str, bool])
    excessive: tuple[str, ...] = ()
    overruled: bool | None = None
    """What the judge had said before a person did; None: it had not, or no person did."""
    before: dict[str, Any] = Field(default_factory=dict[str, Any])
    """That verdict whole, as `judge.verdict.recorded` gives it."""
    second: bool | None = None
    """The second judge's verdict; None: unscored by it, or there is none."""
    second_reason: str = ""
    published: bool | None = None
    """What those said who made the attempt, where somebody else is the second judge; without one it stands in ``second``."""

    @property
    def key(self) -> Key:
        """Which attempt it is."""
        return self.question, self.attempt


FAILED = frozenset({Code.OUTAGE, Code.UNREADABLE, Code.REFUSED})
"""Why a judge gave no verdict that it may give when it is asked again."""


class JudgedBy(NamedTuple):
    """Whose verdicts a list holds, by name."""

    first: str
    second: str = ""


def write_judged(path: Path, judged: Iterable[JudgedAttempt], by: JudgedBy) -> str:
    """Write them anew, whole or not at all; returns the SHA-256 of what was written. Raises UserError."""
    digest = hashlib.sha256()

    def lines() -> Iterator[bytes]:
        for record in itertools.chain([{_BY: by._asdict()}], (_fields(one) for one in judged)):
            line = encode_record(record)
            digest.update(line + b"\n")
            yield line

    write_lines(path, lines())
    return digest.hexdigest()


def read_judged(path: Path, sha256: str = "") -> list[JudgedAttempt]:
    """Read what :func:`write_judged` wrote; none where there is no file.

    ``sha256``: what a result says of it; another list, whose result a kill prevented, is refused. Raises UserError, also for a
    damaged one.
    """
    try:
        if sha256 and path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise UserError(f"{path} is newer than the result beside it: run sanderling eval judge {path.parent} to its end.")
        return [JudgedAttempt.model_validate(line) for line in JsonlLog(path) if _BY not in line]
    except ValidationError as error:
        raise UserError(f"{path} is no list of judged attempts: remove it, and run sanderling eval judge.") from error


def judged_by(path: Path) -> JudgedBy | None:
    """Whose verdicts they are; None: there is no list."""
    head = next(iter(JsonlLog(path)), {})
    return JudgedBy(**head[_BY]) if _BY in head else None


def _fields(one: JudgedAttempt) -> dict[str, Any]:
    return one.model_dump(mode="json", exclude_defaults=True)
