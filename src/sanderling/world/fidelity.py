"""How far a world resembles recorded calls: one row of values for each recorded query and each recorded visit, put to it.

Every query is asked for as many results as its recorded list has, k at most, so that length alone is no difference. URLs are
compared by canonical form. A value that is not defined for a row is None and enters no mean. Two references make the figures
readable: the *floor* compares each recorded list with the world's answer to a query of another question, and the *ceiling* is
the share of recorded URLs that the world holds at all: no ranking can show more.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.observations import ListedPage, read_observation
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.text import shingles
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import SearchHit, World, answered
from sanderling.world.text import word_count, words

MEASURES: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("fidelity.toml").read_text(encoding="utf-8"))
"""What each value of a row means."""
Values = dict[str, float | None]


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
    """One page that was asked for, and what came back: its own words, else its summary; empty for a failure."""

    group: str
    url: str
    goal: str
    text: str
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
    common = {"yes", "no", "true", "false", "none", "unknown"}
    return tuple(dict.fromkeys(a for a in map(str.strip, answers) if len(a) >= 3 and a.casefold() not in common and words(a)))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether the words of one of the answers stand in the text, side by side and in order."""
    spoken = f" {' '.join(words(text))} "
    return any(f" {' '.join(words(answer))} " in spoken for answer in answers)


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
    """Shared keys among the first k of each, over min(k, length of the longer list); symmetric; None for empty lists."""
    depth = min(k, max(len(a), len(b)))
    return len(set(a[:k]) & set(b[:k])) / depth if depth else None


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], p: float) -> float | None:
    """Extrapolated rank-biased overlap, RBO_EXT, of two lists of any lengths; in [0, 1], symmetric; None for empty lists.

    Webber, Moffat and Zobel 2010 ("A similarity measure for indefinite rankings", ACM TOIS 28(4)), equation 32: agreement at
    depth d weighs (1 - p) p^(d-1); beyond the lists the agreement at their ends is assumed to go on. ``p``: the chance that a
    reader looks one rank further, in (0, 1).
    """
    short, long = sorted((a, b), key=len)
    if not short:
        return 0.0 if long else None
    shared = [len(set(short[:d]) & set(long[:d])) for d in range(1, len(long) + 1)]
    s, size = len(short), len(long)
    at_s, at_l = shared[s - 1], shared[size - 1]
    total = sum(shared[d - 1] / d * p**d for d in range(1, size + 1))
    total += sum(at_s * (d - s) / (s * d) * p**d for d in range(s + 1, size + 1))
    return min(1.0, (1 - p) / p * total + ((at_l - at_s) / size + at_s / s) * p**size)


def weight_of_top(d: int, p: float) -> float:
    """Share of the weight of RBO that the first d ranks carry (equation 21): 0.86 for d = 10 and p = 0.9."""
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
    """Share of the texts that nearly repeat an earlier one: Jaccard of 3-word shingles of at least ``at``; None for none."""
    runs = [shingles(words(text)) for text in texts]
    alike = ((here, runs[:index]) for index, here in enumerate(runs) if here)
    repeats = sum(any(len(here & one) / len(here | one) >= at for one in earlier) for here, earlier in alike)
    return repeats / len(texts) if texts else None


def domain(url: str) -> str:
    """The host of an address without ``www.``; empty for an address without a host."""
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
class Row:
    """One recorded query or visit, put to the world; domains and snippet lengths of the recorded list and of the world's."""

    group: str
    values: Values
    domains: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    lengths: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


def compare_searches(
    searches: Sequence[RecordedSearch], world: World, holds: Callable[[str], bool], settings: Settings
) -> list[Row]:
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
        ahead = ((index + step) % len(searches) for step in range(1, len(searches)))
        other = next((at for at in ahead if searches[at].hits and searches[at].group != search.group), None)
        foreign = None if other is None else _addresses(shown[other])
        urls, listed, hits = recorded[index], _addresses(shown[index]), search.hits[: settings.k]
        values = _ranking(urls, listed, foreign, holds, settings) | _snippets(hits, shown[index])
        sides = (("recorded", hits, urls), ("world", shown[index], listed[: settings.k]))
        for side, results, addresses in sides:
            values |= {f"{name}_{side}": value for name, value in _list(search, results, addresses, settings).items()}
        domains, lengths = zip(*((_domains(results), _lengths(results)) for _, results, _ in sides), strict=True)
        rows.append(Row(search.group, values, domains, lengths))
    return rows


