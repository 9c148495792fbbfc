"""A book of verdicts: what was judged once is not judged again, and many trajectories go through one judge.

Trajectories that agree in question, accepted answers and the agent's own answer have one verdict. With a book, verdicts outlive
the process: killed at any moment, the next run asks only for what is not in there. Unscored verdicts are not kept, so the next
run tries again. A book's keys hold all that a verdict depends on, so that one book serves any judge and any file.
"""

import asyncio
import hashlib
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_record
from sanderling.judge.by_hand import ByHand, Name
from sanderling.judge.verdict import BY_HAND, Code, Judge, Ruling, Verdict, decided, rule_on, verdict_of, with_verdict
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import write_trajectories
from sanderling.runs.run import Run, Table, beside

_VERDICT = TypeAdapter(Verdict)


class VerdictBook:
    """Scored verdicts of a run, under the digest of what was judged and by whom; what is under way is asked once."""

    def __init__(self, kept: Table) -> None:
        self._kept = kept
        self._under_way: dict[str, asyncio.Future[Verdict]] = {}

    def find(self, key: str) -> Verdict | None:
        """The verdict as it was when it was made; None: not judged. Raises UserError for something else than a verdict."""
        try:
            found = self._kept.get(key)
            return None if found is None else _VERDICT.validate_python(found)
        except ValidationError as error:
            raise UserError(f"{self._kept.path} holds something else than verdicts: move it away, and judge anew.") from error

    async def verdict(self, key: str, ask: Callable[[], Awaitable[Verdict]]) -> tuple[Verdict, bool]:
        """The verdict, kept if it is scored, and whether it was asked for here and now. Raises what ``ask`` raises."""
        while (known := self.find(key)) is None and (coming := self._under_way.get(key)) is not None:
            await asyncio.wait([coming])
            if not coming.cancelled():  # or whoever asked was stopped, and another one asks
                known = coming.result()
                break
        if known is not None:
            return known, False
        coming = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            verdict = await ask()
            if verdict.ruling is not Ruling.UNSCORED:
                self._kept.put(key, asdict(verdict))
            coming.set_result(verdict)
        finally:
            del self._under_way[key]
            coming.cancel()
        return verdict, True


def key_of(trajectory: Trajectory, judge: Judge) -> str:
    """What a verdict rests on: the question, its accepted answers, the agent's answer, who judges, and where its models are."""
    question = trajectory.question
    asked: list[object] = [judge.name, question.text, list(question.answers), trajectory.answer, trajectory.ending]
    if any(judge.places):
        asked.append(list(judge.places))
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


_AHEAD = 4  # trajectories read ahead for each one that is being judged, so that a slow verdict holds nobody up


