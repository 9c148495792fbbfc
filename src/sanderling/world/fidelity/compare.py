"""Recorded calls put to a world: one row of values for each query and each visit. Averages and intervals are others' work.

Every query is asked for as many results as its recorded list has, k at most, so that length alone is no difference. URLs are
compared by canonical form. A value that is not defined for a row is None and enters no mean: a recorded list without results
has no overlap, a list without shared pages no overlap of snippets. Two references make the figures readable: the *floor*
compares each recorded list with the world's answer to a query of another question, and the *ceiling* is the share of recorded
URLs that the world holds at all: no ranking can show more. The measures' meanings are in `MEASURES`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import SearchReply, World
from sanderling.world.fidelity import texts
from sanderling.world.fidelity.calls import RecordedSearch, RecordedVisit
from sanderling.world.fidelity.gold import holds_answer
from sanderling.world.fidelity.lists import distinct, overlap_at, rank_biased_overlap
from sanderling.world.text import word_count

MEASURES: Mapping[str, str] = {
    "overlap": "Shared URLs among the first k, over the length of the recorded list (k at most)",
    "overlap_floor": "The same against the world's answer to a query of another question",
    "rbo": "Rank-biased overlap, extrapolated",
    "rbo_floor": "The same against the world's answer to a query of another question",
    "coverage": "Recorded URLs that the world holds at all: the ceiling of the overlap",
    "found_of_held": "Of the recorded URLs that the world holds, those that it lists for this query",
    "results_recorded": "Results in the recorded list, k at most",
    "results_world": "Results in the world's list, when asked for as many",
    "snippet_words_recorded": "Words in a recorded snippet, mean of the list",
    "snippet_words_world": "Words in a snippet of the world, mean of the list",
    "snippet_jaccard": "Words shared by the two snippets of a page that both list, over the words of either",
    "snippet_containment": "Share of a recorded snippet's words in the world's snippet of the same page",
    "domains_recorded": "Distinct domains in the recorded list, over its length",
    "domains_world": "Distinct domains in the world's list, over its length",
    "duplicates_recorded": "Recorded results whose title and snippet nearly repeat an earlier result",
    "duplicates_world": "The world's results whose title and snippet nearly repeat an earlier result",
    "gold_listed_recorded": "Recorded lists, of questions with a known answering page, that list one",
    "gold_listed_world": "The world's lists for the same queries that list one",
    "gold_rr_recorded": "1 / rank of the first answering page in the recorded list, 0 where none is listed",
    "gold_rr_world": "The same in the world's list",
    "leak_recorded": "Recorded lists, of questions with a known answer, with a snippet or title that holds it",
    "leak_world": "The world's lists for the same queries with a snippet or title that holds it",
    "leak_share_recorded": "Results of these recorded lists whose snippet or title holds the answer",
    "leak_share_world": "Results of these lists of the world whose snippet or title holds the answer",
    "visit_held": "Visited pages that the world holds at all",
    "visit_failed_recorded": "Visits that failed when they were recorded",
    "visit_failed_world": "The same visits that fail in the world",
    "visit_same_outcome": "Visits that both serve or both fail",
    "extract_jaccard": "Words shared by the two extracts of a page that both served, over the words of either",
    "extract_containment": "Share of the recorded extract's words in the world's extract of the same page",
    "extract_words_recorded": "Words in a recorded extract of a page that both served",
    "extract_words_world": "Words in the world's extract of the same page",
}
"""What each value of a row means."""


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
    lengths_recorded: tuple[int, ...]
    """Words of each snippet."""
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
    """A row for each recorded list, in order. ``holds``: whether the world has a page of an address."""
    replies = [_ask(search, world, settings) for search in searches]
    others = strangers(searches)
    rows = []
    for index, (search, reply) in enumerate(zip(searches, replies, strict=True)):
        other = others[index]
        values = _ranking(search, reply, None if other is None else replies[other], holds, settings)
        values |= _snippets(search, reply, settings)
        ranks = _gold_ranks(search, reply, settings.k)
        values |= _answers(search, reply, ranks, settings.k)
        rows.append(_row(search, reply, values, ranks, settings.k))
    return rows


def compare_visits(
    visits: Sequence[RecordedVisit], world: World, holds: Callable[[str], bool], settings: Settings
) -> list[VisitRow]:
    """A row for each recorded visit, in order."""
    rows = []
    for visit in visits:
        reply = world.visit(visit.url, visit.goal, max_words=settings.visit_words)
        failed = [status is not ToolStatus.OK for status in (visit.status, reply.status)]
        values: dict[str, float | None] = {
            "visit_held": float(holds(visit.url)),
            "visit_failed_recorded": float(failed[0]),
            "visit_failed_world": float(failed[1]),
            "visit_same_outcome": float(failed[0] == failed[1]),
        }
        both = not any(failed)
        values["extract_jaccard"] = texts.jaccard(visit.text, reply.text) if both else None
        values["extract_containment"] = texts.containment(visit.text, reply.text) if both else None
        values["extract_words_recorded"] = float(word_count(visit.text)) if both else None
        values["extract_words_world"] = float(word_count(reply.text)) if both else None
        rows.append(VisitRow(visit.group, values, visit.status, reply.status))
    return rows


def _depth(search: RecordedSearch, k: int) -> int:
    return min(k, len(distinct(canonical_url(hit.url) for hit in search.hits)))


def _ask(search: RecordedSearch, world: World, settings: Settings) -> SearchReply:
    depth = _depth(search, settings.k)
    if depth == 0:
        return SearchReply(search.query, (), ToolStatus.EMPTY)
    return world.search(search.query, limit=depth, snippet_words=settings.snippet_words)


def strangers(searches: Sequence[RecordedSearch]) -> list[int | None]:
    """For each query the next one, going round, of another question that recorded results; None where there is none."""
    found: list[int | None] = [None] * len(searches)
    near: int | None = None
    other: int | None = None  # the nearest such query ahead of `near` that is of another question than `near`
    for index in reversed([*range(len(searches)), *range(len(searches))]):
        if near is not None:
            found[index] = near if searches[near].group != searches[index].group else other
        if searches[index].hits:
            if near is not None and searches[near].group != searches[index].group:
                other = near
            near = index
    return found


def _ranking(
    search: RecordedSearch,
    reply: SearchReply,
    stranger: SearchReply | None,
    holds: Callable[[str], bool],
    settings: Settings,
) -> dict[str, float | None]:
    recorded = distinct(canonical_url(hit.url) for hit in search.hits)[: settings.k]
    listed = distinct(canonical_url(hit.url) for hit in reply.hits)
    values: dict[str, float | None] = dict.fromkeys(MEASURES_OF_RANKING)
    if not recorded:
        return values
    held = [url for url in recorded if holds(url)]
    values["overlap"] = overlap_at(recorded, listed, settings.k)
    values["rbo"] = rank_biased_overlap(recorded, listed, settings.p)
    values["coverage"] = len(held) / len(recorded)
    values["found_of_held"] = len(set(held) & set(listed)) / len(held) if held else None
    values["results_recorded"] = float(len(recorded))
    values["results_world"] = float(len(listed))
    if stranger is not None:
        foreign = distinct(canonical_url(hit.url) for hit in stranger.hits)[: len(recorded)]
        values["overlap_floor"] = overlap_at(recorded, foreign, settings.k)
        values["rbo_floor"] = rank_biased_overlap(recorded, foreign, settings.p)
    return values


MEASURES_OF_RANKING = tuple(MEASURES)[:8]


def _snippets(search: RecordedSearch, reply: SearchReply, settings: Settings) -> dict[str, float | None]:
    hits = search.hits[: settings.k]
    theirs = {canonical_url(hit.url): hit.snippet for hit in reversed(hits)}
    pairs = [(theirs[url], hit.snippet) for hit in reply.hits if (url := canonical_url(hit.url)) in theirs]
    at = settings.near_duplicate_at
    return {
        "snippet_words_recorded": _mean([float(word_count(hit.snippet)) for hit in hits]),
        "snippet_words_world": _mean([float(word_count(hit.snippet)) for hit in reply.hits]),
        "snippet_jaccard": _mean([texts.jaccard(a, b) for a, b in pairs]),
        "snippet_containment": _mean([texts.containment(a, b) for a, b in pairs]),
        "domains_recorded": _spread([hit.url for hit in hits]),
        "domains_world": _spread([hit.url for hit in reply.hits]),
        "duplicates_recorded": texts.near_duplicates([f"{hit.title}\n{hit.snippet}" for hit in hits], at),
        "duplicates_world": texts.near_duplicates([f"{hit.title}\n{hit.snippet}" for hit in reply.hits], at),
    }


def _gold_ranks(search: RecordedSearch, reply: SearchReply, k: int) -> tuple[int, int] | None:
    """Where the first gold page stands in both lists; None for a question without one, or a list without results."""
    if not search.gold or not search.hits:
        return None
    recorded = distinct(canonical_url(hit.url) for hit in search.hits)[:k]
    listed = distinct(canonical_url(hit.url) for hit in reply.hits)[:k]
    first = [next((rank for rank, url in enumerate(side, start=1) if url in search.gold), 0) for side in (recorded, listed)]
    return first[0], first[1]


def _answers(search: RecordedSearch, reply: SearchReply, ranks: tuple[int, int] | None, k: int) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for index, (side, hits) in enumerate((("recorded", search.hits[:k]), ("world", reply.hits))):
        rank = None if ranks is None else ranks[index]
        values[f"gold_listed_{side}"] = None if rank is None else float(rank > 0)
        values[f"gold_rr_{side}"] = None if rank is None else 1.0 / rank if rank else 0.0
        if not search.answers or not search.hits:
            values[f"leak_{side}"] = values[f"leak_share_{side}"] = None
            continue
        leaks = [holds_answer(f"{hit.title}\n{hit.snippet}", search.answers) for hit in hits]
        values[f"leak_{side}"] = float(any(leaks))
        values[f"leak_share_{side}"] = sum(leaks) / len(leaks) if leaks else None
    return values


def _row(
    search: RecordedSearch,
    reply: SearchReply,
    values: dict[str, float | None],
    gold_ranks: tuple[int, int] | None,
    k: int,
) -> QueryRow:
    hits = search.hits[:k]
    return QueryRow(
        group=search.group,
        values=values,
        domains_recorded=tuple(texts.domain(hit.url) for hit in hits),
        domains_world=tuple(texts.domain(hit.url) for hit in reply.hits),
        lengths_recorded=tuple(word_count(hit.snippet) for hit in hits),
        lengths_world=tuple(word_count(hit.snippet) for hit in reply.hits),
        gold_ranks=gold_ranks,
    )


def _spread(urls: Sequence[str]) -> float | None:
    return len({texts.domain(url) for url in urls}) / len(urls) if urls else None


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
