"""A trajectory to be read by a person: its steps in order, without tokens.

Rejected attempts at a turn stand where they happened, marked. Text is made safe to store as UTF-8 (a lone surrogate, which a
model can write, becomes the replacement character); nothing else is changed, and nothing is escaped: that is the page's work.
"""

import json
from collections.abc import Iterable
from enum import StrEnum

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.text import without_surrogates
from sanderling.core.types import Ending
from sanderling.evaluate.result import Record
from sanderling.report.numbers import duration, ending_words


class Outcome(StrEnum):
    """What became of an episode."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNSCORED = "unscored"

    @property
    def title_of_one(self) -> str:
        """What stands above an episode of this outcome."""
        return {"correct": "A right answer", "wrong": "A wrong answer", "unscored": "Not scored"}[self.value]


OUTCOMES = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.UNSCORED}


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
    """One episode, whole; ``facts`` stand above its steps on a page.

    Example: ``reading_of(trajectory, "A right answer", correct=True)``
    """

    title: str
    id: str
    question: str
    outcome: Outcome
    facts: dict[str, str]
    steps: tuple[Step, ...]


def reading_of(trajectory: Trajectory, title: str, *, correct: bool | None) -> Reading:
    """A trajectory's main branch and its rejected attempts, in the order they happened."""
    main = set(trajectory.path())
    steps: list[Step] = []
    turns = 0
    for index, node in enumerate(trajectory.nodes):
        if index in main or node.rejected:
            counts = node.kind is NodeKind.TURN and index in main
            turns += counts
            steps.append(_step(node, turns if counts else None))
    seeds, question, detail = trajectory.seeds, trajectory.question, trajectory.detail
    facts = {
        "Expected": " / ".join(question.answers) or "unknown",
        "Answered": trajectory.answer if trajectory.answer is not None else "nothing",
        "Ended": ending_words(trajectory.ending or "unknown") + (f": {detail}" if detail else ""),
        "Turns": str(turns),
        "Hops": "" if question.hops is None else str(question.hops),
        "Time": duration(trajectory.seconds),
        "Model": trajectory.model,
        "Episode": f"{trajectory.id} (run {seeds.run}, episode {seeds.episode}, attempt {seeds.attempt})",
    }
    return Reading(
        title=without_surrogates(title),
        id=without_surrogates(trajectory.id),
        question=without_surrogates(question.text),
        outcome=OUTCOMES[correct],
        facts={name: without_surrogates(value) for name, value in facts.items() if value},
        steps=tuple(steps),
    )


def pick_three(candidates: Iterable[tuple[Trajectory, bool | None]]) -> list[tuple[str, Trajectory, bool | None]]:
    """Up to three (title, trajectory, verdict): the first right answer, the first wrong one, the first without an answer."""
    found: dict[str, tuple[Trajectory, bool | None]] = {}
    titles = ("A right answer, the first", "A wrong answer, the first", "No answer of its own accord, the first")
    for trajectory, correct in candidates:
        answered = trajectory.ending is Ending.ANSWERED
        if not answered or correct is not None:
            found.setdefault(titles[0 if correct else 1 if answered else 2], (trajectory, correct))
    return [(title, *found[title]) for title in titles if title in found]


def _step(node: Node, turn: int | None) -> Step:
    parsed = node.kind is NodeKind.TURN and bool(node.think or node.calls or node.answer is not None)
    calls = [f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in node.calls]
    return Step(
        kind=node.kind,
        turn=turn,
        think=without_surrogates((node.think or "").strip()),
        calls=tuple(map(without_surrogates, calls)),
        answer=None if node.answer is None else without_surrogates(node.answer),
        text="" if parsed else without_surrogates(node.text.strip("\n")),
        statuses=tuple(f"{event.name}: {event.status.value}" for event in node.events),
        problems=node.problems,
        rejected=node.rejected,
    )


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