Results = Sequence[ListedPage | SearchHit]


def _ranking(
    urls: Sequence[str], listed: Sequence[str], foreign: Sequence[str] | None, holds: Callable[[str], bool], settings: Settings
) -> Values:
    """Addresses compared; ``foreign``: those that the world lists for another question."""
    if not urls:
        return {}
    held = [url for url in urls if holds(url)]
    values: Values = {"coverage": len(held) / len(urls), "results_recorded": len(urls), "results_world": len(listed)}
    values["found_of_held"] = len(set(held) & set(listed)) / len(held) if held else None
    for suffix, others in (("", listed), ("_floor", None if foreign is None else foreign[: len(urls)])):
        if others is not None:
            values[f"overlap{suffix}"] = overlap_at(urls, others, settings.k)
            values[f"rbo{suffix}"] = rank_biased_overlap(urls, others, settings.p)
    return values


def _snippets(hits: Results, shown: Results) -> Values:
    """The two snippets of each page that both list."""
    theirs = {canonical_url(hit.url): hit.snippet for hit in reversed(hits)}
    pairs = [(theirs[url], hit.snippet) for hit in shown if (url := canonical_url(hit.url)) in theirs]
    return {f"snippet_{measure.__name__}": _mean(measure(a, b) for a, b in pairs) for measure in (jaccard, containment)}


def _list(search: RecordedSearch, results: Results, addresses: Sequence[str], settings: Settings) -> Values:
    """One side's list alone."""
    texts, sites = [f"{hit.title}\n{hit.snippet}" for hit in results], _domains(results)
    values: Values = {"snippet_words": _mean(_lengths(results)), "domains": len(set(sites)) / len(sites) if sites else None}
    values["duplicates"] = near_duplicates(texts, settings.near_duplicate_at)
    if search.gold and search.hits:
        rank = next((rank for rank, url in enumerate(addresses, start=1) if url in search.gold), 0)
        values |= {"gold_listed": float(rank > 0), "gold_rr": 1.0 / rank if rank else 0.0}
    if search.answers and search.hits:
        leaks = [holds_answer(text, search.answers) for text in texts]
        values |= {"leak": float(any(leaks)), "leak_share": _mean(leaks)}
    return values


def compare_visits(
    visits: Sequence[RecordedVisit], world: World, holds: Callable[[str], bool], settings: Settings
) -> list[Row]:
    """A row for each recorded visit, in order."""
    rows = []
    for visit in visits:
        reply = answered(world.visit(visit.url, visit.goal, max_words=settings.visit_words))
        failed = visit.status is not ToolStatus.OK, reply.status is not ToolStatus.OK
        values: Values = {"visit_held": float(holds(visit.url)), "visit_same_outcome": float(failed[0] == failed[1])}
        values |= {"visit_failed_recorded": float(failed[0]), "visit_failed_world": float(failed[1])}
        if not any(failed):
            values |= {"extract_jaccard": jaccard(visit.text, reply.text)}
            values |= {"extract_containment": containment(visit.text, reply.text)}
            values |= {"extract_words_recorded": word_count(visit.text), "extract_words_world": word_count(reply.text)}
        rows.append(Row(visit.group, values))
    return rows


def _domains(results: Results) -> tuple[str, ...]:
    return tuple(domain(hit.url) for hit in results)


def _lengths(results: Results) -> tuple[int, ...]:
    return tuple(word_count(hit.snippet) for hit in results)


def _addresses(hits: Results) -> tuple[str, ...]:
    """Canonical URLs in order, each once, at its first place."""
    return tuple(dict.fromkeys(canonical_url(hit.url) for hit in hits))


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
