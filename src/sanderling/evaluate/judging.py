"""Judging a run: who decides, who is compared with them, a person's verdicts; from attempts to figures, without repeating any.

What a judge has decided stands in the log and its book of verdicts; only what is missing is asked for. A person's verdicts
outweigh every judge's: there a line about an attempt's id is bound to the answer that the attempt had when the line came, so
that another answer, made in a later round, is not judged by it.
"""

import asyncio
import csv
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite, nan
from pathlib import Path
from typing import Any

from sanderling import __version__
from sanderling.core.asking import BudgetSpentError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.evaluate.attempts import PAUSES
from sanderling.evaluate.benchmarks.table import get_benchmark
from sanderling.evaluate.episodes import PUBLISHED, Episode, JudgedAttempt
from sanderling.evaluate.figures import RunInfo, summarise
from sanderling.evaluate.guarding import guard_counts
from sanderling.evaluate.log import JudgedBy, Kind, RunLog, RunState, Scores
from sanderling.evaluate.result import EvalResult, GuardFigures
from sanderling.judge.book import CachedJudge, VerdictBook
from sanderling.judge.by_hand import ByHand, plain
from sanderling.judge.verdict import BY_HAND, Code, Judge, Verdict, decided, patiently_rule_on, recorded, rule_on, unscored
from sanderling.runs.files import replace_file

_FIELDS = ("correct", "score", "code", "reason", "confidence")

# Who judges ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EarlierJudge:
    """A judge by its earlier verdicts, by the trajectory's id: for a run whose judges are not at hand."""

    name: str
    verdicts: Mapping[str, Verdict]
    places: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """See `judge.verdict.Judge`; of other trajectories it decides nothing."""
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
    published: ByHand | None = None  # by those who made the attempts: a second judge where there is no other, and beside it
    anew: bool = False  # verdicts of a judge of the first one's name at another address do not count

    @property
    def second_name(self) -> str:
        """Who is compared with the first; empty: nobody."""
        return self.second.name if self.second else PUBLISHED if self.published else ""

    def known(self, episode: Episode, question: Question, case: Trajectory) -> dict[str, Any] | None:
        """The first judge's verdict on an attempt, without asking, as `recorded` gives it; None: there is none."""
        places = self.first.places if self.anew else None
        # A rule costs nothing and may have been mended: it is asked every time.
        if any(self.first.places) and episode.ruling(self.first.name, question, places) is not None:
            return {**episode.verdict, "judge": self.first.name}
        known = self.first.known(case) if isinstance(self.first, CachedJudge | EarlierJudge) else None
        return None if known is None else recorded(known, self.first.name)


def with_book(log: RunLog, first: Judge | None, second: Judge | None, by_hand: ByHand, *, anew: bool = False) -> Judges:
    """Judges whose verdicts a run's book keeps; in place of one who is not named, the earlier one.

    Raises UserError where nobody judged before, and for a damaged book.
    """
    book, judged, before = VerdictBook(log.run.table("verdicts")), log.verdicts(), log.judged_by()
    if first is None and (not judged or before is None):
        raise UserError(f"The run in {log.root} does not say who was right by whom: name a judge with --judge.")

    def cached(judge: Judge) -> Judge:
        return CachedJudge(judge, book) if any(judge.places) else judge

    earlier = {one.id: verdict for one in judged if (verdict := _first_verdict(one)) is not None}
    other = {one.id: decided(one.second, one.second_reason) for one in judged if one.second is not None}
    name = before.second if before and before.second != PUBLISHED else ""
    return Judges(
        cached(first) if first else EarlierJudge(before.first if before else "", earlier),
        cached(second) if second else EarlierJudge(name, other) if name else None,
        by_hand,
        log.published(),
        anew,
    )


def _first_verdict(one: JudgedAttempt) -> Verdict | None:
    """Of the judge that decided; where a person did, its verdict before them."""
    found = one.before if one.code is Code.BY_HAND else one.model_dump(include=set(_FIELDS))
    if not found:
        return None
    correct, code, reason = found.get("correct"), Code(found.get("code", Code.JUDGED)), found.get("reason", "")
    if correct is None:
        return unscored(code, reason)
    return decided(correct, reason, code, score=found.get("score"), confidence=found.get("confidence"))


# Judging and summarising --------------------------------------------------------------------------------------------------


