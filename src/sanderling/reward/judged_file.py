"""A file of trajectories judged into another one, with a report beside it.

Beside ``OUT`` stand ``OUT.verdicts.jsonl`` (each verdict as it is given: what a killed run goes on with) and ``OUT.judge.json``
(the report). ``OUT`` itself appears whole, in the order of its source, when every trajectory had its turn; where a verdict
could not be had it says why, and the next run asks for that one again. Knows no model and no layout of the source.
"""

import asyncio
import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sanderling.errors import UserError
from sanderling.files import replace_file
from sanderling.reward.agreement import Agreement, agreement
from sanderling.reward.judge import Judge
from sanderling.reward.judging import Judged, VerdictBook, judge_stream
from sanderling.reward.verdict import Code, Ruling, verdict_of
from sanderling.trajectory.record import Trajectory
from sanderling.trajectory.writing import write_trajectories

_YES, _NO = frozenset({"1", "true", "yes", "correct"}), frozenset({"0", "false", "no", "incorrect"})
_EXAMPLES = 3


class Keep(StrEnum):
    """Which trajectories are written."""

    ALL = "all"
    CORRECT = "correct"


@dataclass
class JudgeReport:
    """What came of judging a file."""

    judge: str
    trajectories: int = 0
    written: int = 0
    rulings: Counter[Ruling] = field(default_factory=Counter)
    codes: Counter[Code] = field(default_factory=Counter)
    examples: dict[Code, list[str]] = field(default_factory=dict)
    """Ids, for each code but a plain verdict."""
    asked: int = 0
    """Verdicts that were made in this run."""
    tokens: int = 0
    """Of all verdicts in the file, whenever they were made; trajectories that share a verdict share its tokens."""
    cost: float = 0.0
    earlier: Counter[tuple[bool | None, bool | None]] = field(default_factory=Counter, repr=False)
    """The verdict that a trajectory came with, and this one; how often."""
    seen: set[str] = field(default_factory=set, repr=False)
    """Digests of those that a model judged."""
    unused_by_hand: list[str] = field(default_factory=list)
    """Ids that a person gave a verdict on and no trajectory has."""

    def add(self, judged: Judged, before: bool | None) -> None:
        """Count one."""
        verdict = judged.verdict
        self.trajectories += 1
        self.rulings[verdict.ruling] += 1
        self.codes[verdict.code] += 1
        self.asked += judged.fresh
        if before is not None:
            self.earlier[before, verdict.correct] += 1
        if verdict.code is not Code.JUDGED and len(ids := self.examples.setdefault(verdict.code, [])) < _EXAMPLES:
            ids.append(judged.trajectory.id)
        if (verdict.tokens or verdict.cost) and judged.of not in self.seen:
            self.seen.add(judged.of)
            self.tokens += verdict.tokens
            self.cost += verdict.cost

    @property
    def open(self) -> int:
        """Verdicts that another run may still get."""
        return self.codes[Code.OUTAGE] + self.codes[Code.BUDGET]

    def as_json(self) -> dict[str, Any]:
        """For the file beside the output."""
        found: dict[str, Any] = {
            "judge": self.judge,
            "trajectories": self.trajectories,
            "written": self.written,
            **{ruling.value: self.rulings[ruling] for ruling in Ruling},
            "codes": {code.value: count for code, count in sorted(self.codes.items())},
            "examples": {code.value: ids for code, ids in sorted(self.examples.items())},
            "asked": self.asked,
            "tokens": self.tokens,
            "cost": self.cost,
            "unused_by_hand": self.unused_by_hand,
        }
        if self.earlier:
            found["agreement_with_earlier_verdicts"] = _figures(agreement(self.earlier.elements()))
        return found


def judge_file(
    source: Iterable[Trajectory],
    out: Path,
    judge: Judge,
    *,
    keep: Keep = Keep.ALL,
    by_hand: Mapping[str, bool] | None = None,
    concurrency: int = 8,
    on_progress: Callable[[JudgeReport], None] | None = None,
    runner: asyncio.Runner | None = None,
) -> JudgeReport:
    """Judge a stream into a file and write the report. Raises UserError for places that cannot be written.

    ``runner``: the event loop that the judge's connections belong to.
    """
    if out.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"{out} is neither .jsonl nor .parquet: end its name in one of these.")
    report = JudgeReport(judge.name)
    book = VerdictBook(out.with_name(out.name + ".verdicts.jsonl"))
    earlier: dict[int, bool | None] = {}
    missing = dict.fromkeys(by_hand or {})

    def noted() -> Iterator[Trajectory]:
        for number, trajectory in enumerate(source):
            earlier[number] = verdict_of(trajectory)
            yield trajectory

    def judged() -> Iterator[Trajectory]:
        stream = judge_stream(noted(), judge, concurrency=concurrency, book=book, by_hand=by_hand, runner=runner)
        for number, found in enumerate(stream):
            report.add(found, earlier.pop(number))
            missing.pop(found.trajectory.id, None)
            if on_progress is not None:
                on_progress(report)
            if keep is Keep.ALL or found.verdict.correct:
                yield found.trajectory

    report.written = write_trajectories(out, judged())
    report.unused_by_hand = list(missing)
    told = json.dumps(report.as_json(), ensure_ascii=False, indent=1)
    replace_file(out.with_name(out.name + ".judge.json"), told.encode("utf-8", "replace") + b"\n")
    return report


def read_verdicts(path: Path) -> dict[str, bool]:
    """A person's verdicts: lines of ``id,correct``, with or without that heading. Raises UserError."""
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"Cannot read {path} ({error}): give a CSV file of id,correct in UTF-8.") from error
    found: dict[str, bool] = {}
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and cells == ["id", "correct"]):
            continue
        word = cells[1].casefold() if len(cells) == 2 else ""
        if word not in _YES | _NO:
            raise UserError(f"Line {number} of {path} is not id,correct: write for example q17-0,yes.")
        if found.setdefault(cells[0], word in _YES) is not (word in _YES):
            raise UserError(f"{path} says both yes and no of {cells[0]!r}: remove one of the lines.")
    return found


def _figures(found: Agreement) -> dict[str, Any]:
    return {**asdict(found), "scored": found.scored, "agreed": found.agreed, "kappa": found.kappa}
