"""How far a world resembles recorded calls: one row of values for each recorded query and each recorded visit, put to it.

Every query is asked for as many results as its recorded list has, k at most, so that length alone is no difference. URLs are
compared by canonical form. A value that is not defined for a row is None and enters no mean. Two references make the figures
readable: the *floor* compares each recorded list with the world's answer to a query of another question, and the *ceiling* is
the share of recorded URLs that the world holds at all: no ranking can show more.
"""

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.observations import ListedPage, read_observation
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.text import normalised, shingles
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import SearchHit, World, answered
from sanderling.world.text import word_count, words

MEASURES: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("fidelity.toml").read_text(encoding="utf-8"))
"""What each value of a row means."""
_TOO_COMMON = frozenset({"yes", "no", "true", "false", "none", "unknown"})
_FEWEST_CHARS = 3
_SIGNED = re.compile(r"(?:^|(?<=[\s(]))[-\u2212\u2013]\d|[^\W\d_][+#](?!\w)|\+\+")
"""Signs of an answer that words lose (C++, -40)."""


@dataclass(frozen=True)
class RecordedSearch:
    """One query and the ranked list it was answered with."""

    group: str  # the question it was made for: queries of one question depend on each other
    query: str
    hits: tuple[ListedPage, ...]
    answers: tuple[str, ...] = ()  # accepted answers of the question that a text can give away (`telling`)
    gold: frozenset[str] = frozenset()  # canonical URLs of pages that are known to answer the question (`gold_pages`)


@dataclass(frozen=True)
class RecordedVisit:
    """One page that was asked for, and what came back of it."""

    group: str
    url: str
    goal: str
    text: str
    """The page's own words as they were rendered; its summary where nothing else was recorded; empty for a failure."""
    status: ToolStatus


@dataclass(frozen=True)
class RecordedCalls:
    """What trajectories recorded of their tools."""

    searches: tuple[RecordedSearch, ...]
    visits: tuple[RecordedVisit, ...]


def recorded_calls(trajectories: Iterable[Trajectory]) -> RecordedCalls:
    """Every search and visit, in order. A trajectory's group is its question's id.

    What an observation does not say is not guessed: a page that "could not be accessed" has failed for an unknown reason and is
    NOT_FOUND here, unless the record has its status beside it.
    """
    trajectories = tuple(trajectories)
    gold = gold_pages(trajectories)
    searches: list[RecordedSearch] = []
    visits: list[RecordedVisit] = []
    for trajectory in trajectories:
        group = trajectory.question.id
        answers, pages = telling(trajectory.question.answers), gold.get(group, frozenset())
        for node in trajectory.nodes:
            if node.kind is not NodeKind.OBSERVATION:
                continue
            reading = read_observation(node.text)
            searches += [RecordedSearch(group, block.query, block.hits, answers, pages) for block in reading.blocks]
            statuses = [status for event in node.events for status in event.parts or (event.status,)]
            if len(statuses) != len(reading.extracts):
                statuses = [ToolStatus.NOT_FOUND if page.dead else ToolStatus.OK for page in reading.extracts]
            for page, status in zip(reading.extracts, statuses, strict=True):
                text = (page.evidence or page.summary) if status is ToolStatus.OK else ""
                visits.append(RecordedVisit(group, page.url, page.goal, text, status))
    return RecordedCalls(tuple(searches), tuple(visits))


