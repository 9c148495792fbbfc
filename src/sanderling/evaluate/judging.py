"""From the attempts of a run to its figures: judged, written down one by one, summarised. Repeats no attempt.

What a judge has decided stands in the records, the index and the book of verdicts; only what is missing is asked for. A
person's verdicts stand in ``by_hand.csv`` and outweigh every judge's: there a line about an attempt's id is bound to the answer
that the attempt had when the line came, so that another answer, made in a later round, is not judged by it.
"""

import asyncio
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sanderling import __version__
from sanderling.core.asking import BudgetSpentError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, decode_record
from sanderling.evaluate.attempts import PATIENT, Retry, verdict_on
from sanderling.evaluate.beside_files import beside_of
from sanderling.evaluate.judged import PUBLISHED, JudgedAttempt, JudgedBy, judged_by, read_judged, write_judged
from sanderling.evaluate.result import EvalResult, RecordedShare
from sanderling.evaluate.rows import AttemptRow, Key
from sanderling.evaluate.run_directory import Kind, RunDirectory, RunFile
from sanderling.evaluate.summary import RunInfo, summarise
from sanderling.judge.book import CachedJudge, VerdictBook
from sanderling.judge.by_hand import ByHand, plain
from sanderling.judge.verdict import BY_HAND, Code, Judge, Verdict, decided, recorded, rule_on, unscored
from sanderling.runs.files import replace_file

_DETAILS = ("grade", "extracted", "confidence", "parts", "excessive")
_FIELDS = ("correct", "score", "code", "reason", *_DETAILS)
_HEADING = ("question", "answer", "correct", "note")

# Who judges ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EarlierJudge:
    """A judge by its earlier verdicts, by the trajectory's id; of others it decides nothing.

    For a run to which a person's verdicts come, and whose judges are not at hand.
    """

    name: str
    verdicts: Mapping[str, Verdict]
    places: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """See `judge.verdict.Judge`."""
        return self.known(trajectory) or unscored(Code.NOT_ENDED, f"{self.name} was not asked about it")

    def known(self, trajectory: Trajectory) -> Verdict | None:
        """Its verdict; None: there is none."""
        return self.verdicts.get(trajectory.id)


@dataclass(frozen=True)
class Judges:
    """Who decides, who is compared with them, and a person's verdicts."""

    first: Judge
    second: Judge | None = None
    by_hand: ByHand = field(default_factory=ByHand)
    published: ByHand | None = None
    """Verdicts of those who made the attempts; a second judge where there is no other, and beside it."""
    anew: bool = False
    """Verdicts of a judge of the first one's name at another address do not count."""

    @property
    def second_name(self) -> str:
        """Who is compared with the first; empty: nobody."""
        return self.second.name if self.second else PUBLISHED if self.published else ""

    def known(self, row: AttemptRow, question: Question, case: Trajectory) -> dict[str, Any] | None:
        """The first judge's verdict on an attempt, without asking, as `recorded` gives it; None: there is none."""
        places = self.first.places if self.anew else None
        # A rule costs nothing and may have been mended: it is asked every time.
        if any(self.first.places) and row.correct(self.first.name, question, places) is not None:
            return {**row.verdict, "judge": self.first.name}
        known = self.first.known(case) if isinstance(self.first, CachedJudge | EarlierJudge) else None
        return None if known is None else recorded(known, self.first.name)


def booked(directory: RunDirectory, first: Judge, second: Judge | None, by_hand: ByHand) -> Judges:
    """Judges whose verdicts a run's book keeps. Raises UserError for a damaged book."""
    return replace(judges_again(directory, first, second, by_hand), anew=False)


def judges_again(directory: RunDirectory, first: Judge | None, second: Judge | None, by_hand: ByHand) -> Judges:
    """:func:`booked`; in place of a judge who is not named, the earlier one. Raises UserError where there was none."""
    book, judged, before = (
        VerdictBook(directory.table("verdicts")),
        read_judged(directory.judged_file),
        judged_by(directory.judged_file),
    )
    if first is None and (not judged or before is None):
        raise UserError(f"The run in {directory.root} does not say who was right by whom: name a judge with --judge.")
    published = ByHand.read(directory.published_file) if directory.published_file.exists() else None

    def cached(judge: Judge) -> Judge:
        return CachedJudge(judge, book) if any(judge.places) else judge

    earlier = {one.id: verdict for one in judged if (verdict := _first_verdict(one)) is not None}
    other = {one.id: decided(one.second, one.second_reason) for one in judged if one.second is not None}
    name = before.second if before and before.second != PUBLISHED else ""
    return Judges(
        cached(first) if first else EarlierJudge(before.first if before else "", earlier),
        cached(second) if second else EarlierJudge(name, other) if name else None,
        by_hand,
        published,
        anew=True,
    )


def _first_verdict(one: JudgedAttempt) -> Verdict | None:
    """Of the judge that decided; where a person did, its verdict before them."""
    found = one.before if one.code is Code.BY_HAND else one.model_dump(include=set(_FIELDS))
    if not found:
        return None
    correct, code, reason = found.get("correct"), Code(found.get("code", Code.JUDGED)), found.get("reason", "")
    if correct is None:
        return unscored(code, reason)
    return decided(correct, reason, code, score=found.get("score"), **{name: found[name] for name in _DETAILS if name in found})


