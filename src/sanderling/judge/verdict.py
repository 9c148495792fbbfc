"""A judge's word on one trajectory: what it says, why, who said it and what that cost; and where it stands in a record.

A verdict that could not be had is *unscored* with a code, never "wrong". Knows no judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from sanderling.core.record import Trajectory

META_KEY = "evaluation"
"""Where a verdict stands in ``Trajectory.meta``: ``{"judge", "correct", "score", "reason", …}``, correct null when unscored."""


class Ruling(StrEnum):
    """What a judge says."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNSCORED = "unscored"


class Code(StrEnum):
    """How a verdict came about, or why there is none."""

    JUDGED = "judged"
    NO_ANSWER = "no_answer"
    """The agent gave no answer of its own: incorrect, and nobody was asked."""
    BY_HAND = "by_hand"
    """A person said so."""
    SAME_TEXT = "same_text"
    """Correct without asking: letter by letter an accepted answer, which the judge's form lets pass."""
    NOT_ENDED = "not_ended"
    """Unscored: the episode ended in an outage or was stopped, or an import tells neither ending nor answer."""
    NO_ACCEPTED = "no_accepted"
    """Unscored: the question has no accepted answer to compare with."""
    NOT_COMPARABLE = "not_comparable"
    """Unscored: the answers are of a kind that this judge cannot compare."""
    UNREADABLE = "unreadable"
    """Unscored: the judge replied, and no verdict could be read."""
    REFUSED = "refused"
    """Unscored: the judge's server will not take this conversation, most likely because it is too long."""
    OUTAGE = "outage"
    """Unscored: the judge was not reached; may be asked again."""
    BUDGET = "budget"
    """Unscored: the limit of tokens or money is reached; may be asked again with a larger one."""


_MAY_CHANGE = frozenset({Code.JUDGED, Code.OUTAGE})
"""Unscored verdicts that asking again soon may mend."""


_DETAILS: dict[str, Any] = {"grade": "", "extracted": None, "confidence": None, "parts": {}, "excessive": ()}
"""What a form may say beyond right and wrong, and what says nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's word on one trajectory."""

    ruling: Ruling
    score: float | None
    """In [0, 1]; None when unscored."""
    reason: str
    """One sentence, for people."""
    code: Code = Code.JUDGED
    model: str = ""
    """The model whose word it is; empty for a rule or a person."""
    prompt: str = ""
    """Name and version of what the model was told."""
    tokens: int = 0
    """Prompt and sampled tokens of all replies it took; estimates where a server does not say."""
    cost: float = 0.0
    """Of all replies it took; 0 for remembered ones and without prices."""
    remembered: bool = False
    """Nothing was asked for it in this run."""
    is_estimated: bool = False
    """A server did not say what a reply took: tokens and cost are the most that it may have been."""
    grade: str = ""
    """More than right and wrong, where the judge's form has it: `forms.contract.Grade`."""
    extracted: str | None = None
    """The answer that the judge took for the final one."""
    confidence: float | None = None
    """What the answer claims of itself, in percent as said."""
    parts: Mapping[str, bool] = field(default_factory=dict[str, bool], hash=False)
    """Of a set: each item that is asked for, and whether it was given."""
    excessive: tuple[str, ...] = ()
    """Of a set: what was given and not asked for."""

    @property
    def correct(self) -> bool | None:
        """None: unscored."""
        return None if self.ruling is Ruling.UNSCORED else self.ruling is Ruling.CORRECT

    @property
    def may_change(self) -> bool:
        """Whether asking again soon may give a verdict after all."""
        return self.ruling is Ruling.UNSCORED and self.code in _MAY_CHANGE


def unscored(code: Code, reason: str) -> Verdict:
    """No verdict, and why."""
    return Verdict(Ruling.UNSCORED, None, reason, code)


def details(verdict: Verdict) -> dict[str, Any]:
    """What a form says beyond right and wrong, where it says anything."""
    found = {name: getattr(verdict, name) for name, nothing in _DETAILS.items() if getattr(verdict, name) != nothing}
    return found | ({"excessive": list(verdict.excessive)} if verdict.excessive else {})


def kept(verdict: Verdict) -> dict[str, Any]:
    """The verdict's line in a book."""
    found = asdict(verdict)
    return {name: found[name] for name in found if name not in _DETAILS} | details(verdict)


def recorded(verdict: Verdict, judge: str, places: Sequence[str] = ()) -> dict[str, Any]:
    """What stands in the record; provenance only where there is some. ``places``: of the judge's models."""
    found: dict[str, Any] = {
        "judge": judge,
        **({"at": list(places)} if any(places) else {}),
        "correct": verdict.correct,
        "score": verdict.score,
        "reason": verdict.reason,
    }
    if verdict.code is not Code.JUDGED:
        found["code"] = verdict.code.value
    if verdict.model:
        found |= {"model": verdict.model, "prompt": verdict.prompt, "tokens": verdict.tokens, "cost": verdict.cost}
        found["remembered"] = verdict.remembered
        if verdict.is_estimated:
            found["estimated"] = True
    return found | details(verdict)


def with_verdict(trajectory: Trajectory, verdict: Verdict, judge: str) -> Trajectory:
    """The trajectory with a verdict in place of an earlier one."""
    return trajectory.model_copy(update={"meta": {**trajectory.meta, META_KEY: recorded(verdict, judge)}})


def verdict_of(trajectory: Trajectory, judge: str | None = None) -> bool | None:
    """The recorded verdict of this judge, or of whichever spoke last; None: not judged by it, or it failed."""
    return said_in(trajectory.meta.get(META_KEY), judge)


def said_in(found: Any, judge: str | None = None, places: Sequence[str] | None = None) -> bool | None:
    """:func:`verdict_of` for what :func:`recorded` gave, wherever it was kept.

    ``places``: of the judge's models; what one of that name has said elsewhere does not count, where that is known.
    """
    if not isinstance(found, dict) or (judge is not None and found.get("judge") != judge):
        return None
    if places is not None and found.get("at", list(places)) != list(places):
        return None
    correct = found.get("correct")
    return correct if isinstance(correct, bool) else None
