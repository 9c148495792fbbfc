"""Dense ranking against a plain reference, and its fusion with others: order, ties, masks, pooling, batches, blocks."""

from collections.abc import Collection, Sequence

import numpy as np
import pytest
from dense_fakes import TableEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.world.disk import dense as dense_index
from sanderling.world.disk.dense import DenseIndex, HybridRanker, settings_for
from sanderling.world.disk.index import Ranked, Ranker

AXES = {"east": [1.0, 0.0], "north": [0.0, 1.0], "between": [1.0, 1.0], "west": [-1.0, 0.0]}


def index_of(rows: list[list[float]], owners: list[int], table: dict | None = None) -> DenseIndex:
    vectors = np.array(rows, np.float32).reshape(len(owners), -1 if rows else 2)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    embedder = TableEmbedder(AXES if table is None else table, vectors.shape[1])
    return DenseIndex(settings_for(embedder), vectors.astype(np.float16), np.array(owners, np.uint32), embedder)


@pytest.mark.parametrize("query", ["", "   ", "unknown"])
def test_a_query_that_says_nothing_finds_nothing(query: str) -> None:
    assert index_of([[1, 0]], [0]).rank(query, 5) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_batches_blocks_and_a_plain_reference_agree(data: st.DataObject) -> None:
    """Small whole numbers make many ties; blocks of a few rows cut everywhere."""
    number = st.integers(-2, 2).map(float)
    vector = st.lists(number, min_size=3, max_size=3).filter(any)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    owners = [page for page, count in enumerate(counts) for _ in range(count)]
    rows = [data.draw(vector) for _ in owners]
    queries = data.draw(st.lists(vector, min_size=1, max_size=4))
    table = {f"q{i}": query for i, query in enumerate(queries)}
    limit, hidden = data.draw(st.integers(1, 14)), data.draw(st.sets(st.integers(0, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_index, "_BLOCK_VALUES", 3 * data.draw(st.integers(1, 9)))
        index = index_of(rows or [], owners, table) if owners else index_of([], [])
    together = index.rank_many(list(table), limit, hidden)
    assert together == [index.rank(query, limit, hidden) for query in table]
    if not owners:
        return
    stored = (np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).astype(np.float16)
    for query, ranked in zip(queries, together, strict=True):
        unit = (np.float32(query) / np.float32(np.linalg.norm(query))).astype(np.float64)
        best: dict[int, float] = {}
        for owner, row in zip(owners, stored.astype(np.float64) @ unit, strict=True):
            best[owner] = max(best.get(owner, -9.0), float(row))
        expected = sorted(((n, round(s, 5)) for n, s in best.items() if n not in hidden), key=lambda p: (-p[1], p[0]))[:limit]
        assert [round(score, 5) for _, score in ranked] == pytest.approx([score for _, score in expected], abs=2e-5)
        assert {n for n, _ in ranked} <= set(best) - hidden and len(ranked) == len(expected)
        assert ranked == sorted(ranked, key=lambda pair: (-pair[1], pair[0]))


class Fixed(Ranker):
    """Ranks the same pages for any query; counts what it is asked."""

    def __init__(self, pages: Sequence[int], identity: str = "") -> None:
        self.pages, self.identity = pages, identity
        self.asked: list[tuple[tuple[str, ...], int]] = []

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        self.asked.append((tuple(queries), limit))
        shown = [page for page in self.pages if page not in hidden][:limit]
        return [[(page, float(-at)) for at, page in enumerate(shown)] for _ in queries]


def test_the_formula_of_cormack_2009() -> None:
    fused = dict(HybridRanker([Fixed([7, 3]), Fixed([3, 8])]).rank("q", 10))
    assert fused == pytest.approx({3: 1 / 62 + 1 / 61, 7: 1 / 61, 8: 1 / 62})