# Judging and summarising --------------------------------------------------------------------------------------------------


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
    correct = {one.key: one.correct for one in judged}
    by_hand = sum(one.code is Code.BY_HAND for one in judged)
    info = replace(info, judge=judges.first.name, second_judge=judges.second_name, by_hand=by_hand)
    beside = beside_of(directory, directory.require(), judged)
    result = summarise([replace(row.episode, correct=correct[row.key]) for row in rows], questions, attempts, info, beside)
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
    """The verdicts on all attempts, in the order of questions and attempts, a bounded number at a time.

    Raises BudgetSpentError; the first failure stops the others and is raised as itself.
    """
    found: list[JudgedAttempt] = []
    pending = iter(rows)

    async def work() -> None:
        for row in pending:
            found.append(await _judged(row, questions[row.episode.question], judges, retry))
            if on_judged is not None:
                on_judged(len(found))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(rows))):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    places = {id: place for place, id in enumerate(questions)}
    return sorted(found, key=lambda judged: (places[judged.question], judged.attempt))


async def _judged(row: AttemptRow, question: Question, judges: Judges, retry: Retry) -> JudgedAttempt:
    """A person's verdict, else the judge's earlier one, else its new one; and the second judge's beside it."""
    about: dict[str, Any] = {"question": question.id, "attempt": row.episode.attempt, "id": row.id, "ending": row.ending}
    case = row.case(question)
    verdict = judges.known(row, question, case)
    if (correct := judges.by_hand.verdict(case)) is not None:
        if verdict is None and not any(judges.first.places) and not isinstance(judges.first, EarlierJudge):
            verdict = recorded(await rule_on(case, judges.first), judges.first.name)
        about |= {"overruled": verdict["correct"], "before": verdict} if verdict is not None else {}
        verdict = {"correct": correct, "score": float(correct), "code": Code.BY_HAND, "judge": BY_HAND}
    elif verdict is None:
        verdict = recorded(await _asked(case, judges.first, retry), judges.first.name)
    if judges.second is not None:
        second = await _asked(case, judges.second, retry)
        about |= {"second": second.correct, "second_reason": second.reason}
    if judges.published is not None:
        about["published" if judges.second else "second"] = judges.published.verdict(case)
    return JudgedAttempt(**about, judge=verdict["judge"], **{name: verdict[name] for name in _FIELDS if name in verdict})


async def _asked(case: Trajectory, judge: Judge, retry: Retry) -> Verdict:
    """A judge's verdict. Raises BudgetSpentError; an earlier judge is not asked twice."""
    if isinstance(judge, EarlierJudge):
        return await verdict_on(case, judge, Retry(times=0))
    verdict = await verdict_on(case, judge, retry)
    if verdict.code is Code.BUDGET:
        raise BudgetSpentError(verdict.reason)
    return verdict


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


# A person's verdicts ------------------------------------------------------------------------------------------------------


def by_hand_of(directory: RunDirectory, given: Path | None) -> ByHand:
    """A person's verdicts: those that the run has, and those of the file given, which stand before them. Raises UserError.

    Lines about no attempt that has an answer stay in what is returned, to be reported, and apply to nothing.
    """
    held = ByHand.read(directory.by_hand_file) if directory.by_hand_file.exists() else ByHand()
    held.require_clear(directory.questions())
    if given is None:
        return held
    new = ByHand.read(given)
    new.require_clear(directory.questions())
    answers = {row.id: row.answer for row in directory.attempts.rows()}
    found = dict(held.lines)
    for (what, *answer), correct in new.lines.items():
        found[what, answer[0] if answer else plain(answers.get(what) or "")] = correct
    lines = [(what, answer, "yes" if correct else "no", "") for (what, answer), correct in found.items() if answer]
    _write_table(directory.by_hand_file, lines, durable=True)
    return ByHand(found)


def unused_by_hand(directory: RunDirectory, by_hand: ByHand) -> list[str]:
    """What a person judged and no attempt of the run is, in words."""
    if not by_hand.lines:
        return []
    questions = {one.id: one for one in directory.questions()}
    known = (row for row in directory.attempts.rows() if row.episode.question in questions)
    cases = (row.case(questions[row.episode.question]) for row in known)
    return by_hand.unused({name for case in cases for name in by_hand.lines_about(case)})


def write_to_settle(path: Path, attempts: Sequence[JudgedAttempt], rows: Mapping[Key, AttemptRow]) -> int:
    """``question,answer,correct,note`` for a person to fill in, each answer once; returns how many. Raises UserError."""
    lines: dict[tuple[str, str], str] = {}
    for one in attempts:
        answer = rows[one.key].answer
        if one.code is not Code.BY_HAND and answer is not None and answer.strip():
            lines.setdefault((one.question, plain(answer)), plain(" | ".join(filter(None, (one.reason, one.second_reason)))))
    _write_table(path, [(question, answer, "", note) for (question, answer), note in lines.items()])
    return len(lines)


def _write_table(path: Path, lines: Iterable[tuple[str, str, str, str]], *, durable: bool = False) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADING)
    writer.writerows(lines)
    replace_file(path, text.getvalue(), durable=durable, private=True)


# Why attempts were not scored ---------------------------------------------------------------------------------------------

_MOST = 200
"""Unscored attempts that are looked at; more tell nothing else."""


def why_unscored(directory: RunDirectory, rows: Mapping[Key, AttemptRow]) -> str:
    """The commonest reason with its count among those looked at; empty: none is written down."""
    unscored = [one for one in read_judged(directory.judged_file) if one.correct is None][:_MOST]
    ended = [rows[one.key].line for one in unscored if one.code is Code.NOT_ENDED and one.key in rows]
    reasons = Counter(one.reason for one in unscored if one.code is not Code.NOT_ENDED)
    with directory.store.path.open("rb") as file:
        for line in ended:
            file.seek(line.offset)
            record = decode_record(file.read(line.size))
            reasons[str(record.get("detail", "")) if isinstance(record, dict) else ""] += 1
    del reasons[""]
    if not reasons:
        return ""
    reason, count = reasons.most_common(1)[0]
    return f"{reason.rstrip('.')} ({count:,} of {len(unscored):,})."
