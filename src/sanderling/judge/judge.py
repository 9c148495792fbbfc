"""Judges: who says whether a trajectory's answer is right. The contract, the judge that goes by rule, and several in order.

A judge that cannot tell says *unscored*, never "wrong". Only the agent's own answer is read, never text from a tool.
:func:`rule_on` settles what needs no judge, and is how every stage asks one. Knows no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sanderling.core.record import Trajectory
from sanderling.judge.outcome import Outcome, score_trajectory
from sanderling.judge.verdict import Code, Ruling, Verdict, unscored


class Judge(Protocol):
    """Says whether a trajectory's answer is right."""

    @property
    def name(self) -> str:
        """Tells judges apart wherever verdicts are kept: with the model, the version of the prompt, the threshold."""
        ...

    @property
    def places(self) -> tuple[str, ...]:
        """Where its models are, in their order: two servers may give different models one name. Empty for a rule."""
        ...

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """Judge one trajectory; never raises for an outage of its own, which is a verdict of UNSCORED."""
        ...


async def rule_on(trajectory: Trajectory, judge: Judge) -> Verdict:
    """The verdict on a trajectory. Without an answer of its own it is wrong without asking; an outage has no verdict."""
    ending, answer = trajectory.ending, trajectory.answer
    if ending is not None and not ending.scored:
        return unscored(Code.NOT_ENDED, f"ended in {ending.value}")
    if ending is None and answer is None:
        return unscored(Code.NOT_ENDED, "tells neither an ending nor an answer")
    if answer is None or not answer.strip() or not (ending is None or ending.has_answer):
        return Verdict(Ruling.INCORRECT, 0.0, "no answer of its own", Code.NO_ANSWER)
    if not any(accepted.strip() for accepted in trajectory.question.answers):
        return unscored(Code.NO_ACCEPTED, "the question has no accepted answer")
    return await judge(trajectory)


@dataclass(frozen=True)
class RuleJudge:
    """Judges by a rule such as exact match; deterministic and free."""

    name: str
    outcome: Outcome
    threshold: float = 1.0
    """Least score that counts as correct."""
    places: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """Raises UserError for a question without accepted answers."""
        score = score_trajectory(trajectory, self.outcome)
        if score is None:
            return unscored(Code.NOT_ENDED, f"ended in {trajectory.ending or 'an unknown way'}")
        if trajectory.answer is None:
            return Verdict(Ruling.INCORRECT, score, "no answer", Code.NO_ANSWER)
        ruling = Ruling.CORRECT if score >= self.threshold else Ruling.INCORRECT
        return Verdict(ruling, score, f"{self.name} score {score:.2f}")


class Panel:
    """Several judges in order: the first that finds the answer right settles it, and the others are not asked.

    The answer is wrong when at least one judge says so, none says it is right, and none failed. A judge whose kind of answer it
    is not (NOT_COMPARABLE) is passed over; one that was not reached or not understood leaves it unscored.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        """At least one judge. Raises ValueError."""
        if not judges:
            raise ValueError("a panel needs a judge")
        self._judges = tuple(judges)

    @property
    def name(self) -> str:
        return ", then ".join(judge.name for judge in self._judges)

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(place for judge in self._judges for place in judge.places)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """Ask in order."""
        said: list[Verdict] = []
        for judge in self._judges:
            said.append(await judge(trajectory))
            if said[-1].ruling is Ruling.CORRECT:
                break
        failed = [verdict for verdict in said if verdict.correct is None and verdict.code is not Code.NOT_COMPARABLE]
        wrong = [verdict for verdict in said if verdict.ruling is Ruling.INCORRECT]
        deciding = said[-1] if said[-1].correct else (failed or wrong or said)[-1]
        cost, tokens = sum(one.cost for one in said), sum(one.tokens for one in said)
        return replace(deciding, cost=cost, tokens=tokens, is_estimated=any(one.is_estimated for one in said))


def in_order(judges: Sequence[Judge]) -> Judge:
    """One judge as it is, several as a panel."""
    return judges[0] if len(judges) == 1 else Panel(judges)
