"""Judging a run: who decides, who is compared with them, a person's verdicts; from attempts to figures, without repeating any.

What a judge has decided stands in the log and its book of verdicts; only what is missing is asked for. A person's verdicts
outweigh every judge's; a line about an attempt's id is bound to the answer that the attempt had when the line came.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sanderling import __version__
from sanderling.core.errors import UserError
from sanderling.core.profiles import one_line
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import BudgetSpentError
from sanderling.evaluate.attempts import PAUSES
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import NOBODY, JudgedBy, RunLog, RunState
from sanderling.evaluate.result import Episode, EvalResult, JudgedAttempt
from sanderling.judge.book import ByHand, CachedJudge, VerdictBook
from sanderling.judge.verdict import BY_HAND, Code, Judge, Verdict, patiently_rule_on, recorded
from sanderling.runs.files import replace_file
from sanderling.runs.work import in_parallel

_FIELDS = {"judge", "correct", "score", "code", "reason"}
_ENOUGH = 8  # attempts that a judge gave no answer about, and none before: it is away
_UNASKED = {Code.NOT_ENDED, Code.NO_ANSWER, Code.NO_ACCEPTED, Code.SAME_TEXT}


@dataclass(frozen=True)
class Judges:
    """Who decides, who is compared with them, and a person's verdicts; None: what they said before stands."""

    first: Judge | None
    second: Judge | None = None
    by_hand: ByHand = field(default_factory=ByHand)
    earlier: Mapping[str, JudgedAttempt] = field(default_factory=dict[str, JudgedAttempt])  # by the ids of trajectories
    before: JudgedBy = NOBODY  # whose verdicts those are
    anew: bool = False  # verdicts of a judge of the first one's name at another address do not count

    def known(self, episode: Episode, question: Question, case: Trajectory) -> dict[str, Any] | None:
        """The first judge's verdict on an attempt, without asking, as `recorded` gives it; None: there is none."""
        if self.first is None:
            # Of the judge that decided; where a person did, its verdict before them.
            one = self.earlier.get(episode.id)
            found = {} if one is None else one.before if one.code is Code.BY_HAND else one.model_dump(include=_FIELDS)
            unasked = {"correct": None, "code": Code.NOT_ENDED, "reason": f"{self.before.first} was not asked about it"}
            return {"judge": self.before.first, **(found or unasked)}
        places = self.first.places if self.anew else None
        # A rule costs nothing and may have been mended: it is asked every time.
        if any(self.first.places) and episode.ruling(self.first.name, question, places) is not None:
            return {**episode.verdict, "judge": self.first.name}
        known = self.first.known(case) if isinstance(self.first, CachedJudge) else None
        return None if known is None else recorded(known, self.first.name)


