"""From the attempts of a run to its figures: judged, written down one by one, summarised. Repeats no attempt.

What a judge has said stands in the records, the index and the book of verdicts; only what is missing is asked for. Knows no
agent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sanderling import __version__
from sanderling.core.asking import BudgetSpentError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.evaluate.attempts import PATIENT, Retry, verdict_on
from sanderling.evaluate.beside_files import beside_of
from sanderling.evaluate.judged import PUBLISHED, JudgedAttempt, JudgedBy, judged_by, read_judged, write_judged
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.result_parts import RecordedShare
from sanderling.evaluate.rows import AttemptRow
from sanderling.evaluate.run_directory import Kind, RunDirectory, RunFile
from sanderling.evaluate.said_before import SaidBefore, first_before, second_before
from sanderling.evaluate.summary import RunInfo, summarise
from sanderling.judge.book import CachedJudge, VerdictBook
from sanderling.judge.by_hand import ByHand
from sanderling.judge.verdict import BY_HAND, Code, Judge, Verdict, recorded, rule_on

_WORD = ("correct", "score", "code", "reason", "grade", "extracted", "confidence", "parts", "excessive")


@dataclass(frozen=True)
class Judges:
    """Who decides, who is compared with them, and what a person said."""

    first: Judge
    second: Judge | None = None
    by_hand: ByHand = field(default_factory=ByHand)
    published: ByHand | None = None
    """What those have said who made the attempts; a second judge where there is no other, and beside it."""

    @property
    def second_name(self) -> str:
        """Who is compared with the first; empty: nobody."""
        return self.second.name if self.second else PUBLISHED if self.published else ""

    anew: bool = False
    """What a judge of the first one's name has said at another address does not count."""

    def said(self, row: AttemptRow, question: Question, case: Trajectory) -> dict[str, Any] | None:
        """What the first judge has said of an attempt, without being asked, as `recorded` gives it; None: nothing."""
        places = self.first.places if self.anew else None
        # A rule costs nothing and may have been mended: it is asked every time.
        if any(self.first.places) and row.correct(self.first.name, question, places) is not None:
            return {**row.verdict, "judge": self.first.name}
        known = self.first.known(case) if isinstance(self.first, CachedJudge | SaidBefore) else None
        return None if known is None else recorded(known, self.first.name)


def info_of(
    run: RunFile,
    command: str,
    seconds: float,
    resumed: int,
    unscored_limit: float,
    recorded_share: RecordedShare | None = None,
) -> RunInfo:
    """What made a result that is written now, but for its judges."""
    return RunInfo(
        command=command,
        seed=run.about.seed,
        version=__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        resumed=resumed,
        unscored_limit=unscored_limit,
        recorded=recorded_share,
        uneven=run.about.kind is Kind.PEERS,
    )


async def concluded(
    directory: RunDirectory,
    rows: Sequence[AttemptRow],
    questions: Sequence[Question],
    attempts: int,
    judges: Judges,
    info: RunInfo,
    *,
    concurrency: int = 8,
    retry: Retry = PATIENT,
    on_judged: Callable[[int], None] | None = None,
) -> EvalResult:
    """Judge what is not judged, write ``judged.jsonl``, then ``result.json``; rows are one an attempt.

    ``on_judged`` hears how many are judged so far. Raises BudgetSpentError before anything is written.
    """
    judged = await judge_rows(rows, {one.id: one for one in questions}, judges, concurrency, retry, on_judged)
    word = {one.key: one.correct for one in judged}
    by_hand = sum(one.code is Code.BY_HAND for one in judged)
    info = replace(info, judge=judges.first.name, second_judge=judges.second_name, by_hand=by_hand)
    beside = beside_of(directory, directory.require(), judged)
    result = summarise([replace(row.episode, correct=word[row.key]) for row in rows], questions, attempts, info, beside)
    # The list first: a result names the list that it is of, and a list without its result is told apart from others.
    written = write_judged(directory.judged_file, judged, JudgedBy(judges.first.name, judges.second_name))
    result = result.model_copy(update={"judged_sha256": written})
    result.save(directory.result_file)
    return result


async def judge_rows(
    rows: Sequence[AttemptRow],
    questions: Mapping[str, Question],
    judges: Judges,
    concurrency: int = 8,
    retry: Retry = PATIENT,
    on_judged: Callable[[int], None] | None = None,
) -> list[JudgedAttempt]:
    """What is said of each attempt, in the order of questions and attempts. Raises BudgetSpentError."""
    found: list[JudgedAttempt] = []

    async def one(row: AttemptRow) -> None:
        found.append(await _judged(row, questions[row.episode.question], judges, retry))
        if on_judged is not None:
            on_judged(len(found))

    await _in_batches(rows, one, concurrency)
    places = {id: place for place, id in enumerate(questions)}
    return sorted(found, key=lambda judged: (places[judged.question], judged.attempt))


