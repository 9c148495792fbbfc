"""A file of trajectories judged into another one, with a report beside it.

Beside ``OUT`` stand ``OUT.verdicts.jsonl`` (each verdict as it is given: what a killed run goes on with) and ``OUT.judge.json``
(the report). ``OUT`` itself appears whole, in the order of its source, when every trajectory had its turn; where a verdict
could not be had it says why, and the next run asks for that one again. Knows no model and no layout of the source.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.judge.agreement import Agreement, agreement
from sanderling.judge.by_hand import ByHand, Name
from sanderling.judge.judge import Judge
from sanderling.judge.judging import Judged, VerdictBook, judge_stream
from sanderling.judge.verdict import Code, Ruling, verdict_of
from sanderling.runs.files import replace_file
from sanderling.runs.writing import write_trajectories

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
    grades: Counter[str] = field(default_factory=Counter)
    """Of judges whose form has more than right and wrong."""
    scores: float = 0.0
    """Sum over the scored ones."""
    is_graded: bool = False
    """Some score is neither 0 nor 1, so that their mean is more than the share of correct ones."""
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
    """What a person gave a verdict on and no trajectory is: ids, or questions with answers."""

    def add(self, judged: Judged, before: bool | None) -> None:
        """Count one."""
        verdict = judged.verdict
        self.trajectories += 1
        self.rulings[verdict.ruling] += 1
        self.codes[verdict.code] += 1
        self.asked += judged.fresh
        self.scores += verdict.score or 0.0
        self.is_graded |= verdict.score not in (None, 0.0, 1.0)
        if verdict.grade:
            self.grades[verdict.grade] += 1
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

    @property
    def mean_score(self) -> float | None:
        """Over the scored ones."""
        scored = self.trajectories - self.rulings[Ruling.UNSCORED]
        return self.scores / scored if scored else None

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
        if self.grades:
            found["grades"] = dict(sorted(self.grades.items()))
        if self.is_graded:
            found["mean_score"] = self.mean_score
        if self.earlier:
            found["agreement_with_earlier_verdicts"] = _figures(agreement(self.earlier.elements()))
        return found


def judge_file(
    source: Iterable[Trajectory],
    out: Path,
    judge: Judge,
    *,
    keep: Keep = Keep.ALL,
    by_hand: ByHand | None = None,
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
    by_hand = by_hand or ByHand()
    used: set[Name] = set()

    def noted() -> Iterator[Trajectory]:
        for number, trajectory in enumerate(source):
            earlier[number] = verdict_of(trajectory)
            yield trajectory

    def judged() -> Iterator[Trajectory]:
        stream = judge_stream(noted(), judge, concurrency=concurrency, book=book, by_hand=by_hand, runner=runner)
        for number, found in enumerate(stream):
            report.add(found, earlier.pop(number))
            used.update(by_hand.lines_about(found.trajectory))
            if on_progress is not None:
                on_progress(report)
            if keep is Keep.ALL or found.verdict.correct:
                yield found.trajectory

    report.written = write_trajectories(out, judged())
    report.unused_by_hand = by_hand.unused(used)
    told = json.dumps(report.as_json(), ensure_ascii=False, indent=1)
    replace_file(out.with_name(out.name + ".judge.json"), told.encode("utf-8", "replace") + b"\n")
    return report


def _figures(found: Agreement) -> dict[str, Any]:
    return {**asdict(found), "scored": found.scored, "agreed": found.agreed, "kappa": found.kappa}
