"""Reciprocal rank fusion: the formula, ties, depth, masks, one question to each ranker for a batch."""

from collections.abc import Collection, Sequence

import pytest

from sanderling.world.dense.index import HybridRanker, fuse
from sanderling.world.index import Ranked


class Fixed:
    """Ranks the same pages for any query; counts what it is asked."""

    def __init__(self, pages: Sequence[int], identity: str = "") -> None:
        self.pages, self.identity = pages, identity
        self.asked: list[tuple[tuple[str, ...], int]] = []

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        return self.rank_many([query], limit, hidden)[0]

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        self.asked.append((tuple(queries), limit))
        shown = [page for page in self.pages if page not in hidden][:limit]
        return [[(page, float(-at)) for at, page in enumerate(shown)] for _ in queries]


def test_the_formula_of_cormack_2009() -> None:
    fused = dict(fuse([[(7, 9.0), (3, 1.0)], [(3, 0.5), (8, 0.4)]], 10))
    assert fused == pytest.approx({3: 1 / 62 + 1 / 61, 7: 1 / 61, 8: 1 / 62})


def test_what_both_find_comes_first_and_ties_go_by_page() -> None:
    ranker = HybridRanker([Fixed([9, 4, 2]), Fixed([5, 4, 1])])
    assert [page for page, _ in ranker.rank("q", 9)] == [4, 5, 9, 1, 2]
    assert [page for page, _ in ranker.rank("q", 2)] == [4, 5]
    assert ranker.rank("q", 0) == []


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    ranker = HybridRanker([Fixed(range(0, 300, 2)), Fixed(range(0, 300, 3))])
    longest = ranker.rank("q", 100)
    assert all(ranker.rank("q", limit) == longest[:limit] for limit in (1, 10, 50))


def test_hidden_pages_leave_no_trace() -> None:
    """The list without a page is the list of a world that never had it."""
    hidden = {4, 6}
    masked = HybridRanker([Fixed([9, 4, 2, 6]), Fixed([6, 4, 1])]).rank("q", 9, hidden)
    assert masked == HybridRanker([Fixed([9, 2]), Fixed([1])]).rank("q", 9)


def test_a_batch_asks_each_ranker_once() -> None:
    first, second = Fixed([1]), Fixed([2])
    HybridRanker([first, second], depth=50).rank_many(["a", "b", "c"], 10)
    assert first.asked == second.asked == [(("a", "b", "c"), 50)]
    assert HybridRanker([first, Fixed([], "x")], 50).identity == "rrf-60-50:lexical+x"