@dataclass(frozen=True, slots=True)
class Judged:
    """A trajectory with its verdict in ``meta``, and the verdict."""

    trajectory: Trajectory
    verdict: Verdict
    fresh: bool  # the verdict was asked for in this run, for this trajectory
    key: str  # trajectories that agree in it share one verdict
    before: bool | None  # the verdict that it came with


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
    turns = asyncio.Semaphore(concurrency)
    queue: deque[asyncio.Task[Judged]] = deque()
    under_way: dict[str, asyncio.Task[tuple[Verdict, bool]]] = {}  # until the first trajectory of its key has gone out

    async def judged(trajectory: Trajectory) -> Judged:
        async def ask() -> Verdict:
            async with turns:
                return await rule_on(trajectory, judge)

        key, name, before = key_of(trajectory, judge), judge.name, verdict_of(trajectory)
        correct = by_hand.verdict(trajectory) if by_hand is not None else None
        if correct is None:
            is_first = key not in under_way
            if is_first:
                under_way[key] = asyncio.create_task(book.verdict(key, ask))
            verdict, fresh = await asyncio.shield(under_way[key])
            fresh = fresh and is_first
        else:
            verdict, fresh, name = decided(correct, "a person said so", Code.BY_HAND), False, BY_HAND
        return Judged(with_verdict(trajectory, verdict, name), verdict, fresh, key, before)

    async def first() -> Judged:
        found = await queue.popleft()
        under_way.pop(found.key, None)
        return found

    async def stop() -> None:
        tasks = [*queue, *under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with nullcontext(runner) if runner is not None else asyncio.Runner() as loop:
        try:
            for trajectory in trajectories:
                queue.append(loop.get_loop().create_task(judged(trajectory)))
                if len(queue) > concurrency * _AHEAD:
                    yield loop.run(first())
            while queue:
                yield loop.run(first())
        finally:
            loop.run(stop())


@dataclass(frozen=True)
class Agreement:
    """Two judges' verdicts on the same trajectories; what one of the two could not tell is never a disagreement."""

    both: int  # both: correct
    neither: int  # both: incorrect
    first_only: int
    second_only: int
    first_unscored: int  # the first gave no verdict; the second may have
    second_unscored: int  # the first gave one, the second did not
    scored: int  # both have a verdict
    agreed: float | None  # share of those with the same verdict
    kappa: float | None  # None where it is not defined: nothing scored by both, or both always of the one same verdict


def agreement(verdicts: Iterable[tuple[bool | None, bool | None]]) -> Agreement:
    """Count the pairs of two judges' verdicts.

    Cohen (1960): kappa = (observed - expected) / (1 - expected), where expected is the agreement of two judges who decide right
    and wrong as often as these, but independently.
    """
    counts = Counter(verdicts)
    both, neither, first_only, second_only = (
        counts[pair] for pair in ((True, True), (False, False), (True, False), (False, True))
    )
    scored = both + neither + first_only + second_only
    agreed = kappa = None
    if scored:
        agreed = (both + neither) / scored
        first, second = (both + first_only) / scored, (both + second_only) / scored
        expected = first * second + (1 - first) * (1 - second)
        kappa = None if expected == 1.0 else (agreed - expected) / (1 - expected)
    first_unscored = sum(count for (first, _), count in counts.items() if first is None)
    second_unscored = counts[True, None] + counts[False, None]
    return Agreement(both, neither, first_only, second_only, first_unscored, second_unscored, scored, agreed, kappa)


class Keep(StrEnum):
    """Which trajectories are written."""

    ALL = "all"
    CORRECT = "correct"


@dataclass
class JudgeReport:
    """What came of judging many trajectories."""

    judge: str
    trajectories: int = 0
    written: int = 0
    rulings: Counter[Ruling] = field(default_factory=Counter)
    codes: Counter[Code] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)  # of judge prompts that have more than right and wrong
    scores: float = 0.0  # sum over the scored ones
    is_graded: bool = False  # some score is neither 0 nor 1, so that their mean is more than the share of correct ones
    examples: dict[Code, list[str]] = field(default_factory=dict)  # three ids for each code but a plain verdict
    asked: int = 0  # verdicts that were made in this run
    tokens: int = 0  # of all verdicts in the file, whenever they were made; trajectories that share a verdict share its tokens
    cost: float = 0.0
    earlier: Counter[tuple[bool | None, bool | None]] = field(default_factory=Counter)  # the verdict it came with, and this one
    seen: set[str] = field(default_factory=set)  # keys of those that a model judged
    unused_by_hand: list[str] = field(default_factory=list)  # what a person judged and no trajectory is

    def add(self, judged: Judged, before: bool | None) -> None:
        """Count one; ``before``: the verdict that it came with, to be compared."""
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
        if verdict.code is not Code.JUDGED and len(ids := self.examples.setdefault(verdict.code, [])) < 3:
            ids.append(judged.trajectory.id)
        if (verdict.tokens or verdict.cost) and judged.key not in self.seen:
            self.seen.add(judged.key)
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
        found: dict[str, Any] = {name: getattr(self, name) for name in ("judge", "trajectories", "written")}
        found |= {ruling.value: self.rulings[ruling] for ruling in Ruling}
        found |= {"codes": dict(sorted(self.codes.items())), "examples": dict(sorted(self.examples.items()))}
        found |= {name: getattr(self, name) for name in ("asked", "tokens", "cost", "unused_by_hand")}
        if self.grades:
            found["grades"] = dict(sorted(self.grades.items()))
        if self.is_graded:
            found["mean_score"] = self.mean_score
        if self.earlier:
            found["agreement_with_earlier_verdicts"] = asdict(agreement(self.earlier.elements()))
        return found


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
    if out.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"{out} is neither .jsonl nor .parquet: end its name in one of these.")
    report, by_hand = JudgeReport(judge.name), by_hand or ByHand()
    used: set[Name] = set()

    def judged(book: VerdictBook) -> Iterator[Trajectory]:
        for found in judge_stream(source, judge, book, by_hand=by_hand, **how):
            report.add(found, found.before)
            used.update(by_hand.lines_about(found.trajectory))
            if on_progress is not None:
                on_progress(report)
            if keep is Keep.ALL or found.verdict.correct:
                yield found.trajectory

    with Run(beside(out)) as run:
        report.written = write_trajectories(out, judged(VerdictBook(run.table("verdicts"))))
    report.unused_by_hand = by_hand.unused(used)
    text = json.dumps(report.as_json(), ensure_ascii=False, indent=1)
    replace_file(out.with_name(out.name + ".judge.json"), text.encode("utf-8", "replace") + b"\n")
    return report
