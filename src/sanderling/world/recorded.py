"""Pages out of recorded trajectories: everything that a search listed or a visit returned, by its real URL.

Contract: one page for each URL (spellings of one address are one page, shown by its first spelling); its title and date are the
first that were given, its text the distinct snippets and extracts in the order they were seen (its title, where there are
none). The same trajectories in the same order give the same pages. An address without any words (only dead visits) is left out
and counted.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.table import Table

from sanderling.core.observations import Reading, read_observation
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.world.canonical import canonical_url
from sanderling.world.contract import Page

SOURCE = "recorded"


@dataclass(frozen=True)
class RecordedReport:
    """What was found in the observations."""

    trajectories: int = 0
    observations: int = 0
    result_lists: int = 0
    empty_lists: int = 0
    hits: int = 0
    extracts: int = 0
    dead_extracts: int = 0
    """Visits whose page could not be read when they were recorded."""
    searched_urls: int = 0
    """Distinct URLs as written in search results."""
    urls: int = 0
    """Distinct URLs as written, in results and visits."""
    pages: int = 0
    textless: int = 0
    """Addresses without any words: no page."""
    textless_urls: tuple[str, ...] = ()
    odd: tuple[tuple[str, int], ...] = ()
    """Codes of `observations.Reading.problems`, with counts, sorted."""

    def __rich__(self) -> Table:
        table = Table("what", "count", title="Recorded world")
        for name in self.__dataclass_fields__:
            if name not in ("odd", "textless_urls"):
                table.add_row(name.replace("_", " "), str(getattr(self, name)))
        table.add_section()
        for code, count in self.odd:
            table.add_row(code, str(count))
        return table


@dataclass
class _Draft:
    """A page that is being gathered."""

    url: str
    title: str = ""
    date: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    """Pieces of text by their words, in order."""

    def add(self, title: str, date: str, text: str) -> None:
        self.title = self.title or title
        self.date = self.date or date
        if text.strip():
            self.texts.setdefault(" ".join(text.split()), text.strip())

    @property
    def has_words(self) -> bool:
        return bool(self.texts or self.title)

    def page(self) -> Page:
        text = "\n\n".join(self.texts.values()) or self.title
        return Page(url=self.url, title=self.title or self.url, text=text, date=self.date, source=SOURCE)


@dataclass
class _Gathering:
    """All pages and counts so far."""

    drafts: dict[str, _Draft] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    searched: set[str] = field(default_factory=set)
    visited: set[str] = field(default_factory=set)

    def draft(self, url: str) -> _Draft:
        return self.drafts.setdefault(canonical_url(url), _Draft(url))

    def add(self, reading: Reading) -> None:
        self.counts["observations"] += 1
        self.odd.update(reading.problems)
        for block in reading.blocks:
            self.counts["result_lists"] += 1
            self.counts["empty_lists"] += not block.hits
            self.counts["hits"] += len(block.hits)
            for hit in block.hits:
                self.searched.add(hit.url)
                self.draft(hit.url).add(hit.title, hit.date, hit.snippet)
        for extract in reading.extracts:
            self.counts["extracts"] += 1
            self.counts["dead_extracts"] += extract.dead
            self.visited.add(extract.url)
            self.draft(extract.url).add("", "", "" if extract.dead else extract.text)


def answerable_questions(trajectories: Iterable[Trajectory]) -> list[Question]:
    """What the trajectories were asked, where an accepted answer is known: each question once, in order."""
    found: dict[str, Question] = {}
    for trajectory in trajectories:
        question = trajectory.question
        if question.text.strip() and question.answers:
            found.setdefault(question.id, question)
    return list(found.values())


def pages_from_trajectories(trajectories: Iterable[Trajectory]) -> tuple[list[Page], RecordedReport]:
    """The pages in the order their addresses were first seen, and what was found.

    Example: ``pages, report = pages_from_trajectories(import_tree(directory).trajectories)``
    """
    gathering = _Gathering()
    for trajectory in trajectories:
        gathering.counts["trajectories"] += 1
        for node in trajectory.nodes:
            if node.kind is NodeKind.OBSERVATION:
                gathering.add(read_observation(node.text))
    drafts = gathering.drafts.values()
    pages = [draft.page() for draft in drafts if draft.has_words]
    textless = tuple(draft.url for draft in drafts if not draft.has_words)
    report = RecordedReport(
        **gathering.counts,
        searched_urls=len(gathering.searched),
        urls=len(gathering.searched | gathering.visited),
        pages=len(pages),
        textless=len(textless),
        textless_urls=textless,
        odd=tuple(sorted(gathering.odd.items())),
    )
    return pages, report