def with_book(log: RunLog, first: Judge | None, second: Judge | None, by_hand: ByHand, *, anew: bool = False) -> Judges:
    """Judges whose verdicts a run's book keeps; in place of one who is not named, the earlier one.

    Raises UserError where nobody judged before, and for a damaged book.
    """
    book, before = VerdictBook(log.run.table("verdicts")), log.judged_by()
    if first is None and before is None:
        raise UserError(f"The run in {log.root} does not say who was right by whom: name a judge with --judge.")

    def cached(judge: Judge | None) -> Judge | None:
        return CachedJudge(judge, book) if judge is not None and any(judge.places) else judge

    earlier, before = {one.id: one for one in log.verdicts()}, before or NOBODY
    return Judges(cached(first), cached(second), by_hand, earlier, before, anew)


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

    ``on_judged`` hears how many are judged so far. Raises, before anything is written, BudgetSpentError, and UserError where
    no judge was reached and there are earlier figures.
    """
    questions, first, second, before = log.questions(), judges.first, judges.second, judges.before
    names = JudgedBy(first.name if first else before.first, second.name if second else before.second)
    judged: list[JudgedAttempt] = []
    asked, places = {one.id: one for one in questions}, {one.id: place for place, one in enumerate(questions)}
    cases = {one.id: one.case(asked[one.question]) for one in episodes}
    known = {one.id: judges.known(one, asked[one.question], cases[one.id]) for one in episodes}
    reached = first is None or any(_was_reached(found, first) for found in known.values() if found)
    away = list[str]()  # why the judge was not

    def heard(found: Mapping[str, Any]) -> None:
        nonlocal reached
        assert first is not None, "it has judged"
        reached |= _was_reached(found, first)
        away.extend([found["reason"]] if found.get("code") == Code.OUTAGE else [])
        give_up_if(len(away) >= max(concurrency, _ENOUGH))

    def give_up_if(enough: bool) -> None:
        if enough and not reached and log.result_file.exists():
            why = away[-1].rstrip(".")
            raise UserError(f"{names.first} judged nothing ({why}): the figures of {log.root} stay as they were.")

    async def work(episode: Episode) -> None:
        judged.append(await _judged(episode, cases[episode.id], judges, known[episode.id], pauses, heard))
        if on_judged is not None:
            on_judged(len(judged))

    await in_parallel(work, episodes, concurrency)
    give_up_if(bool(away))
    judged.sort(key=lambda one: (places[one.question], one.attempt))
    correct = {one.key: one.correct for one in judged}
    result = summarise(
        [replace(one, correct=correct[one.key]) for one in episodes],
        questions,
        state.attempts,
        unscored_limit=state.unscored_limit,
        prices=state.prices,
        judged=judged,
        judge=names.first,
        second_judge=names.second,
        by_hand=sum(one.code is Code.BY_HAND for one in judged),
        command=state.command,
        judging_command=judging_command if judging_command != state.command else "",
        seed=state.about.seed,
        version=__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        resumed=resumed,
        guard=log.guard_counts() if state.about.guard.on else None,
    )
    log.write_verdicts(judged, names)
    result.save(log.result_file)
    return result


def _was_reached(found: Mapping[str, Any], judge: Judge) -> bool:
    """Whether a verdict (`recorded`) shows that the judge was there: what a rule before a model finds right needs no model."""
    code = found.get("code", Code.JUDGED)
    unasked = code in _UNASKED or (found.get("correct") is True and not found.get("model") and any(judge.places))
    return code != Code.OUTAGE and not unasked


async def _judged(
    episode: Episode,
    case: Trajectory,
    judges: Judges,
    verdict: dict[str, Any] | None,
    pauses: Sequence[float],
    heard: Callable[[Mapping[str, Any]], None],
) -> JudgedAttempt:
    """A person's verdict, else the judge's earlier one, else its new one (``heard``); and the second judge's beside it."""

    async def ask(judge: Judge) -> Verdict:
        given = await patiently_rule_on(case, judge, pauses)
        if given.code is Code.BUDGET:
            raise BudgetSpentError(given.reason)
        return given

    first, correct = judges.first, judges.by_hand.verdict(case)
    about: dict[str, Any] = {name: getattr(episode, name) for name in ("question", "attempt", "id", "ending")}
    if verdict is None and first is not None and (correct is None or not any(first.places)):
        verdict = recorded(await ask(first), first.name)
        heard(verdict)
    if correct is not None:
        about["before"] = verdict or {}
        verdict = {"correct": correct, "score": float(correct), "code": Code.BY_HAND, "judge": BY_HAND}
    assert verdict is not None, "a judge or a person has decided"
    if judges.second is not None:
        other = await ask(judges.second)
        about |= {"second": other.correct, "second_reason": other.reason}
    elif judges.before.second and (before := judges.earlier.get(episode.id)) is not None:
        about |= {"second": before.second, "second_reason": before.second_reason}
    return JudgedAttempt(**about, **{name: value for name, value in verdict.items() if name in _FIELDS})


async def judge_again(log: RunLog, judges: Judges, command: str, unscored_limit: float | None = None, **how: Any) -> EvalResult:
    """The figures of a finished run by these judges; no attempt is made. ``unscored_limit`` None: the run's.

    ``how`` as in :func:`conclude`. Raises UserError for an unfinished run, and BudgetSpentError before anything is written.
    """
    state = log.require()
    if not state.finished:
        begun_by = "run" if state.about.peers is None else "score"
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


# A person's verdicts ------------------------------------------------------------------------------------------------------


def by_hand_of(log: RunLog, given: Path | None) -> ByHand:
    """A person's verdicts: those that the run has, and those of the file given, which stand before them. Raises UserError.

    Lines about no attempt that has an answer stay in what is returned, to be reported, and apply to nothing.
    """
    held = log.by_hand()
    if given is None:
        return held
    answers = {one.id: one.answer for one in log.episodes()}
    named = {
        (what, answer[0] if answer else one_line(answers.get(what) or "")): correct
        for (what, *answer), correct in ByHand.read(given).lines.items()
    }
    if named and len(unused_by_hand(log, ByHand(named))) == len(named):
        told = "head its columns question,answer,correct, or give the ids of attempts, as sanderling show prints them"
        raise UserError(f"No line of {given} is about an answer in {log.root}: {told}.")
    found = {**held.lines, **named}
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
            reasons = " | ".join(filter(None, (one.reason, one.second_reason)))
            lines.setdefault((one.question, one_line(answer)), one_line(reasons))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("question", "answer", "correct", "note"))
    writer.writerows((question, answer, "", note) for (question, answer), note in lines.items())
    replace_file(path, text.getvalue(), private=True)
    return len(lines)
