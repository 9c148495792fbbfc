"""Two real ranks score what one process does, over shards too, whoever has work."""

import numpy as np
import pytest
from scorer_ranks import CONFIG, asked, refuse, score
from test_team import alone
from tiny_qwen3 import tiny_model

from sanderling.train.contract import Scored
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.scorer import ModelScorer
from sanderling.train.trainer import row_logprobs


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def all_same(ours: list[Scored], theirs: list[Scored]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        same(a.boundaries, b.boundaries)
        same(a.rows, b.rows)


@pytest.mark.parametrize("count", [0, 1, 3, 4], ids=["nothing", "an idle rank", "unequal shares", "four"])
@pytest.mark.parametrize("shard", [True, False], ids=["shards", "replicas"])
def test_two_ranks_score_what_one_does(pair, count: int, shard: bool):
    (first, passes), (second, others) = pair(score, count, shard)
    solo, alone_passes = alone(score, count, False)
    all_same(first, solo)
    all_same(second, first)
    if shard:
        assert passes == others, "a rank without work makes passes that count nothing"
    assert max(passes, others) < alone_passes or count < 2


def test_scores_over_shards_are_row_logprobs_of_the_whole_model(pair):
    (found, _), _ = pair(score, 3, True)
    requests, rows = asked(3)
    model = tiny_model(seed=3)
    flat = [row for own in rows for row in own]
    same([values for one in found for values in one.rows], row_logprobs(TokenLogprobs(model), flat, CONFIG))
    expected = ModelScorer.of(model, CONFIG).score_many(requests)
    same([values for one in found for values in one.boundaries], [values for one in expected for values in one])


@pytest.mark.parametrize("shard", [True, False], ids=["shards", "replicas"])
def test_two_ranks_share_a_line(pair, shard: bool):
    (first, _), (second, _) = pair(score, 3, shard, 2)
    solo, _ = alone(score, 3, False)
    all_same(first, solo)
    all_same(second, solo)


def test_a_request_that_cannot_be_scored_ends_all_ranks(pair):
    errors = pair(refuse, errors=True)
    assert [type(error) for error in errors] == [ValueError, ValueError]
