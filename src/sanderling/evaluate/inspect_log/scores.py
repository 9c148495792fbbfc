"""A judge's word on an attempt as Inspect's score. Pure.

Right is ``"C"``, wrong ``"I"``, and what could not be scored NaN, which Inspect's own metrics leave out; why stands in its
``reason``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any

from sanderling.core.record import Trajectory
from sanderling.evaluate.judged import PUBLISHED, JudgedAttempt
from sanderling.judge.verdict import META_KEY, Code, verdict_of

Json = dict[str, Any]
_REASONS: dict[str, str] = {Code.NO_ANSWER: "no_response", Code.UNREADABLE: "grader_failed", Code.REFUSED: "grader_failed"}
"""Inspect's own word for it, where it has one; elsewhere our code is the reason."""
_NOTHING = (None, "", [], (), {})


@dataclass(frozen=True)
class Said:
    """What was said of one attempt under a judge's name."""

    judge: str
    correct: bool | None
    code: str = ""
    """How it came about, or why there is none: `judge.verdict.Code`."""
    reason: str = ""
    """One sentence, for people."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else there is to say."""
    words: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same, in words of agents and judges, or of accepted answers."""


def score_of(said: Said, answer: str | None, *, texts: bool) -> Json:
    """Inspect's score; without ``texts`` nothing that an agent or a judge wrote is in it."""
    found: Json = {"value": nan if said.correct is None else "C" if said.correct else "I"}
    if texts:
        found |= {"answer": answer} if answer is not None else {}
        found |= {"explanation": said.reason} if said.reason else {}
    if said.correct is None or said.code == Code.NO_ANSWER:
        found["reason"] = _REASONS.get(said.code, said.code or "not_judged")
    told = {"code": said.code, **said.facts, **(said.words if texts else {})}
    return found | {"metadata": {name: value for name, value in told.items() if value not in _NOTHING}}


def said_of(one: JudgedAttempt, judge: str, second: str) -> list[Said]:
    """What the run's list of judged attempts says, under its judges' names; a person's word stands for the first's."""
    facts = {"score": one.score, "grade": one.grade, "confidence": one.confidence, "overruled": one.overruled}
    facts |= {"by": one.judge} if one.judge != judge else {}
    words = {"extracted": one.extracted, "parts": one.parts, "excessive": list(one.excessive)}
    found = [Said(judge, one.correct, one.code.value, one.reason, facts, words)]
    if second:
        ended = one.ending is None or one.ending.scored
        code = Code.JUDGED.value if one.second is not None else "" if ended else Code.NOT_ENDED.value
        found.append(Said(second, one.second, code, one.second_reason))
    if one.published is not None:
        found.append(Said(PUBLISHED, one.published, Code.JUDGED.value))
    return found


def said_in_record(trajectory: Trajectory, judge: str) -> list[Said]:
    """What the record itself says: of a run of before verdicts stood in a file of their own."""
    if trajectory.ending is not None and not trajectory.ending.scored:
        return [Said(judge, None, Code.NOT_ENDED.value)]
    kept = trajectory.meta.get(META_KEY)
    if not isinstance(kept, dict) or kept.get("judge") != judge:
        return [Said(judge, None)]
    facts = {name: kept.get(name) for name in ("score", "grade", "confidence")}
    words = {name: kept.get(name) for name in ("extracted", "parts", "excessive")}
    return [
        Said(judge, verdict_of(trajectory, judge), kept.get("code", Code.JUDGED.value), kept.get("reason", ""), facts, words)
    ]
