"""A book of verdicts: what was judged once is not judged again, and many trajectories go through one judge.

Trajectories that agree in question, accepted answers and the agent's own answer have one verdict. With a book, verdicts outlive
the process: killed at any moment, the next run asks only for what is not in there. Unscored verdicts are not kept, so the next
run tries again. A book's keys hold all that a verdict depends on, so that one book serves any judge and any file.
"""

import asyncio
import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pydantic import Field, TypeAdapter

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import code_of
from sanderling.core.profiles import one_line
from sanderling.core.record import Trajectory, encode_record
from sanderling.judge.opening import JudgeConfig
from sanderling.judge.verdict import BY_HAND, META_KEY, Code, Judge, Ruling, Verdict, decided, rule_on, with_verdict
from sanderling.policy.budget import BudgetConfig
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import check_held, check_name, write_trajectories
from sanderling.runs.run import RECORDS, Run, Table, beside, reading
from sanderling.runs.work import in_parallel

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
            text = path.read_text(encoding="utf-8-sig")
            first = text.partition("\n")[0]
            with io.StringIO(text, newline="") as file:
                reader = csv.reader(file, strict=True, delimiter=";" if first.count(";") > first.count(",") else ",")
                rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"Cannot read {path} ({error}): give a CSV file of id,correct in UTF-8.") from error
        heading = tuple(cell.casefold() for cell in rows[0][1]) if rows else ()
        by_answer = heading in (_ANSWERS, (*_ANSWERS, "note"))
        lines: dict[Name, bool] = {}
        for number, cells in rows[1:] if by_answer or heading == _IDS else rows:
            if by_answer and len(cells) in (len(_ANSWERS), len(heading)) and cells[0] and cells[1]:
                name = one_line(cells[0]), one_line(cells[1])
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
        if not lines and not by_answer:  # a sheet with nothing to settle is one
            raise UserError(f"{path} holds no verdict: write for example a line q17-0,yes.")
        return cls(lines)

    def lines_about(self, trajectory: Trajectory) -> list[Name]:
        """The lines that it matches, the closest first: that one decides."""
        names: list[Name] = [(trajectory.id,)]
        if trajectory.answer is not None:
            meant = (trajectory.id, trajectory.question.id, trajectory.question.text)
            names += [(one_line(question), one_line(trajectory.answer)) for question in meant]
        return [name for name in names if name in self.lines]

    def verdict(self, trajectory: Trajectory) -> bool | None:
        """What was said of it; None: nothing."""
        about = self.lines_about(trajectory)
        return self.lines[about[0]] if about else None

    def unused(self, used: Iterable[Name]) -> list[str]:
        """Lines that match none of what was seen, each in words."""
        seen = set(used)
        return [": ".join(filter(None, name)) for name in self.lines if name not in seen]


_VERDICT = TypeAdapter(Verdict)


class VerdictBook:
    """Scored verdicts of a run, under the digest of what was judged and by whom; the same is never asked twice at a time."""

    def __init__(self, kept: Table) -> None:
        self._kept = kept
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def find(self, key: str) -> Verdict | None:
        """The verdict as it was when it was made; None: not judged."""
        found = self._kept.get(key)
        return None if found is None else _VERDICT.validate_python(found)

    async def verdict(self, key: str, ask: Callable[[], Awaitable[Verdict]]) -> tuple[Verdict, bool]:
        """The verdict, kept if it is scored, and whether it was asked for here and now. Raises what ``ask`` raises."""
        async with self._under_way.setdefault(key, asyncio.Lock()):
            if (known := self.find(key)) is not None:
                return known, False
            verdict = await ask()
            if verdict.ruling is not Ruling.UNSCORED:
                # A rule's verdict is free: it need not survive a loss of power, which costs a disk's sync for each.
                self._kept.put(key, asdict(verdict), durable=bool(verdict.model))
            return verdict, True


def key_of(trajectory: Trajectory, judge: Judge) -> str:
    """What a verdict rests on: the question, its accepted answers, the agent's answer, who judges, and where its models are."""
    question = trajectory.question
    asked: list[object] = [judge.name, question.text, list(question.answers), trajectory.answer, trajectory.ending]
    if any(judge.places):
        asked.append(list(judge.places))
    asked += code_of([judge.name]).values()  # a rule of a person's own may have been mended
    return hashlib.sha256(encode_record(asked)).hexdigest()[:32]


