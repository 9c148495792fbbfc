"""Two real ranks score what one process does, over shards too, whoever has work."""

import numpy as np
import pytest
from scorer_ranks import refuse, score
from test_team import alone


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def all_same(ours: list[list[np.ndarray]], theirs: list[list[np.ndarray]]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        same(a, b)


@pytest.mark.parametrize("count", [0, 1, 3, 4], ids=["nothing", "an idle rank", "unequal shares", "four"])
@pytest.mark.parametrize(("shard", "context"), [(True, 1), (False, 1), (True, 2)], ids=["shards", "replicas", "shared lines"])
def test_two_ranks_score_what_one_does(pair, count: int, shard: bool, context: int):
    (first, passes), (second, others) = pair(score, count, shard, context)
    solo, alone_passes = alone(score, count, False)
    all_same(first, solo)
    all_same(second, first)
    if shard:
        assert passes == others, "a rank without work makes passes that count nothing"
    assert context > 1 or max(passes, others) < alone_passes or count < 2


def test_a_request_that_cannot_be_scored_ends_all_ranks(pair):
    errors = pair(refuse, errors=True)
    assert [type(error) for error in errors] == [ValueError, ValueError]