async def conclude(
    log: RunLog,
    state: RunState,
    episodes: Sequence[Episode],
    judges: Judges,
    *,
    seconds: float = 0.0,
    resumed: int = 0,
    judging_command: str = "",
    concurrency: int = 8,
    pauses: Sequence[float] = PAUSES,
    on_judged: Callable[[int], None] | None = None,
) -> EvalResult:
    """Judge what is not judged, write the verdicts down, then ``result.json``; episodes are one an attempt.

    ``on_judged`` hears how many are judged so far. Raises BudgetSpentError before anything is written.
    """
    questions = log.questions()
    judged = await judge_episodes(episodes, {one.id: one for one in questions}, judges, concurrency, pauses, on_judged)
    counts = guard_counts(log.guard_file) if state.about.guard.on else None
    info = RunInfo(
        command=state.commands[-1],
        judging_command=judging_command if judging_command != state.commands[-1] else "",
        seed=state.about.seed,
        version=__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        resumed=resumed,
        unscored_limit=state.unscored_limit,
        uneven=state.about.kind is Kind.PEERS,
        judge=judges.first.name,
        second_judge=judges.second_name,
        by_hand=sum(one.code is Code.BY_HAND for one in judged),
        prices=state.prices,
        guard=GuardFigures(kinds=counts.kinds, attempts=len(counts.hidden_from)) if counts else None,
        looks_for_questions=_looks_for_questions(state.about.benchmark),
        judged=judged,
        scores=log.scores(),
    )
    correct = {one.key: one.correct for one in judged}
    result = summarise([replace(one, correct=correct[one.key]) for one in episodes], questions, state.attempts, info)
    log.write_verdicts(judged, JudgedBy(judges.first.name, judges.second_name))
    result.save(log.result_file)
    return result


def _looks_for_questions(benchmark: str) -> bool:
    """Not where a benchmark's questions were made from pages; one that nobody knows is looked for."""
    try:
        return get_benchmark(benchmark).verbatim
    except UserError:
        return True


async def judge_episodes(
    episodes: Sequence[Episode],
    questions: Mapping[str, Question],
    judges: Judges,
    concurrency: int = 8,
    pauses: Sequence[float] = PAUSES,
    on_judged: Callable[[int], None] | None = None,
) -> list[JudgedAttempt]:
    """The verdicts on all attempts, in the order of questions and attempts, a bounded number at a time.

    Raises BudgetSpentError; the first failure stops the others and is raised as itself.
    """
    found: list[JudgedAttempt] = []
    pending = iter(episodes)

    async def work() -> None:
        for episode in pending:
            found.append(await _judged(episode, questions[episode.question], judges, pauses))
            if on_judged is not None:
                on_judged(len(found))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(episodes))):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    places = {id: place for place, id in enumerate(questions)}
    return sorted(found, key=lambda judged: (places[judged.question], judged.attempt))


async def _judged(episode: Episode, question: Question, judges: Judges, pauses: Sequence[float]) -> JudgedAttempt:
    """A person's verdict, else the judge's earlier one, else its new one; and the second judge's beside it."""
    about: dict[str, Any] = {"question": question.id, "attempt": episode.attempt, "id": episode.id, "ending": episode.ending}
    case = episode.case(question)
    verdict = judges.known(episode, question, case)
    if (correct := judges.by_hand.verdict(case)) is not None:
        if verdict is None and not any(judges.first.places) and not isinstance(judges.first, EarlierJudge):
            verdict = recorded(await rule_on(case, judges.first), judges.first.name)
        about["before"] = verdict or {}
        verdict = {"correct": correct, "score": float(correct), "code": Code.BY_HAND, "judge": BY_HAND}
    elif verdict is None:
        verdict = recorded(await _asked(case, judges.first, pauses), judges.first.name)
    if judges.second is not None:
        second = await _asked(case, judges.second, pauses)
        about |= {"second": second.correct, "second_reason": second.reason}
    if judges.published is not None:
        about["published" if judges.second else "second"] = judges.published.verdict(case)
    return JudgedAttempt(**about, judge=verdict["judge"], **{name: verdict[name] for name in _FIELDS if name in verdict})


async def _asked(case: Trajectory, judge: Judge, pauses: Sequence[float]) -> Verdict:
    """A judge's verdict. Raises BudgetSpentError; an earlier judge is not asked twice."""
    if isinstance(judge, EarlierJudge):
        return await rule_on(case, judge)
    verdict = await patiently_rule_on(case, judge, pauses)
    if verdict.code is Code.BUDGET:
        raise BudgetSpentError(verdict.reason)
    return verdict