async def _in_batches(rows: Sequence[AttemptRow], one: Callable[[AttemptRow], Awaitable[None]], concurrency: int) -> None:
    """All of them, a bounded number at a time; the first failure stops the others and is raised as itself."""
    pending = iter(rows)

    async def work() -> None:
        for row in pending:
            await one(row)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(rows))):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _judged(row: AttemptRow, question: Question, judges: Judges, retry: Retry) -> JudgedAttempt:
    """A person's word, else what the judge has said, else what it says; and the second judge's beside it."""
    about: dict[str, Any] = {"question": question.id, "attempt": row.episode.attempt, "id": row.id, "ending": row.ending}
    case = row.case(question)
    word = judges.said(row, question, case)
    if (said := judges.by_hand.verdict(case)) is not None:
        if word is None and not any(judges.first.places) and not isinstance(judges.first, SaidBefore):
            word = recorded(await rule_on(case, judges.first), judges.first.name)
        about |= {"overruled": word["correct"], "before": word} if word is not None else {}
        word = {"correct": said, "score": float(said), "code": Code.BY_HAND, "judge": BY_HAND}
    elif word is None:
        word = recorded(await _asked(case, judges.first, retry), judges.first.name)
    if judges.second is not None:
        second = await _asked(case, judges.second, retry)
        about |= {"second": second.correct, "second_reason": second.reason}
    if judges.published is not None:
        about["published" if judges.second else "second"] = judges.published.verdict(case)
    return JudgedAttempt(**about, judge=word["judge"], **{name: word[name] for name in _WORD if name in word})


async def _asked(case: Trajectory, judge: Judge, retry: Retry) -> Verdict:
    """A judge's word. Raises BudgetSpentError; whoever only says again what it said is not asked twice."""
    verdict = await verdict_on(case, judge, Retry(times=0) if isinstance(judge, SaidBefore) else retry)
    if verdict.code is Code.BUDGET and not isinstance(judge, SaidBefore):
        raise BudgetSpentError(verdict.reason)
    return verdict


def booked(directory: RunDirectory, first: Judge, second: Judge | None, by_hand: ByHand) -> Judges:
    """Judges whose verdicts a run's book keeps. Raises UserError for a damaged book."""
    return replace(judges_again(directory, first, second, by_hand), anew=False)


def _booked(judge: Judge, book: VerdictBook) -> Judge:
    return CachedJudge(judge, book) if any(judge.places) else judge


def _published(directory: RunDirectory) -> ByHand | None:
    return ByHand.read(directory.published_file) if directory.published_file.exists() else None


def judges_again(directory: RunDirectory, first: Judge | None, second: Judge | None, by_hand: ByHand) -> Judges:
    """:func:`booked`; in place of a judge who is not named, what the one before said. Raises UserError where there was none."""
    book, judged, before = VerdictBook(directory.table("verdicts")), read_judged(directory.judged_file), _judged_by(directory)
    if first is None and (not judged or before is None):
        raise UserError(f"The run in {directory.root} does not say who was right by whom: name a judge with --judge.")
    name = before.second if before and before.second != PUBLISHED else ""
    return Judges(
        _booked(first, book) if first else first_before(before.first if before else "", judged),
        _booked(second, book) if second else second_before(name, judged) if name else None,
        by_hand,
        _published(directory),
        anew=True,
    )


def _judged_by(directory: RunDirectory) -> JudgedBy | None:
    """Whose verdicts stand in the list; a list of before it said so stands beside a result that does."""
    found = judged_by(directory.judged_file)
    if found is None and directory.judged_file.exists() and directory.result_file.exists():
        was = EvalResult.load(directory.result_file)
        return JudgedBy(was.judge, was.second_judge)
    return found


async def judged_again(
    directory: RunDirectory, judges: Judges, command: str, unscored_limit: float | None = None, **how: Any
) -> EvalResult:
    """The figures of a finished run by these judges; no attempt is made. ``unscored_limit`` None: the run's.

    Raises UserError for a run that is not finished, and BudgetSpentError before anything is written.
    """
    run = directory.require()
    if not run.finished:
        begun_by = "score" if run.about.kind is Kind.PEERS else "run"
        raise UserError(f"The run in {directory.root} is not finished: go on with sanderling eval {begun_by} first.")
    limit = run.unscored_limit if unscored_limit is None else unscored_limit
    questions = directory.questions()
    asked = {one.id for one in questions}
    last = {row.key: row for row in directory.attempts.prepare() if row.key[0] in asked and row.key[1] < run.attempts}
    was = EvalResult.load(directory.result_file) if directory.result_file.exists() else None
    kept = (was.seconds, was.resumed) if was else (0.0, 0)
    info = info_of(run, run.commands[-1], *kept, limit, was.recorded if was else None)
    info = replace(info, judging_command=command if command != info.command else "")
    result = await concluded(directory, list(last.values()), questions, run.attempts, judges, info, **how)
    if limit != run.unscored_limit:
        directory.finish(run.model_copy(update={"unscored_limit": limit}))
    return result