class CachedJudge:
    """A judge with a book, itself a judge: what the book holds is not asked, and costs nothing."""

    def __init__(self, judge: Judge, book: VerdictBook) -> None:
        self._judge, self._book = judge, book
        self.name, self.places = judge.name, judge.places

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The book's verdict, or the judge's, which is then in the book. Raises what the judge raises."""
        verdict, fresh = await self._book.verdict(key_of(trajectory, self._judge), lambda: self._judge(trajectory))
        return verdict if fresh else replace(verdict, remembered=True, cost=0.0)

    def known(self, trajectory: Trajectory) -> Verdict | None:
        """The book's verdict; None: there is none."""
        return self._book.find(key_of(trajectory, self._judge))


# -- of a run that was judged again -------------------------------------------------------------------------------------------

JUDGED = "judged"  # the run's table of what was said last of its attempts, by their ids


def as_last_judged(trajectory: Trajectory, said: Mapping[str, Any] | None) -> Trajectory:
    """The trajectory with what was said of it last (an entry of `JUDGED`), where that is not the verdict that it has."""
    if said is None:
        return trajectory
    if not {"judge", "correct", "ending"} <= said.keys():
        raise UserError(f"The verdict on {trajectory.id} is damaged: restore the run, or judge it again.")
    own = trajectory.meta.get(META_KEY) or {}
    names = {"judge": "", "correct": None, "score": None, "reason": "", "code": Code.JUDGED}  # with what is left out of each
    is_of_another = said["ending"] != trajectory.ending  # of an attempt before it, which met an outage
    if is_of_another or all(said.get(name, usual) == own.get(name, usual) for name, usual in names.items()):
        return trajectory
    found = {name: said[name] for name in names if name in said}
    return trajectory.model_copy(update={"meta": {**trajectory.meta, META_KEY: found}})


def judged_records(directory: Path) -> Iterator[Trajectory]:
    """A run's trajectories, each with what was said of it last. Raises UserError for one that is damaged."""
    with reading(directory) as tables:
        said = tables(JUDGED)[0]
        for table in tables(RECORDS):
            for id in table.keys():  # noqa: SIM118 (a table is no dictionary)
                yield as_last_judged(table.record(id), said.get(id))


# -- a file -----------------------------------------------------------------------------------------------------------------

_BATCH = 16  # trajectories judged together, for each one under way


@dataclass(frozen=True, slots=True)
class Judged:
    """A trajectory with its verdict in ``meta``, and the verdict."""

    trajectory: Trajectory
    verdict: Verdict
    fresh: bool  # the verdict was asked for in this run, for this trajectory
    key: str  # trajectories that agree in it share one verdict


def judge_stream(
    trajectories: Iterable[Trajectory],
    judge: Judge,
    book: VerdictBook,
    *,
    concurrency: int = 8,
    by_hand: ByHand | None = None,
    runner: asyncio.Runner | None = None,
) -> Generator[Judged]:
    """Judge trajectories, at most ``concurrency`` at a time, and yield them all in their order; outside of an event loop.

    ``by_hand``: a person's verdicts, which need no judge. ``runner``: the loop that the judge's connections belong to, if they
    have one already. What the judge raises is raised.
    """

    async def judged(trajectory: Trajectory) -> Judged:
        key = key_of(trajectory, judge)
        correct = by_hand.verdict(trajectory) if by_hand is not None else None
        if correct is not None:
            verdict = decided(correct, "a person said so", Code.BY_HAND)
            return Judged(with_verdict(trajectory, verdict, BY_HAND), verdict, False, key)
        verdict, fresh = await book.verdict(key, lambda: rule_on(trajectory, judge))
        return Judged(with_verdict(trajectory, verdict, judge.name), verdict, fresh, key)

    pending = iter(trajectories)
    with nullcontext(runner) if runner is not None else asyncio.Runner() as loop:
        while batch := list(islice(pending, concurrency * _BATCH)):
            yield from loop.run(in_parallel(judged, batch, concurrency))


