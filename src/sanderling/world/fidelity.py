"""How far a world resembles recorded calls: one row of values for each recorded query and each recorded visit, put to it.

Every query is asked for as many results as its recorded list has, k at most,
so that length alone is no difference. URLs are compared by canonical form. A value that is not defined for a row is None and
enters no mean: a recorded list without results has no overlap, a list without shared pages no overlap of snippets. Two
references make the figures readable: the *floor* compares each recorded list with the world's answer to a query of another
question, and the *ceiling* is the share of recorded URLs that the world holds at all: no ranking can show more. What each value
means is in `MEASURES`.

    calls = recorded_calls(trajectories)
    rows = compare_searches(calls.searches, world, holds, Settings(k=10))
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sanderling.core.observations import ListedPage, Reading, read_observation
from sanderling.core.record import NodeKind, ToolEvent, Trajectory
from sanderling.core.text import normalised
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import SearchReply, World, answered
from sanderling.world.text import word_count, words

# Recorded calls: read out of observations, whatever their layout. What an observation does not say is not guessed: a page that
# "could not be accessed" has failed for an unknown reason and is NOT_FOUND here, unless the record has its status beside it.


@dataclass(frozen=True)
class RecordedSearch:
    """One query and the ranked list it was answered with."""

    group: str
    """The question it was made for: queries of one question depend on each other."""
    query: str
    hits: tuple[ListedPage, ...]
    answers: tuple[str, ...] = ()
    """Accepted answers of the question that a text can give away (`telling`)."""
    gold: frozenset[str] = frozenset()
    """Canonical URLs of pages that are known to answer the question (`gold_pages`)."""


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
    trajectories: int


def recorded_calls(trajectories: Iterable[Trajectory]) -> RecordedCalls:
    """Every search and visit, in order. A trajectory's group is its question's id."""
    trajectories = tuple(trajectories)
    gold = gold_pages(trajectories)
    searches: list[RecordedSearch] = []
    visits: list[RecordedVisit] = []
    for trajectory in trajectories:
        question = trajectory.question
        answers, pages = telling(question.answers), gold.get(question.id, frozenset())
        for node in trajectory.nodes:
            if node.kind is NodeKind.OBSERVATION:
                reading = read_observation(node.text)
                searches += [RecordedSearch(question.id, b.query, b.hits, answers, pages) for b in reading.blocks]
                visits += _visits(question.id, reading, node.events)
    return RecordedCalls(tuple(searches), tuple(visits), len(trajectories))


def _visits(group: str, reading: Reading, events: Sequence[ToolEvent]) -> list[RecordedVisit]:
    statuses = [status for event in events for status in event.parts or (event.status,)]
    if len(statuses) != len(reading.extracts):
        statuses = [ToolStatus.NOT_FOUND if extract.dead else ToolStatus.OK for extract in reading.extracts]
    texts = [page.evidence or page.summary for page in reading.extracts]
    return [
        RecordedVisit(group, page.url, page.goal, text if status is ToolStatus.OK else "", status)
        for page, text, status in zip(reading.extracts, texts, statuses, strict=True)
    ]


# Answers and gold pages: found by words in what was recorded. A *gold page* of a question was visited in a trajectory whose own
# answer holds an accepted one, and the words shown of it hold an accepted one too. Nobody judged it: a page may name the answer
# by chance, a page that was never opened is not known, and a page that says it in other words is missed.

_TOO_COMMON = frozenset({"yes", "no", "true", "false", "none", "unknown"})
_FEWEST_CHARS = 3
_SIGNED = re.compile(r"(?:^|(?<=[\s(]))[-\u2212\u2013]\d|[^\W\d_][+#](?!\w)|\+\+")
"""Signs of an answer that words lose (C++, -40)."""


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
    """Question id -> canonical URLs of its gold pages; questions without one are not in it."""
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


# Two ranked lists. Rank is position, without ties (worlds break theirs by page number; a recorded list says no scores).
# A key that occurs again later in a list counts once, at its first rank. Two empty lists agree in nothing that can be measured:
# None. One empty list against another: 0.


def distinct(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys in order, each once, at its first place."""
    return tuple(dict.fromkeys(keys))