async def judge_again(log: RunLog, judges: Judges, command: str, unscored_limit: float | None = None, **how: Any) -> EvalResult:
    """The figures of a finished run by these judges; no attempt is made. ``unscored_limit`` None: the run's.

    ``how`` as in :func:`conclude`. Raises UserError for an unfinished run, and BudgetSpentError before anything is written.
    """
    state = log.require()
    if not state.finished:
        begun_by = "score" if state.about.kind is Kind.PEERS else "run"
        raise UserError(f"The run in {log.root} is not finished: go on with sanderling eval {begun_by} first.")
    if unscored_limit is not None:
        state = state.model_copy(update={"unscored_limit": unscored_limit})
    asked = {one.id for one in log.questions()}
    episodes = [one for one in log.episodes() if one.question in asked and one.attempt < state.attempts]
    was = EvalResult.load(log.result_file) if log.result_file.exists() else None
    kept = {"seconds": was.seconds, "resumed": was.resumed} if was else {}
    result = await conclude(log, state, episodes, judges, judging_command=command, **kept, **how)
    log.finish(state)
    return result


def why_unscored(log: RunLog) -> str:
    """The commonest reason why attempts were not scored, with its count; empty: none is written down."""
    details = {one.key: one.detail for one in log.episodes()}
    judged = [one for one in log.verdicts() if one.correct is None]
    reasons = Counter(details.get(one.key, "") if one.code is Code.NOT_ENDED else one.reason for one in judged)
    del reasons[""]
    return "".join(f"{why.rstrip('.')} ({count:,} of {len(judged):,})." for why, count in reasons.most_common(1))


# What a person brings: verdicts and scores --------------------------------------------------------------------------------


def by_hand_of(log: RunLog, given: Path | None) -> ByHand:
    """A person's verdicts: those that the run has, and those of the file given, which stand before them. Raises UserError.

    Lines about no attempt that has an answer stay in what is returned, to be reported, and apply to nothing.
    """
    held = log.by_hand()
    if given is None:
        return held
    new = ByHand.read(given)
    answers = {one.id: one.answer for one in log.episodes()}
    found = dict(held.lines)
    for (what, *answer), correct in new.lines.items():
        found[what, answer[0] if answer else plain(answers.get(what) or "")] = correct
    log.keep_by_hand(ByHand({name: correct for name, correct in found.items() if name[1]}))
    return ByHand(found)


def unused_by_hand(log: RunLog, by_hand: ByHand) -> list[str]:
    """What a person judged and no attempt of the run is, in words."""
    questions = {one.id: one for one in log.questions()} if by_hand.lines else {}
    cases = [one.case(questions[one.question]) for one in log.episodes() if one.question in questions]
    return by_hand.unused({name for case in cases for name in by_hand.lines_about(case)})


def write_to_settle(path: Path, attempts: Iterable[JudgedAttempt], episodes: Iterable[Episode]) -> int:
    """``question,answer,correct,note`` for a person to fill in, each answer once; returns how many. Raises UserError."""
    answers = {one.key: one.answer for one in episodes}
    lines: dict[tuple[str, str], str] = {}
    for one in attempts:
        answer = answers[one.key]
        if one.code is not Code.BY_HAND and answer is not None and answer.strip():
            lines.setdefault((one.question, plain(answer)), plain(" | ".join(filter(None, (one.reason, one.second_reason)))))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("question", "answer", "correct", "note"))
    writer.writerows((question, answer, "", note) for (question, answer), note in lines.items())
    replace_file(path, text.getvalue(), private=True)
    return len(lines)


def read_scores(path: Path, attempts: Collection[str]) -> Scores:
    """A CSV table ``id,score`` of trajectories' ids, for the best of k. Raises UserError for any other table."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a table ({error}): give a CSV file id,score.") from error
    if not rows or not {"id", "score"} <= rows[0].keys():
        raise UserError(f"{path} holds no scores: write id,score into its first line, and a line for each attempt.")
    found: Scores = {}
    for row in rows:
        id, score = (row["id"] or "").strip(), row["score"]
        if id not in attempts or id in found:
            why = "has two scores" if id in attempts else "is none of this run's attempts"
            raise UserError(f"{path}: {id} {why}: give one line for each id that sanderling show prints.")
        try:
            found[id] = float(score or "")
        except ValueError:
            found[id] = nan
        if not isfinite(found[id]):
            raise UserError(f"{path}: {score!r}, of {id}, is no score: write a number.")
    return found
