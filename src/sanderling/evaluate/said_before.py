"""Judges who say again what they said before: for a run to which a person's word comes, and whose judges are not at hand.

Knows the list of judged attempts alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sanderling.core.record import Trajectory
from sanderling.evaluate.judged import JudgedAttempt
from sanderling.judge.verdict import Code, Ruling, Verdict, unscored

_DETAILS = ("grade", "extracted", "confidence", "parts", "excessive")
_WORD = {"correct", "score", "code", "reason", *_DETAILS}


@dataclass(frozen=True)
class SaidBefore:
    """A judge by what it said of each trajectory's id; of others it says nothing."""

    name: str
    said: dict[str, Verdict]
    places: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        return self.known(trajectory) or unscored(Code.NOT_ENDED, f"{self.name} was not asked about it")

    def known(self, trajectory: Trajectory) -> Verdict | None:
        """What it said; None: nothing."""
        return self.said.get(trajectory.id)


def first_before(name: str, judged: Iterable[JudgedAttempt]) -> SaidBefore:
    """The judge that decided; where a person did, what it had said before them."""
    return SaidBefore(name, {one.id: said for one in judged if (said := _said(one)) is not None})


def second_before(name: str, judged: Iterable[JudgedAttempt]) -> SaidBefore:
    """The judge that was compared with it."""
    said = {one.id: {"correct": one.second, "reason": one.second_reason} for one in judged if one.second is not None}
    return SaidBefore(name, {id: _verdict(word) for id, word in said.items()})


def _said(one: JudgedAttempt) -> Verdict | None:
    if one.code is not Code.BY_HAND:
        return _verdict(one.model_dump(include=_WORD))
    return _verdict(one.before) if one.before else None


def _verdict(said: dict[str, Any]) -> Verdict:
    """What `recorded` made a line of, but for what it took."""
    correct, code = said.get("correct"), Code(said.get("code", Code.JUDGED))
    if correct is None:
        return unscored(code, said.get("reason", ""))
    details = {name: said[name] for name in _DETAILS if name in said}
    ruling = Ruling.CORRECT if correct else Ruling.INCORRECT
    return Verdict(ruling, said.get("score", float(correct)), said.get("reason", ""), code, **details)