def overlap_at(a: Sequence[str], b: Sequence[str], k: int) -> float | None:
    """Shared keys among the first k of each, over min(k, length of the longer list); in [0, 1], symmetric.

    A list shorter than k is taken as it is: what the longer one shows beyond it is not shared. Raises ValueError for k < 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    first, second = distinct(a), distinct(b)
    depth = min(k, max(len(first), len(second)))
    return len(set(first[:k]) & set(second[:k])) / depth if depth else None


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], p: float) -> float | None:
    """Extrapolated rank-biased overlap, RBO_EXT, of two lists of any lengths; in [0, 1], symmetric.

    Webber, Moffat and Zobel 2010 ("A similarity measure for indefinite rankings", ACM TOIS 28(4)), equation 32: agreement at
    depth d weighs (1 - p) p^(d-1); beyond the lists the agreement at their ends is assumed to go on. ``p``: the chance that a
    reader looks one rank further. Raises ValueError for p outside (0, 1).
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"p is {p}: it must lie between 0 and 1")
    short, long = sorted((distinct(a), distinct(b)), key=len)
    if not long:
        return None
    if not short:
        return 0.0
    shared = [len(set(short[:d]) & set(long[:d])) for d in range(1, len(long) + 1)]
    s, size = len(short), len(long)
    at_s, at_l = shared[s - 1], shared[size - 1]
    total = sum(shared[d - 1] / d * p**d for d in range(1, size + 1))
    total += sum(at_s * (d - s) / (s * d) * p**d for d in range(s + 1, size + 1))
    return min(1.0, (1 - p) / p * total + ((at_l - at_s) / size + at_s / s) * p**size)


def weight_of_top(d: int, p: float) -> float:
    """Share of the weight of RBO that the first d ranks carry (equation 21): 0.86 for d = 10 and p = 0.9.

    Raises ValueError for d < 1 or p outside (0, 1).
    """
    if d < 1 or not 0.0 < p < 1.0:
        raise ValueError(f"d is {d} and p is {p}: d must be at least 1, and p between 0 and 1")
    tail = math.log(1.0 / (1.0 - p)) - sum(p**i / i for i in range(1, d))
    return 1.0 - p ** (d - 1) + (1.0 - p) / p * d * tail


# Texts and hosts. Words are the index's own terms (lower case, stemmed, a character of a script without spaces is one).

_SHINGLE = 3


def jaccard(a: str, b: str) -> float | None:
    """Distinct words in both over distinct words in either; None when neither has a word."""
    return _share(set(words(a)), set(words(b)))


def containment(of: str, within: str) -> float | None:
    """Share of the distinct words of one text that another has too; None for a text without words."""
    needed = set(words(of))
    return len(needed & set(words(within))) / len(needed) if needed else None


def near_duplicates(texts: Sequence[str], at: float) -> float | None:
    """Share of the texts that nearly repeat an *earlier* one: Jaccard of 3-word shingles of at least ``at``.

    None for an empty list; a text without words repeats nothing.
    """
    if not texts:
        return None
    shingled = [_shingles(text) for text in texts]
    repeats = sum(
        any(bool(here) and (_share(here, before) or 0.0) >= at for before in shingled[:index])
        for index, here in enumerate(shingled)
    )
    return repeats / len(texts)


def _shingles(text: str) -> set[str]:
    """Runs of three words; of a shorter text, the whole."""
    found = words(text)
    if len(found) < _SHINGLE:
        return {" ".join(found)} if found else set()
    return {" ".join(found[i : i + _SHINGLE]) for i in range(len(found) - _SHINGLE + 1)}


def _share(a: set[str], b: set[str]) -> float | None:
    either = len(a | b)
    return len(a & b) / either if either else None


def domain(url: str) -> str:
    """The host of an address without ``www.``; empty for an address without a host.

    The list of public suffixes is not known here, so ``a.example.org`` and ``b.example.org`` are two.
    """
    _, found, rest = canonical_url(url).partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2] if found else ""
    return host.removeprefix("www.")


def top_share(counts: Counter[str], most: int) -> float | None:
    """Share of all that the ``most`` commonest names have; None for nothing."""
    total = counts.total()
    return sum(count for _, count in counts.most_common(most)) / total if total else None


def entropy_bits(counts: Iterable[int]) -> float | None:
    """Shannon entropy of shares, in bits (the plug-in estimate, which is low for small samples); None for nothing."""
    present = [count for count in counts if count > 0]
    total = sum(present)
    return sum(-c / total * math.log2(c / total) for c in present) + 0.0 if total else None


