"""The attempts behind a figure: which they are, and under what name a page lists them. Knows no layout."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sanderling.evaluate.comparing.model import Attempted, Run, RunsReport
from sanderling.evaluate.reading import Outcome
from sanderling.report.numbers import ending_words

UNSCORED, HIDDEN, CONTAMINATED, DISPUTED, BY_HAND = "unscored", "hidden", "contaminated", "disputed", "by-hand"


@dataclass(frozen=True)
class Evidence:
    """Attempts at questions; of whole questions, which all attempts are meant by, none are named."""

    id: str
    run: int
    title: str
    attempts: dict[str, tuple[int, ...]]
    """By question; empty: all of them."""


def evidence(report: RunsReport) -> list[Evidence]:
    """All lists that have something in them."""
    found = [one for number, run in enumerate(report.runs) for one in _of_run(number, run)]
    names = [run.name for run in report.runs]
    for place, pair in enumerate(report.pairs):
        for kind, questions in (("better", pair.better), ("worse", pair.worse)):
            title = f"{pair.name} is {kind} than {pair.baseline}"
            found.append(Evidence(pair_id(place, kind), names.index(pair.name), title, dict.fromkeys(questions, ())))
    return [one for one in found if one.attempts]


def evidence_id(run: int, kind: str, value: str = "") -> str:
    """The name under which a page lists them."""
    return f"e{run}-{kind}" + (f"-{value}" if value else "")


def group_id(report: RunsReport, run: int, name: str, group: str) -> str:
    """Of a level, topic or the like, by its place: its own name may be anything."""
    groups = report.runs[run].result.groups.get(name, {})
    return evidence_id(run, name, str(list(groups).index(group))) if group in groups else ""


def ending_id(run: int, ending: str | None) -> str:
    """Of an ending; None: the record does not say."""
    return evidence_id(run, "ending", ending or "unknown")


def pair_id(place: int, kind: str) -> str:
    """Of a comparison's questions."""
    return f"pair{place}-{kind}"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as they are written briefly.

    Example: ``ranges([0, 1, 2, 5]) == "0–2, 5"``
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in parts)


def by_question(attempts: Iterable[Attempted]) -> dict[str, tuple[int, ...]]:
    """The numbers of attempts, in the order of questions."""
    found: dict[str, list[int]] = {}
    for one in attempts:
        found.setdefault(one.question, []).append(one.attempt)
    return {question: tuple(numbers) for question, numbers in found.items()}


def _of_run(number: int, run: Run) -> list[Evidence]:
    kinds: list[tuple[str, str, Callable[[Attempted], bool]]] = [
        (UNSCORED, "Not scored", lambda one: one.outcome is Outcome.UNSCORED),
        (HIDDEN, "The guard hid something from them", lambda one: one.was_hidden),
        (CONTAMINATED, "They read their question word for word", lambda one: one.contaminated),
        (DISPUTED, "The judges differ", lambda one: one.is_disputed),
        (BY_HAND, "Judged by a person", lambda one: one.by_hand),
    ]
    found = [
        Evidence(evidence_id(number, kind), number, title, by_question(filter(holds, run.attempts)))
        for kind, title, holds in kinds
    ]
    for ending in dict.fromkeys(one.ending for one in run.attempts):
        title = "Ending not recorded" if ending is None else f"Ended: {ending_words(ending)}"
        own = by_question(one for one in run.attempts if one.ending is ending)
        found.append(Evidence(ending_id(number, ending), number, title, own))
    for name, groups in run.result.groups.items():
        for place, group in enumerate(groups):
            own = [one.id for one in run.result.questions if group in one.groups.get(name, ())]
            title = f"{name} {group}"
            found.append(Evidence(evidence_id(number, name, str(place)), number, title, dict.fromkeys(own, ())))
    return found
