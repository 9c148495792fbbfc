"""A trajectory to be read by a person: its steps in order, without tokens.

Rejected attempts at a turn stand where they happened, marked. Text is made safe to store as UTF-8 (a lone surrogate, which a
model can write, becomes the replacement character); nothing else is changed, and nothing is escaped: that is the page's work.
"""

import json
import re
from collections.abc import Iterable
from enum import StrEnum

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.result import Record
from sanderling.report.numbers import duration, ending_words

_SURROGATE = re.compile("[\ud800-\udfff]")


class Outcome(StrEnum):
    """What became of an episode."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNSCORED = "unscored"


class Step(Record):
    """One message."""

    kind: NodeKind
    turn: int | None = None  # from 1, for a TURN on the main branch
    think: str = ""
    calls: tuple[str, ...] = ()  # ``name {arguments}`` of each call
    answer: str | None = None
    text: str = ""  # of anything but a turn; of a turn only where the parser found nothing in it
    statuses: tuple[str, ...] = ()  # of an observation's calls
    problems: tuple[str, ...] = ()
    rejected: bool = False


class Reading(Record):
    """One episode, whole.

    Example: ``reading_of(trajectory, "A right answer", correct=True)``
    """

    title: str
    id: str
    question: str
    expected: tuple[str, ...]
    answer: str | None
    outcome: Outcome
    ending: Ending | None
    detail: str = ""
    hops: int | None = None
    model: str
    seeds: str
    seconds: float
    steps: tuple[Step, ...]


def reading_of(trajectory: Trajectory, title: str, *, correct: bool | None) -> Reading:
    """A trajectory's main branch and its rejected attempts, in the order they happened."""
    main = set(trajectory.path())
    shown = [(i, node) for i, node in enumerate(trajectory.nodes) if i in main or node.rejected]
    steps: list[Step] = []
    turn = 0
    for index, node in shown:
        counts = node.kind is NodeKind.TURN and index in main
        turn += counts
        steps.append(_step(node, turn if counts else None))
    outcome = Outcome.UNSCORED if correct is None else Outcome.CORRECT if correct else Outcome.WRONG
    seeds = trajectory.seeds
    return Reading(
        title=_clean(title),
        id=_clean(trajectory.id),
        question=_clean(trajectory.question.text),
        expected=tuple(map(_clean, trajectory.question.answers)),
        answer=None if trajectory.answer is None else _clean(trajectory.answer),
        outcome=outcome,
        ending=trajectory.ending,
        detail=_clean(trajectory.detail),
        hops=trajectory.question.hops,
        model=_clean(trajectory.model),
        seeds=f"run {seeds.run}, episode {seeds.episode}, attempt {seeds.attempt}",
        seconds=trajectory.seconds,
        steps=tuple(steps),
    )


def pick_three(candidates: Iterable[tuple[Trajectory, bool | None]]) -> list[tuple[str, Trajectory, bool | None]]:
    """Up to three (title, trajectory, verdict): a right answer, a wrong one, and an episode that ended in any other way.

    Not chosen by hand: the right one is the longest of those handed in, the others are the first.
    """
    right: tuple[str, Trajectory, bool | None] | None = None
    wrong = other = right
    most = -1
    for trajectory, correct in candidates:
        turns = sum(1 for _ in trajectory.turns()) if trajectory.leaf is not None else 0
        if correct and turns > most:
            right, most = ("A right answer, the longest", trajectory, correct), turns
        elif correct is False and trajectory.ending is Ending.ANSWERED:
            wrong = wrong or ("A wrong answer, the first", trajectory, correct)
        elif not correct and trajectory.ending is not Ending.ANSWERED:
            other = other or ("No answer of its own accord, the first", trajectory, correct)
    return [found for found in (right, wrong, other) if found is not None]


def _step(node: Node, turn: int | None) -> Step:
    parsed = node.kind is NodeKind.TURN and bool(node.think or node.calls or node.answer is not None)
    return Step(
        kind=node.kind,
        turn=turn,
        think=_clean((node.think or "").strip()),
        calls=tuple(_clean(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}") for call in node.calls),
        answer=None if node.answer is None else _clean(node.answer),
        text="" if parsed else _clean(node.text.strip("\n")),
        statuses=tuple(f"{event.name}: {event.status.value}" for event in node.events),
        problems=node.problems,
        rejected=node.rejected,
    )


def _clean(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)


_TITLES = {
    NodeKind.SYSTEM: "System prompt",
    NodeKind.QUESTION: "Question as asked",
    NodeKind.OBSERVATION: "Observation",
    NodeKind.HINT: "Notice from the loop",
    NodeKind.RAW: "Message",
}


def step_title(step: Step) -> str:
    """What stands above a step on a page."""
    return f"Turn {step.turn}" if step.turn is not None else _TITLES.get(step.kind, "Rejected attempt")


def reading_facts(reading: Reading) -> list[tuple[str, str]]:
    """What stands above the steps on a page, without what is empty."""
    pairs = {
        "Expected": " / ".join(reading.expected) or "unknown",
        "Answered": reading.answer if reading.answer is not None else "nothing",
        "Ended": ending_words(reading.ending or "unknown") + (f": {reading.detail}" if reading.detail else ""),
        "Turns": str(sum(step.turn is not None for step in reading.steps)),
        "Hops": "" if reading.hops is None else str(reading.hops),
        "Time": duration(reading.seconds),
        "Model": reading.model,
        "Episode": f"{reading.id} ({reading.seeds})",
    }
    return [(name, value) for name, value in pairs.items() if value]
