"""Recorded trajectories as a world: every page they listed or read, by its real URL.

Some may be held out, so that the world can be compared with what it was not built from: by their question,
the seed and the share alone, so a larger share holds out what a smaller one does and more. The world keeps digests, no text.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from rich.table import Table

from sanderling.core.chat import unwrap
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.observations import read_result
from sanderling.core.profiles import ListedPage
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.core.types import ToolStatus
from sanderling.runs.files import replace_file
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page, SearchHit, World, answered
from sanderling.world.text import words

BUILT_FROM_FILE = "built_from.json"


@dataclass(frozen=True)
class RecordedReport:
    """What was found in the observations; an address without text is no page: only visits met it, and it could not be read."""

    trajectories: int = 0
    observations: int = 0
    result_lists: int = 0
    hits: int = 0
    extracts: int = 0
    dead_extracts: int = 0
    urls: int = 0
    pages: int = 0
    textless_urls: tuple[str, ...] = ()
    odd: tuple[tuple[str, int], ...] = ()  # codes of `observations.Reading.problems`, with counts

    def __rich__(self) -> Table:
        table = Table("what", "count", title="Recorded world")
        counts = [(name, value) for name, value in vars(self).items() if isinstance(value, int)]
        for name, count in (*counts, ("textless_urls", len(self.textless_urls)), *self.odd):
            table.add_row(name.replace("_", " "), str(count))
        return table


@dataclass
class _Draft:
    """A page that is being gathered: the first title and date that were given, and distinct pieces of text by their words."""

    url: str
    title: str = ""
    date: str = ""
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, title: str = "", date: str = "") -> None:
        self.title = self.title or title
        self.date = self.date or date
        if text.strip():
            self.texts.setdefault(" ".join(text.split()), text.strip())


def answerable_questions(trajectories: Iterable[Trajectory]) -> list[Question]:
    """What the trajectories were asked, where an accepted answer is known: each question once, in order."""
    found: dict[str, Question] = {}
    for trajectory in trajectories:
        question = trajectory.question
        if question.text.strip() and question.answers:
            found.setdefault(question.id, question)
    return list(found.values())


def pages_from_trajectories(trajectories: Iterable[Trajectory]) -> tuple[list[Page], RecordedReport]:
    """The pages in the order their addresses were first seen, and what was found."""
    drafts: dict[str, _Draft] = {}
    counts, odd = Counter[str](), Counter[str]()
    urls: set[str] = set()

    def draft(url: str) -> _Draft:
        urls.add(url)
        return drafts.setdefault(canonical_url(url), _Draft(url))

    for trajectory in trajectories:
        counts["trajectories"] += 1
        for node in (node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION):
            reading = read_result(node.text, node.events)
            counts["observations"] += 1
            odd.update(reading.problems)
            for block in reading.blocks:
                counts.update(result_lists=1, hits=len(block.hits))
                for hit in block.hits:
                    draft(hit.url).add(hit.snippet, hit.title, hit.date)
            for extract in reading.extracts:
                counts.update(extracts=1, dead_extracts=extract.dead)
                page = draft(extract.url)
                if not extract.dead:
                    page.add(extract.text, extract.title)
    pages: list[Page] = []
    textless: list[str] = []
    for found in drafts.values():
        if text := "\n\n".join(found.texts.values()) or found.title:
            pages.append(Page(url=found.url, title=found.title or found.url, text=text, date=found.date, source="recorded"))
        else:
            textless.append(found.url)
    about = {"urls": len(urls), "pages": len(pages), "textless_urls": tuple(textless), "odd": tuple(sorted(odd.items()))}
    return pages, RecordedReport(**counts, **about)


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
            reading = read_result(node.text, node.events)
            searches += [RecordedSearch(question, block.query, block.hits) for block in reading.blocks if block.query]
            statuses = [status for event in node.events for status in event.parts or (event.status,)]
            if len(statuses) != len(reading.extracts):
                statuses = [ToolStatus.NOT_FOUND if page.dead else ToolStatus.OK for page in reading.extracts]
            for page, status in zip(reading.extracts, statuses, strict=True):
                text = (page.evidence or page.summary) if status is ToolStatus.OK else ""
                visits.append(RecordedVisit(question, page.url, page.goal, text))
    return RecordedCalls(tuple(searches), tuple(visits))


class BuiltFrom(Frozen):
    """What a recorded world was built from: digests only."""

    share: float  # of the units that was to be held out
    unit: Literal["question"] = "question"  # what is held out as a whole: every attempt at it
    seed: int
    trajectories: frozenset[str]  # of their observations: a renamed file is known all the same
    questions: frozenset[str]
    queries: frozenset[str]
    held_out: int


@dataclass(frozen=True)
class Sides:
    """Trajectories sorted by what a world knows of them; no figure counts those of a question of which another was built in."""

    unseen: tuple[Trajectory, ...]
    built_in: tuple[Trajectory, ...]
    same_question: tuple[Trajectory, ...]


def place_of(key: str, seed: int) -> float:
    """Where a unit stands in [0, 1): SHA-256 of the seed and the key, case and spaces aside."""
    digest = hashlib.sha256(f"{seed}\0{_plain(key)}".encode("utf-8", "replace")).digest()
    return (int.from_bytes(digest[:8]) >> 11) / 2**53


def key_of(trajectory: Trajectory) -> str:
    """What decides a trajectory's side: its question's text."""
    return trajectory.question.text or trajectory.question.id


def split(trajectories: Iterable[Trajectory], share: float, seed: int) -> tuple[list[Trajectory], list[Trajectory]]:
    """Those to build from and those held out, each in order. Raises UserError for no share in [0, 1), or when none is left."""
    if not 0.0 <= share < 1.0:
        raise UserError(f"A share of {share:g} cannot be held out: give one from 0 to below 1, such as 0.2.")
    built: list[Trajectory] = []
    held: list[Trajectory] = []
    for trajectory in trajectories:
        (held if place_of(key_of(trajectory), seed) < share else built).append(trajectory)
    if held and not built:
        raise UserError(f"Holding out a share of {share:g} leaves no trajectory to build from: hold out less.")
    return built, held


def built_from(built: Sequence[Trajectory], held: Sequence[Trajectory], share: float, seed: int) -> BuiltFrom:
    """What the world will remember."""
    return BuiltFrom(
        share=share,
        seed=seed,
        trajectories=frozenset(map(_content, built)),
        questions=frozenset(_digest(key_of(trajectory)) for trajectory in built),
        queries=frozenset(_digest(search.query) for search in recorded_calls(built).searches),
        held_out=len(held),
    )


def sides(trajectories: Iterable[Trajectory], known: BuiltFrom) -> Sides:
    """Sort trajectories by whether a world was built from them."""
    found: tuple[list[Trajectory], ...] = ([], [], [])
    for trajectory in trajectories:
        built_in = _content(trajectory) in known.trajectories
        shared = _digest(key_of(trajectory)) in known.questions
        found[1 if built_in else 2 if shared else 0].append(trajectory)
    return Sides(*map(tuple, found))


def was_asked(search: RecordedSearch, known: BuiltFrom) -> bool:
    """Whether the very query was also made by a trajectory that was built in."""
    return _digest(search.query) in known.queries


def write_built_from(directory: Path, memories: Sequence[BuiltFrom]) -> None:
    """Write the memory of a world that came together from several: share, unit and seed of the first. Raises OSError."""
    data = memories[0].model_dump(mode="json")
    for name in ("trajectories", "questions", "queries"):
        data[name] = sorted({digest for known in memories for digest in getattr(known, name)})
    replace_file(directory / BUILT_FROM_FILE, json.dumps(data, indent=1) + "\n")


def read_built_from(directory: Path) -> BuiltFrom | None:
    """The memory of a world, or None where there is none. Raises UserError when it is damaged."""
    try:
        return BuiltFrom.model_validate_json((directory / BUILT_FROM_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UserError(f"{directory / BUILT_FROM_FILE} cannot be read: build the recorded world again.") from error


def _content(trajectory: Trajectory) -> str:
    """Digest of what the tools said; of the id where they said nothing."""
    said = [unwrap(node.text) for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION]
    text = "\0".join(said) if said else f"id\0{trajectory.id}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _digest(words: str) -> str:
    """Of a question or query, case and spaces aside."""
    return hashlib.sha256(_plain(words).encode("utf-8", "replace")).hexdigest()[:32]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


# -- recorded calls, and each of them repeated in a world ----------------------------------------------------------------
# A query is asked for as many results as its recorded list has, k at most, so that length alone is no difference.


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