# The comparison

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
    recorded = [distinct(canonical_url(hit.url) for hit in search.hits)[: settings.k] for search in searches]
    replies = [
        answered(world.search(search.query, limit=len(urls), snippet_words=settings.snippet_words))
        if urls
        else SearchReply(search.query, (), ToolStatus.EMPTY)
        for search, urls in zip(searches, recorded, strict=True)
    ]
    listed = [distinct(canonical_url(hit.url) for hit in reply.hits) for reply in replies]
    rows = []
    for index, other in enumerate(strangers(searches)):
        search, reply = searches[index], replies[index]
        hits = search.hits[: settings.k]
        values = _ranking(recorded[index], listed[index], None if other is None else listed[other], holds, settings)
        values |= _snippets(hits, reply, settings.near_duplicate_at)
        ranks = _gold_ranks(search, recorded[index], listed[index][: settings.k])
        for side, texts, rank in (("recorded", hits, 0), ("world", reply.hits, 1)):
            values |= _answers(
                side, search, [f"{hit.title}\n{hit.snippet}" for hit in texts], None if ranks is None else ranks[rank]
            )
        row = QueryRow(
            group=search.group,
            values=values,
            domains_recorded=tuple(domain(hit.url) for hit in hits),
            domains_world=tuple(domain(hit.url) for hit in reply.hits),
            lengths_recorded=tuple(word_count(hit.snippet) for hit in hits),
            lengths_world=tuple(word_count(hit.snippet) for hit in reply.hits),
            gold_ranks=ranks,
        )
        rows.append(row)
    return rows


def compare_visits(
    visits: Sequence[RecordedVisit], world: World, holds: Callable[[str], bool], settings: Settings
) -> list[VisitRow]:
    """A row for each recorded visit, in order."""
    rows = []
    for visit in visits:
        reply = answered(world.visit(visit.url, visit.goal, max_words=settings.visit_words))
        failed = [status is not ToolStatus.OK for status in (visit.status, reply.status)]
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
    recorded: Sequence[str],
    listed: Sequence[str],
    foreign: Sequence[str] | None,
    holds: Callable[[str], bool],
    settings: Settings,
) -> dict[str, float | None]:
    """Addresses compared; ``foreign``: those that the world lists for another question."""
    values: dict[str, float | None] = dict.fromkeys(tuple(MEASURES)[:8])
    if not recorded:
        return values
    held = [url for url in recorded if holds(url)]
    values["overlap"] = overlap_at(recorded, listed, settings.k)
    values["rbo"] = rank_biased_overlap(recorded, listed, settings.p)
    values["coverage"] = len(held) / len(recorded)
    values["found_of_held"] = len(set(held) & set(listed)) / len(held) if held else None
    values["results_recorded"] = float(len(recorded))
    values["results_world"] = float(len(listed))
    if foreign is not None:
        values["overlap_floor"] = overlap_at(recorded, foreign[: len(recorded)], settings.k)
        values["rbo_floor"] = rank_biased_overlap(recorded, foreign[: len(recorded)], settings.p)
    return values


def _snippets(hits: Sequence[ListedPage], reply: SearchReply, near: float) -> dict[str, float | None]:
    """Snippets compared, and what each side's list is like."""
    theirs = {canonical_url(hit.url): hit.snippet for hit in reversed(hits)}
    pairs = [(theirs[url], hit.snippet) for hit in reply.hits if (url := canonical_url(hit.url)) in theirs]
    values: dict[str, float | None] = {
        "snippet_jaccard": _mean([jaccard(a, b) for a, b in pairs]),
        "snippet_containment": _mean([containment(a, b) for a, b in pairs]),
    }
    for side, listed in (("recorded", hits), ("world", reply.hits)):
        values[f"snippet_words_{side}"] = _mean([float(word_count(hit.snippet)) for hit in listed])
        values[f"domains_{side}"] = len({domain(hit.url) for hit in listed}) / len(listed) if listed else None
        values[f"duplicates_{side}"] = near_duplicates([f"{hit.title}\n{hit.snippet}" for hit in listed], near)
    return values


def _gold_ranks(search: RecordedSearch, recorded: Sequence[str], listed: Sequence[str]) -> tuple[int, int] | None:
    """Where the first gold page stands in both lists; None for a question without one, or a list without results."""
    if not search.gold or not search.hits:
        return None
    first = [next((rank for rank, url in enumerate(side, start=1) if url in search.gold), 0) for side in (recorded, listed)]
    return first[0], first[1]


def _answers(side: str, search: RecordedSearch, texts: Sequence[str], rank: int | None) -> dict[str, float | None]:
    """Whether a list shows a gold page, and whether its texts give the answer away."""
    found = bool(search.answers and search.hits)
    leaks = [holds_answer(text, search.answers) for text in texts] if found else []
    return {
        f"gold_listed_{side}": None if rank is None else float(rank > 0),
        f"gold_rr_{side}": None if rank is None else 1.0 / rank if rank else 0.0,
        f"leak_{side}": float(any(leaks)) if found else None,
        f"leak_share_{side}": sum(leaks) / len(leaks) if leaks else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
