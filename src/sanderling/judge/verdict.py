"""Who was right: a judge's verdict on one trajectory, who gave it, and how every stage asks for one.

A verdict is right, wrong or *unscored* with a code that says why; what could not be judged is never "wrong". Only the agent's
own answer is judged, never text from a tool.

Example: ``verdict = await rule_on(trajectory, rule_judge("exact")); verdict.correct``
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from sanderling.core.record import Trajectory

T = TypeVar("T")
META_KEY = "evaluation"
"""Where a verdict stands in ``Trajectory.meta``: ``{"judge", "correct", "score", "reason", …}``, correct null when unscored."""
BY_HAND = "by hand"  # the judge's name where a person has spoken


class Ruling(StrEnum):
    """What a judge decides."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNSCORED = "unscored"


class Code(StrEnum):
    """How a verdict came about, or why there is none."""

    JUDGED = "judged"
    NO_ANSWER = "no_answer"  # the agent gave no answer of its own: incorrect, and nobody was asked
    BY_HAND = "by_hand"  # a person's verdict
    SAME_TEXT = "same_text"  # correct without asking: letter by letter an accepted answer, which the judge prompt lets pass
    NOT_ENDED = "not_ended"  # unscored: the episode met an outage or was stopped, or an import tells neither ending nor answer
    NO_ACCEPTED = "no_accepted"  # unscored: the question has no accepted answer to compare with
    NOT_COMPARABLE = "not_comparable"  # unscored: the answers are of a kind that this judge cannot compare
    UNREADABLE = "unreadable"  # unscored: the judge replied, and no verdict could be read
    REFUSED = "refused"  # unscored: the judge's server will not take this conversation, most likely because it is too long
    OUTAGE = "outage"  # unscored: the judge was not reached; may be asked again
    BUDGET = "budget"  # unscored: the limit of tokens or money is reached; may be asked again with a larger one


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on one trajectory."""

    ruling: Ruling
    score: float | None  # in [0, 1]; None when unscored
    reason: str  # one sentence, for people
    code: Code = Code.JUDGED
    model: str = ""  # the model whose verdict it is; empty for a rule or a person
    prompt: str = ""  # name and version of the judge prompt
    tokens: int = 0  # prompt and sampled tokens of all replies it took; estimates where a server does not report them
    cost: float = 0.0  # of all replies it took; 0 for cached ones and without prices
    remembered: bool = False  # nothing was asked for it in this run

    @property
    def correct(self) -> bool | None:
        """None: unscored."""
        return None if self.ruling is Ruling.UNSCORED else self.ruling is Ruling.CORRECT


def decided(correct: bool, reason: str, code: Code = Code.JUDGED, *, score: float | None = None) -> Verdict:
    """Right or wrong. ``score``: 1 or 0 if left out."""
    ruling = Ruling.CORRECT if correct else Ruling.INCORRECT
    return Verdict(ruling, float(correct) if score is None else score, reason, code)


def unscored(code: Code, reason: str) -> Verdict:
    """No verdict, and why."""
    return Verdict(Ruling.UNSCORED, None, reason, code)


def agreed(values: Iterable[T | None]) -> T | None:
    """The one value that all are; None where there is none, two differ, or one of them could not be read."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


class Judge(Protocol):
    """Decides whether a trajectory's answer is right."""

    @property
    def name(self) -> str: ...  # tells judges apart wherever verdicts are kept: with model, version of the prompt, threshold
    @property
    def places(self) -> tuple[str, ...]: ...  # of its models, in their order: two servers may give one name; () for a rule
    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """Judge a trajectory that has an answer; never raises for an outage of its own, which is a verdict of UNSCORED."""
        ...


