"""Recorded calls, and each of them repeated in a world: one row of values for every search and visit.

A query is asked for as many results as its recorded list has, k at most, so that length alone is no difference. URLs are
compared in canonical form.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sanderling.core.observations import ListedPage, read_observation
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import SearchHit, World, answered
from sanderling.world.text import words


@dataclass(frozen=True)
class RecordedSearch:
    """One query and the ranked list it was answered with."""

    question: Question
    query: str
    hits: tuple[ListedPage, ...]


@dataclass(frozen=True)
class RecordedVisit:
    """One page that was asked for, and what came back: its own words, else its summary; empty for a failure."""

    question: Question
    url: str
    goal: str
    text: str


@dataclass(frozen=True)
class RecordedCalls:
    """What trajectories recorded of their tools."""

    searches: tuple[RecordedSearch, ...]
    visits: tuple[RecordedVisit, ...]


def recorded_calls(trajectories: Iterable[Trajectory]) -> RecordedCalls:
    """Every search and visit, in order."""
    searches: list[RecordedSearch] = []
    visits: list[RecordedVisit] = []
    for trajectory in trajectories:
        question = trajectory.question
        for node in (node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION):
            reading = read_observation(node.text)
            searches += [RecordedSearch(question, block.query, block.hits) for block in reading.blocks]
            statuses = [status for event in node.events for status in event.parts or (event.status,)]
            if len(statuses) != len(reading.extracts):
                statuses = [ToolStatus.NOT_FOUND if page.dead else ToolStatus.OK for page in reading.extracts]
            for page, status in zip(reading.extracts, statuses, strict=True):
                text = (page.evidence or page.summary) if status is ToolStatus.OK else ""
                visits.append(RecordedVisit(question, page.url, page.goal, text))
    return RecordedCalls(tuple(searches), tuple(visits))


@dataclass(frozen=True)
class Row:
    """One recorded call repeated in the world; whether what each of them showed holds an accepted answer."""

    question: str  # its id
    values: Mapping[str, float]  # by measure: those that are defined for the call
    answer_recorded: bool
    answer_shown: bool


def compare_calls(calls: RecordedCalls, world: World, *, k: int) -> list[Row]:
    """A row for each search, then for each visit, in order."""
    return [*(_search(call, world, k) for call in calls.searches), *(_visit(call, world) for call in calls.visits)]


def _search(call: RecordedSearch, world: World, k: int) -> Row:
    urls = _addresses(call.hits)[:k]
    shown = answered(world.search(call.query, limit=len(urls))).hits if urls else ()
    values = {"overlap": len(set(urls) & set(_addresses(shown))) / len(urls)} if urls else {}
    recorded, here = ("\n".join(f"{hit.title}\n{hit.snippet}" for hit in hits) for hits in (call.hits[:k], shown))
    return _row(call.question, values, recorded, here)


def _visit(call: RecordedVisit, world: World) -> Row:
    reply = answered(world.visit(call.url, call.goal))
    values = {"visit_held": float(reply.status is not ToolStatus.NOT_FOUND)}
    return _row(call.question, values, call.text, reply.text if reply.status is ToolStatus.OK else "")


def _row(question: Question, values: Mapping[str, float], recorded: str, shown: str) -> Row:
    return Row(question.id, values, holds_answer(recorded, question.answers), holds_answer(shown, question.answers))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether the words of an answer stand in the text, in order; short answers and yes or no say nothing and never do."""
    common = {"yes", "no", "true", "false", "none", "unknown"}
    telling = [a for a in map(str.strip, answers) if len(a) >= 3 and a.casefold() not in common and words(a)]
    spoken = f" {' '.join(words(text))} " if telling else ""
    return any(f" {' '.join(words(answer))} " in spoken for answer in telling)


def _addresses(hits: Sequence[ListedPage | SearchHit]) -> tuple[str, ...]:
    """Canonical URLs in order, each once, at its first place."""
    return tuple(dict.fromkeys(canonical_url(hit.url) for hit in hits))