def telling(answers: Iterable[str]) -> tuple[str, ...]:
    """The answers that say something by standing in a text (neither short nor yes or no), each once, in order."""
    told = (answer.strip() for answer in answers)
    return tuple(dict.fromkeys(a for a in told if len(a) >= _FEWEST_CHARS and a.casefold() not in _TOO_COMMON and words(a)))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether the words of one of the answers stand in the text, side by side and in order, with their signs if any."""
    spoken = f" {' '.join(words(text))} "
    found = [answer for answer in answers if f" {' '.join(words(answer))} " in spoken]
    return any(not _SIGNED.search(answer) or f" {normalised(answer)} " in f" {normalised(text)} " for answer in found)


def gold_pages(trajectories: Iterable[Trajectory]) -> Mapping[str, frozenset[str]]:
    """Question id -> canonical URLs of its gold pages; questions without one are not in it.

    A gold page was visited in a trajectory whose own answer holds an accepted one, and the words shown of it hold one too.
    Nobody judged it: a page may name the answer by chance, and one that says it in other words is missed.
    """
    found: dict[str, set[str]] = {}
    for trajectory in trajectories:
        answers = telling(trajectory.question.answers)
        if not answers or not trajectory.answer or not holds_answer(trajectory.answer, answers):
            continue
        for node in trajectory.nodes:
            if node.kind is not NodeKind.OBSERVATION or any(event.status is ToolStatus.OUTAGE for event in node.events):
                continue
            for page in read_observation(node.text).extracts:
                if not page.dead and holds_answer(f"{page.evidence}\n{page.summary}", answers):
                    found.setdefault(trajectory.question.id, set()).add(canonical_url(page.url))
    return {question: frozenset(urls) for question, urls in found.items()}


def overlap_at(a: Sequence[str], b: Sequence[str], k: int) -> float | None:
    """Shared keys among the first k of each, over min(k, length of the longer list); in [0, 1], symmetric; None for empty ones.

    A key that occurs again counts once, at its first rank. Raises ValueError for k < 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    first, second = list(dict.fromkeys(a)), list(dict.fromkeys(b))
    depth = min(k, max(len(first), len(second)))
    return len(set(first[:k]) & set(second[:k])) / depth if depth else None


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], p: float) -> float | None:
    """Extrapolated rank-biased overlap, RBO_EXT, of two lists of any lengths; in [0, 1], symmetric; None for empty lists.

    Webber, Moffat and Zobel 2010 ("A similarity measure for indefinite rankings", ACM TOIS 28(4)), equation 32: agreement at
    depth d weighs (1 - p) p^(d-1); beyond the lists the agreement at their ends is assumed to go on. ``p``: the chance that a
    reader looks one rank further. Raises ValueError for p outside (0, 1).
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"p is {p}: it must lie between 0 and 1")
    short, long = sorted((list(dict.fromkeys(a)), list(dict.fromkeys(b))), key=len)
    if not short:
        return 0.0 if long else None
    shared = [len(set(short[:d]) & set(long[:d])) for d in range(1, len(long) + 1)]
    s, size = len(short), len(long)
    at_s, at_l = shared[s - 1], shared[size - 1]
    total = sum(shared[d - 1] / d * p**d for d in range(1, size + 1))
    total += sum(at_s * (d - s) / (s * d) * p**d for d in range(s + 1, size + 1))
    return min(1.0, (1 - p) / p * total + ((at_l - at_s) / size + at_s / s) * p**size)


def weight_of_top(d: int, p: float) -> float:
    """Share of the weight of RBO that the first d ranks carry (equation 21): 0.86 for d = 10 and p = 0.9. Raises ValueError."""
    if d < 1 or not 0.0 < p < 1.0:
        raise ValueError(f"d is {d} and p is {p}: d must be at least 1, and p between 0 and 1")
    tail = math.log(1.0 / (1.0 - p)) - sum(p**i / i for i in range(1, d))
    return 1.0 - p ** (d - 1) + (1.0 - p) / p * d * tail


def jaccard(a: str, b: str) -> float | None:
    """Distinct words (terms of the index) in both over distinct words in either; None when neither has a word."""
    here, there = set(words(a)), set(words(b))
    return len(here & there) / len(here | there) if here | there else None


def containment(of: str, within: str) -> float | None:
    """Share of the distinct words of one text that another has too; None for a text without words."""
    needed = set(words(of))
    return len(needed & set(words(within))) / len(needed) if needed else None


def near_duplicates(texts: Sequence[str], at: float) -> float | None:
    """Share of the texts that nearly repeat an *earlier* one: Jaccard of 3-word shingles of at least ``at``.

    None for an empty list; a text without words repeats nothing.
    """
    runs = [shingles(words(text)) for text in texts]
    repeats = sum(
        any(here and len(here & before) / len(here | before) >= at for before in runs[:index])
        for index, here in enumerate(runs)
    )
    return repeats / len(texts) if texts else None


def domain(url: str) -> str:
    """The host of an address without ``www.``; empty for an address without a host.

    The list of public suffixes is not known here, so ``a.example.org`` and ``b.example.org`` are two.
    """
    _, found, rest = canonical_url(url).partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2] if found else ""
    return host.removeprefix("www.")


@dataclass(frozen=True)
class Settings:
    """What a comparison depends on."""

    k: int = 10
    p: float = 0.9
    snippet_words: int = 30
    visit_words: int = 2_000
    near_duplicate_at: float = 0.5


@dataclass(frozen=True)
class QueryRow:
    """One recorded query, put to the world."""

    group: str
    values: Mapping[str, float | None]
    domains_recorded: tuple[str, ...]
    domains_world: tuple[str, ...]
    lengths_recorded: tuple[int, ...]  # words of each snippet
    lengths_world: tuple[int, ...]
    gold_ranks: tuple[int, int] | None = None
    """Rank of the first answering page in the recorded and in the world's list, from 1, 0: not listed; None: none is known."""


@dataclass(frozen=True)
class VisitRow:
    """One recorded visit, put to the world."""

    group: str
    values: Mapping[str, float | None]
    recorded: ToolStatus
    world: ToolStatus


