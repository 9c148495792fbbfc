"""Recorded calls as they are compared: one search for each result list, one visit for each page that was asked for.

Read out of observations, whatever their layout. What an observation does not say is not guessed: a page that "could not be
accessed" has failed for an unknown reason and is NOT_FOUND here, unless the record has its status beside the text. Knows no
world.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sanderling.core.observations import ListedPage, Reading, read_observation
from sanderling.core.record import NodeKind, ToolEvent, Trajectory
from sanderling.core.types import ToolStatus
from sanderling.world.fidelity.gold import gold_pages, telling


@dataclass(frozen=True)
class RecordedSearch:
    """One query and the ranked list it was answered with."""

    group: str
    """The question it was made for: queries of one question depend on each other."""
    query: str
    hits: tuple[ListedPage, ...]
    answers: tuple[str, ...] = ()
    """Accepted answers of the question that a text can give away (`gold.telling`)."""
    gold: frozenset[str] = frozenset()
    """Canonical URLs of pages that are known to answer the question (`gold.gold_pages`)."""


@dataclass(frozen=True)
class RecordedVisit:
    """One page that was asked for, and what came back of it."""

    group: str
    url: str
    goal: str
    text: str
    """The page's own words as they were shown; its summary where nothing else was recorded; empty for a failure."""
    status: ToolStatus


@dataclass(frozen=True)
class RecordedCalls:
    """What trajectories recorded of their tools."""

    searches: tuple[RecordedSearch, ...]
    visits: tuple[RecordedVisit, ...]
    trajectories: int
    odd: tuple[tuple[str, int], ...]
    """Codes of `observations.Reading.problems`, with counts, sorted."""


def recorded_calls(trajectories: Iterable[Trajectory]) -> RecordedCalls:
    """Every search and visit, in order. A trajectory's group is its question's id."""
    trajectories = tuple(trajectories)
    gold = gold_pages(trajectories)
    searches: list[RecordedSearch] = []
    visits: list[RecordedVisit] = []
    odd: Counter[str] = Counter()
    for trajectory in trajectories:
        question = trajectory.question
        answers, pages = telling(question.answers), gold.get(question.id, frozenset())
        for node in trajectory.nodes:
            if node.kind is NodeKind.OBSERVATION:
                reading = read_observation(node.text)
                odd.update(reading.problems)
                searches += [RecordedSearch(question.id, b.query, b.hits, answers, pages) for b in reading.blocks]
                visits += _visits(question.id, reading, node.events)
    return RecordedCalls(tuple(searches), tuple(visits), len(trajectories), tuple(sorted(odd.items())))


def _visits(group: str, reading: Reading, events: Sequence[ToolEvent]) -> list[RecordedVisit]:
    told = [status for event in events for status in event.parts or (event.status,)]
    statuses = told if len(told) == len(reading.extracts) else None
    found = []
    for index, extract in enumerate(reading.extracts):
        read = ToolStatus.NOT_FOUND if extract.dead else ToolStatus.OK
        status = statuses[index] if statuses else read
        text = (extract.evidence or extract.summary) if status is ToolStatus.OK else ""
        found.append(RecordedVisit(group, extract.url, extract.goal, text, status))
    return found
