"""Two rankings as one, by reciprocal rank fusion: each list adds 1 / (60 + rank) to its pages (Cormack et al., SIGIR 2009).

Scores of the two need not be comparable. The first ``depth`` pages of each are fused, so a page that both rank low can be
missed; a longer list is fused from as many as are asked for.
"""

from collections.abc import Collection, Sequence

from sanderling.world.index import Ranked, Ranker

RRF_K = 60
DEPTH = 100


class HybridRanker:
    """Fuses the rankings of several rankers, all of the same pages."""

    def __init__(self, rankers: Sequence[Ranker], depth: int = DEPTH) -> None:
        """``depth``: pages taken from each."""
        self._rankers = tuple(rankers)
        self._depth = depth

    @property
    def identity(self) -> str:
        return f"rrf-{RRF_K}-{self._depth}:" + "+".join(ranker.identity or "lexical" for ranker in self._rankers)

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        """The best pages of the fused list."""
        return self.rank_many([query], limit, hidden)[0]

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """As `rank` for each query; each ranker is asked once."""
        depth = max(self._depth, limit)
        lists = [ranker.rank_many(queries, depth, hidden) for ranker in self._rankers]
        return [fuse(ranked, limit) for ranked in zip(*lists, strict=True)]


def fuse(ranked: Sequence[Ranked], limit: int) -> Ranked:
    """One list of several, best first, equal scores by page number."""
    scores: dict[int, float] = {}
    for each in ranked:
        for rank, (number, _) in enumerate(each, start=1):
            scores[number] = scores.get(number, 0.0) + 1.0 / (RRF_K + rank)
    order = sorted(((number, round(score, 9)) for number, score in scores.items()), key=lambda pair: (-pair[1], pair[0]))
    return order[: max(limit, 0)]