class Keep(StrEnum):
    """Which trajectories go on; ``not-wrong``: all but the incorrect."""

    CORRECT = "correct"
    NOT_WRONG = "not-wrong"
    ALL = "all"

    def takes(self, ruling: Ruling | None) -> bool:
        """Whether one with this verdict goes on."""
        wanted = self is Keep.ALL or ruling is Ruling.CORRECT
        return wanted or (self is Keep.NOT_WRONG and ruling is not Ruling.INCORRECT)


class JudgingConfig(Frozen):
    """Settings of ``sanderling data judge``."""

    judge: JudgeConfig = JudgeConfig()
    budget: BudgetConfig = BudgetConfig()
    keep: Keep = Keep.ALL  # which trajectories are written
    concurrency: int = Field(default=8, ge=1)
    """Requests to judging models at a time."""


@dataclass
class JudgeReport:
    """What came of judging many trajectories."""

    judge: str
    trajectories: int = 0
    written: int = 0
    rulings: Counter[Ruling] = field(default_factory=Counter)
    codes: Counter[Code] = field(default_factory=Counter)
    examples: dict[Code, list[str]] = field(default_factory=dict)  # three ids for each code but a plain verdict
    asked: int = 0  # verdicts that were made in this run
    tokens: int = 0  # of all verdicts in the file, whenever they were made; trajectories that share a verdict share its tokens
    cost: float = 0.0
    seen: set[str] = field(default_factory=set)  # keys of those that a model judged
    unused_by_hand: list[str] = field(default_factory=list)  # what a person judged and no trajectory is

    def add(self, judged: Judged) -> None:
        verdict = judged.verdict
        self.trajectories += 1
        self.rulings[verdict.ruling] += 1
        self.codes[verdict.code] += 1
        self.asked += judged.fresh
        if verdict.code is not Code.JUDGED and len(ids := self.examples.setdefault(verdict.code, [])) < 3:
            ids.append(judged.trajectory.id)
        if judged.key not in self.seen and (verdict.tokens or verdict.cost):
            self.seen.add(judged.key)
            self.tokens += verdict.tokens
            self.cost += verdict.cost

    @property
    def open(self) -> int:
        """Verdicts that another run may still get."""
        return self.codes[Code.OUTAGE] + self.codes[Code.BUDGET]

    def as_json(self) -> dict[str, Any]:
        """For the file beside the output."""
        names = ("judge", "trajectories", "written", "asked", "tokens", "cost", "unused_by_hand")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found |= {ruling.value: self.rulings[ruling] for ruling in Ruling}
        return found | {"codes": dict(sorted(self.codes.items())), "examples": dict(sorted(self.examples.items()))}


def judge_file(
    source: Iterable[Trajectory],
    out: Path,
    judge: Judge,
    *,
    keep: Keep = Keep.ALL,
    by_hand: ByHand | None = None,
    on_progress: Callable[[JudgeReport], None] | None = None,
    **how: Any,
) -> JudgeReport:
    """Judge a stream into a file, which appears whole, in the order of its source. Raises UserError for unwritable places.

    Beside ``OUT`` stand ``OUT.run``, whose book a killed run goes on with, and ``OUT.judge.json``, the report.
    Where a verdict could not be had it says why, and the next run asks for that one again. ``how``: see :func:`judge_stream`.
    """
    check_name(out)
    check_held(out)
    report, by_hand = JudgeReport(judge.name), by_hand or ByHand()
    used: set[Name] = set()

    def judged(book: VerdictBook) -> Iterator[Trajectory]:
        for found in judge_stream(source, judge, book, by_hand=by_hand, **how):
            report.add(found)
            used.update(by_hand.lines_about(found.trajectory))
            if on_progress is not None:
                on_progress(report)
            if keep.takes(found.verdict.ruling):
                yield found.trajectory

    with Run(beside(out)) as run:
        report.written = write_trajectories(out, judged(VerdictBook(run.table("verdicts"))))
    report.unused_by_hand = by_hand.unused(used)
    text = json.dumps(report.as_json(), ensure_ascii=False, indent=1)
    replace_file(out.with_name(out.name + ".judge.json"), text.encode("utf-8", "replace") + b"\n")
    return report