def compare_searches(
    searches: Sequence[RecordedSearch], world: World, holds: Callable[[str], bool], settings: Settings
) -> list[QueryRow]:
    """A row for each recorded list, in order. ``holds``: whether the world has a page of an address.

    The floor of a list is the world's answer to the next query, going round, of another question that recorded results.
    """
    recorded = [_addresses(search.hits)[: settings.k] for search in searches]
    shown = [
        answered(world.search(search.query, limit=len(urls), snippet_words=settings.snippet_words)).hits if urls else ()
        for search, urls in zip(searches, recorded, strict=True)
    ]
    rows = []
    for index, search in enumerate(searches):
        urls, listed = recorded[index], _addresses(shown[index])
        ahead = ((index + step) % len(searches) for step in range(1, len(searches)))
        other = next((at for at in ahead if searches[at].hits and searches[at].group != search.group), None)
        foreign = None if other is None else _addresses(shown[other])[: len(urls)]
        values = _ranking(urls, listed, foreign, holds, settings)
        hits = search.hits[: settings.k]
        theirs = {canonical_url(hit.url): hit.snippet for hit in reversed(hits)}
        pairs = [(theirs[url], hit.snippet) for hit in shown[index] if (url := canonical_url(hit.url)) in theirs]
        values["snippet_jaccard"] = _mean([jaccard(a, b) for a, b in pairs])
        values["snippet_containment"] = _mean([containment(a, b) for a, b in pairs])
        domains, lengths, ranks = [], [], []
        sides: list[tuple[str, Sequence[ListedPage | SearchHit], Sequence[str]]]
        sides = [("recorded", hits, urls), ("world", shown[index], listed[: settings.k])]
        for side, results, addresses in sides:
            texts = [f"{hit.title}\n{hit.snippet}" for hit in results]
            domains.append(tuple(domain(hit.url) for hit in results))
            lengths.append(tuple(word_count(hit.snippet) for hit in results))
            values[f"snippet_words_{side}"] = _mean(lengths[-1])
            values[f"domains_{side}"] = len(set(domains[-1])) / len(results) if results else None
            values[f"duplicates_{side}"] = near_duplicates(texts, settings.near_duplicate_at)
            if search.gold and search.hits:
                ranks.append(next((rank for rank, url in enumerate(addresses, start=1) if url in search.gold), 0))
            values[f"gold_listed_{side}"] = float(ranks[-1] > 0) if ranks else None
            values[f"gold_rr_{side}"] = (1.0 / ranks[-1] if ranks[-1] else 0.0) if ranks else None
            told = [holds_answer(text, search.answers) for text in texts] if search.answers and search.hits else None
            values[f"leak_{side}"] = None if told is None else float(any(told))
            values[f"leak_share_{side}"] = _mean(told or [])
        gold_ranks = (ranks[0], ranks[1]) if ranks else None
        rows.append(QueryRow(search.group, values, domains[0], domains[1], lengths[0], lengths[1], gold_ranks))
    return rows


def _ranking(
    urls: Sequence[str],
    listed: Sequence[str],
    foreign: Sequence[str] | None,
    holds: Callable[[str], bool],
    settings: Settings,
) -> dict[str, float | None]:
    """Addresses compared; ``foreign``: those that the world lists for another question."""
    values: dict[str, float | None] = dict.fromkeys(tuple(MEASURES)[:8])
    if urls:
        held = [url for url in urls if holds(url)]
        values["overlap"] = overlap_at(urls, listed, settings.k)
        values["rbo"] = rank_biased_overlap(urls, listed, settings.p)
        values["coverage"] = len(held) / len(urls)
        values["found_of_held"] = len(set(held) & set(listed)) / len(held) if held else None
        values["results_recorded"] = float(len(urls))
        values["results_world"] = float(len(listed))
    if urls and foreign is not None:
        values["overlap_floor"] = overlap_at(urls, foreign, settings.k)
        values["rbo_floor"] = rank_biased_overlap(urls, foreign, settings.p)
    return values


def compare_visits(
    visits: Sequence[RecordedVisit], world: World, holds: Callable[[str], bool], settings: Settings
) -> list[VisitRow]:
    """A row for each recorded visit, in order."""
    rows = []
    for visit in visits:
        reply = answered(world.visit(visit.url, visit.goal, max_words=settings.visit_words))
        failed = visit.status is not ToolStatus.OK, reply.status is not ToolStatus.OK
        both = not any(failed)
        values: dict[str, float | None] = {
            "visit_held": float(holds(visit.url)),
            "visit_failed_recorded": float(failed[0]),
            "visit_failed_world": float(failed[1]),
            "visit_same_outcome": float(failed[0] == failed[1]),
            "extract_jaccard": jaccard(visit.text, reply.text) if both else None,
            "extract_containment": containment(visit.text, reply.text) if both else None,
            "extract_words_recorded": float(word_count(visit.text)) if both else None,
            "extract_words_world": float(word_count(reply.text)) if both else None,
        }
        rows.append(VisitRow(visit.group, values, visit.status, reply.status))
    return rows


def _addresses(hits: Iterable[ListedPage | SearchHit]) -> tuple[str, ...]:
    """Canonical URLs in order, each once, at its first place."""
    return tuple(dict.fromkeys(canonical_url(hit.url) for hit in hits))


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
