"""Numbers, quantities with their units, and dates."""

from dataclasses import dataclass

from sanderling.core.record import Trajectory
from sanderling.judge.quantities.compare import Match, compare
from sanderling.judge.verdict import Code, Ruling, Verdict, unscored


@dataclass(frozen=True)
class NumericJudge:
    """Right: the quantity of an accepted answer, in whatever unit and notation; see `quantities.compare`.

    Where rules cannot tell it says so (NOT_COMPARABLE), and the next judge may.
    """

    tolerance: float | None = None

    @property
    def name(self) -> str:
        return "numeric" if self.tolerance is None else f"numeric:{self.tolerance:g}"

    @property
    def places(self) -> tuple[str, ...]:
        """None: it is a rule."""
        return ()

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """See `judge.Judge`."""
        if trajectory.answer is None:
            return unscored(Code.NOT_ENDED, "there is no answer to judge")
        found = {compare(trajectory.answer, accepted, self.tolerance) for accepted in trajectory.question.answers}
        if Match.SAME in found:
            return Verdict(Ruling.CORRECT, 1.0, "the same quantity")
        if Match.UNSURE in found or not found:
            return unscored(Code.NOT_COMPARABLE, "the answers are not one quantity each, or their units have no fixed factor")
        return Verdict(Ruling.INCORRECT, 0.0, "another quantity, or none")


def numeric_judge(number: float | None = None) -> NumericJudge:
    """``number``: the relative tolerance, instead of what the written places allow."""
    return NumericJudge(number)