async def rule_on(trajectory: Trajectory, judge: Judge) -> Verdict:
    """The verdict on a trajectory. Without an answer of its own it is wrong without asking; an outage has no verdict."""
    ending, answer = trajectory.ending, trajectory.answer
    if ending is not None and not ending.scored:
        return unscored(Code.NOT_ENDED, f"ended in {ending.value}")
    if ending is None and answer is None:
        return unscored(Code.NOT_ENDED, "tells neither an ending nor an answer")
    if answer is None or not answer.strip() or not (ending is None or ending.has_answer):
        return decided(False, "no answer of its own", Code.NO_ANSWER)
    if not any(accepted.strip() for accepted in trajectory.question.answers):
        return unscored(Code.NO_ACCEPTED, "the question has no accepted answer")
    return await judge(trajectory)


async def patiently_rule_on(trajectory: Trajectory, judge: Judge, pauses: Sequence[float] = (1.0, 2.0)) -> Verdict:
    """:func:`rule_on`, asked again after each of these seconds while that may help: a model's server was tried long enough."""
    verdict = await rule_on(trajectory, judge)
    for pause in pauses:
        if verdict.correct is not None or verdict.code not in (Code.JUDGED, *([] if any(judge.places) else [Code.OUTAGE])):
            break
        await asyncio.sleep(pause)
        verdict = await rule_on(trajectory, judge)
    return verdict


class Panel:
    """Several judges in order: the first one that finds an answer correct settles it, and later ones are not asked.

    If none does, one that failed leaves it unscored; one for whose rule the answers are of the wrong kind abstains.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = judges
        self.name = ", then ".join(judge.name for judge in judges)
        self.places = tuple(place for judge in judges for place in judge.places)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        given: list[Verdict] = []
        for judge in self._judges:
            given.append(await judge(trajectory))
            if given[-1].correct:
                break
        failed = [verdict for verdict in given if verdict.correct is None and verdict.code is not Code.NOT_COMPARABLE]
        wrong = [verdict for verdict in given if verdict.correct is False]
        deciding = given[-1] if given[-1].correct else (failed or wrong or given)[-1]
        sums = {"cost": sum(one.cost for one in given), "tokens": sum(one.tokens for one in given)}
        return replace(deciding, **sums)


def in_order(judges: Sequence[Judge]) -> Judge:
    """One judge as it is, several as a panel."""
    return judges[0] if len(judges) == 1 else Panel(judges)


def recorded(verdict: Verdict, judge: str, places: Sequence[str] = ()) -> dict[str, Any]:
    """A verdict as it stands in a record; provenance only where there is some. ``places``: of the judge's models."""
    found: dict[str, Any] = {"judge": judge}
    if any(places):
        found["at"] = list(places)
    found |= {name: getattr(verdict, name) for name in ("correct", "score", "reason")}
    if verdict.code is not Code.JUDGED:
        found["code"] = verdict.code.value
    if verdict.model:
        found |= {"model": verdict.model, "prompt": verdict.prompt, "tokens": verdict.tokens, "cost": verdict.cost}
        found["remembered"] = verdict.remembered
    return found


def with_verdict(trajectory: Trajectory, verdict: Verdict, judge: str) -> Trajectory:
    """The trajectory with a verdict in place of an earlier one."""
    return trajectory.model_copy(update={"meta": {**trajectory.meta, META_KEY: recorded(verdict, judge)}})


def verdict_of(trajectory: Trajectory, judge: str | None = None) -> bool | None:
    """The recorded verdict of this judge, or of whichever spoke last; None: not judged by it, or it failed."""
    return verdict_in(trajectory.meta.get(META_KEY), judge)


def verdict_in(found: Any, judge: str | None = None, places: Sequence[str] | None = None) -> bool | None:
    """:func:`verdict_of` for what :func:`recorded` gave. Verdicts of models in other ``places`` do not count, where known."""
    if not isinstance(found, dict) or (judge is not None and found.get("judge") != judge):
        return None
    if places is not None and found.get("at", list(places)) != list(places):
        return None
    correct = found.get("correct")
    return correct if isinstance(correct, bool) else None
