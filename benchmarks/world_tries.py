"""What was tried to make searches with very common words cheaper, each with what it costs and what it loses.

The exact list is that of the index as it is shipped. A try that can be told exact by its own scores says in how many queries it
was; the others are compared with the exact list. Tries use the index directly: pages and snippets cost the same whatever ranks.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tantivy
import world_corpus
from world_child import RESULTS
from world_stages import MANY, Log, Place, Plan

from sanderling.world.disk.index import MAX_QUERY_TERMS, IndexBuilder, TextIndex
from sanderling.world.text import query_terms

_K1 = 1.2
_COMMON_SHARE = 0.1
_FEWEST_KEPT = 3
_REPEATS = 3


@dataclass(frozen=True)
class _Index:
    """An index as tantivy sees it, with the statistics that a bound needs."""

    text: TextIndex
    schema: tantivy.Schema
    searcher: tantivy.Searcher

    @staticmethod
    def open(directory: Path) -> "_Index":
        raw = tantivy.Index.open(str(directory))
        return _Index(TextIndex(raw), raw.schema, raw.searcher())

    def term(self, term: str) -> tantivy.Query:
        return tantivy.Query.term_query(self.schema, "text", term, "freq")

    def any_of(self, terms: Sequence[str]) -> tantivy.Query:
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, self.term(term)) for term in terms])

    def idf(self, term: str) -> float:
        holders, total = self.text.frequency(term), self.text.page_count
        return math.log1p((total - holders + 0.5) / (holders + 0.5))

    def best(self, query: tantivy.Query, limit: int, *, count: bool = False) -> list[tuple[int, float]]:
        hits = self.searcher.search(query, limit=limit, count=count).hits
        numbers = self.searcher.fast_field_values("page", [address for _, address in hits])
        found = [(int(number or 0), round(hit[0], 3)) for number, hit in zip(numbers, hits, strict=True)]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))


Try = Callable[[Sequence[str]], list[tuple[int, float]]]


def _without_pruning(index: _Index) -> Try:
    return lambda terms: index.best(index.any_of(terms), RESULTS + 8, count=True)[:RESULTS]


def _kept(index: _Index, terms: Sequence[str]) -> list[str]:
    """The terms that at most a tenth of all pages hold, the rarest three at least."""
    rarest = sorted(terms, key=lambda term: (index.text.frequency(term), term))
    most = _COMMON_SHARE * index.text.page_count
    return [term for place, term in enumerate(rarest) if place < _FEWEST_KEPT or index.text.frequency(term) <= most]


def _dropping(index: _Index) -> Try:
    return lambda terms: index.best(index.any_of(_kept(index, terms)), RESULTS + 8)[:RESULTS]


def _required(index: _Index) -> Try:
    """Pages without any rarer word are not looked at: exact when ten others score above all that common words can give."""

    def search(terms: Sequence[str]) -> list[tuple[int, float]]:
        kept = _kept(index, terms)
        rest = [(tantivy.Occur.Should, index.term(term)) for term in terms if term not in kept]
        query = tantivy.Query.boolean_query([(tantivy.Occur.Must, index.any_of(kept)), *rest])
        return index.best(query, RESULTS + 8)[:RESULTS]

    return search


def _provable(index: _Index, terms: Sequence[str], found: Sequence[tuple[int, float]]) -> bool:
    rest = [term for term in terms if term not in _kept(index, terms)]
    return len(found) == RESULTS and found[-1][1] > sum((_K1 + 1) * index.idf(term) for term in rest)


def _sharded(shards: Sequence[_Index], pool: ThreadPoolExecutor) -> Try:
    def search(terms: Sequence[str]) -> list[tuple[int, float]]:
        parts = pool.map(lambda shard: shard.best(shard.any_of(terms), RESULTS + 8), shards)
        return sorted((pair for part in parts for pair in part), key=lambda pair: (-pair[1], pair[0]))[:RESULTS]

    return search


def tries_stage(plan: Plan, place: Place, log: Log) -> dict[str, Any]:
    """Every try on the indexes of the two largest sizes; shards on the smaller of them."""
    found: dict[str, Any] = {}
    for size in plan.sizes[-2:]:
        log(f"tries over {size:,} pages")
        index = _Index.open(place.index(size))
        asked = world_corpus.queries(plan.searches, plan.seed, common=MANY)
        queries = [query_terms(query, MAX_QUERY_TERMS) for query in asked]
        exact = [index.text.rank(query, RESULTS) for query in asked]
        written = dict(zip(queries, asked, strict=True))
        tries = {"as it is": lambda terms, index=index, written=written: index.text.rank(written[terms], RESULTS)}
        tries |= {"without block-max pruning": _without_pruning(index), "words of over 10% of pages left out": _dropping(index)}
        tries["only pages with a rarer word"] = _required(index)
        rows = [_row(name, search, queries, exact) for name, search in tries.items()]
        rows[-1]["provably_exact"] = sum(_provable(index, t, _required(index)(t)) for t in queries) / len(queries)
        if size == plan.sizes[-2:][0]:
            with ThreadPoolExecutor(2) as pool:
                shards = _Index.open(_shard(place, plan, size, 0)), _Index.open(_shard(place, plan, size, 1))
                rows.append(_row("two shards in two threads", _sharded(shards, pool), queries, exact))
        found[str(size)] = {"segments": index.searcher.num_segments, "rows": rows}
    return found


def _shard(place: Place, plan: Plan, size: int, which: int) -> Path:
    directory = place.root / f"shard-{size}-{which}"
    if not directory.is_dir():
        directory.mkdir()
        builder = IndexBuilder(directory)
        for number, page in enumerate(world_corpus.pages(size, plan.seed)):
            if number % 2 == which:
                builder.add(number, page.title, page.text)
        builder.finish()
    return directory


def _row(name: str, search: Try, queries: Sequence[Sequence[str]], exact: Sequence[list[tuple[int, float]]]) -> dict[str, Any]:
    found = [search(terms) for terms in queries]
    times = []
    for terms in queries:
        seconds = []
        for _ in range(_REPEATS):
            began = time.perf_counter()
            search(terms)
            seconds.append(time.perf_counter() - began)
        times.append(min(seconds))
    times.sort()
    shared = [len({n for n, _ in a} & {n for n, _ in b}) / len(b) for a, b in zip(found, exact, strict=True) if b]
    same = sum([n for n, _ in a] == [n for n, _ in b] for a, b in zip(found, exact, strict=True))
    return {
        "try": name,
        "n": len(queries),
        "p50_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[int(len(times) * 0.99)] * 1e3,
        "shared_with_exact": sum(shared) / len(shared),
        "same_lists": same / len(queries),
    }
