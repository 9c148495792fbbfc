"""Open world: whether an agent, in the world and with the question's mask on, finds the answer in any of several attempts.

The agent is handed in as a function: the one research loop, with whatever model, profile and budgets the caller chose.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sanderling.core.asking import placed
from sanderling.core.record import Question, Trajectory
from sanderling.judge.verdict import Judge, Ruling
from sanderling.synth.verify.contract import Check, Finding, Result

Attempt = Callable[[Question, int], Awaitable[Trajectory]]
"""A question and the number of the attempt, to the episode."""


@dataclass(frozen=True)
class OpenWorld:
    """See the module."""

    attempt: Attempt
    judge: Judge
    agent: dict[str, Any]
    """JSON: model, profile, world and seed, which the findings depend on."""
    attempts: int = 3
    check: Check = Check.OPEN_WORLD

    @property
    def made_with(self) -> dict[str, Any]:
        return {"agent": self.agent, "judge": placed(self.judge.name, self.judge.places), "attempts": self.attempts}

    async def __call__(self, question: Question) -> Result:
        """The first right answer settles it; where none is right, an outage leaves it open."""
        told: list[str] = []
        for number in range(self.attempts):
            episode = await self.attempt(question, number)
            ending = episode.ending
            if ending is None or not ending.scored:
                told.append(Ruling.UNSCORED.value)
                continue
            ruling = Ruling.INCORRECT if episode.answer is None else (await self.judge(episode)).ruling
            told.append(ruling.value)
            if ruling is Ruling.CORRECT:
                return Result(self.check, Finding.PASSED, f"Attempt {number + 1} was right.", {"rulings": told})
        if Ruling.UNSCORED.value in told:
            return Result(self.check, Finding.UNSCORED, "An attempt could not be scored.", {"rulings": told})
        return Result(self.check, Finding.FAILED, f"None of {self.attempts} attempts was right.", {"rulings": told})
