"""What is shared is also shared out: over ranks, within a pass's memory, and counted without laying it out."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_scorer_families import groups as request_groups
from tiny_qwen3 import VOCAB

from sanderling.train.config import Packing, TrainerConfig
from sanderling.train.contract import Row, ScoreRequest
from sanderling.train.packed import scorer_layout
from sanderling.train.packed.packing import COPIES, Bundling, bundled, deal
from sanderling.train.packed.scorer_layout import asked, lay_out_requests, lines_of
from sanderling.train.trainer import _plan

CONFIG = TrainerConfig(micro_batch_tokens=2048)


def rollouts(count: int, shared: int, tail: int, group: str = "g") -> list[Row]:
    """Of one question: the first tokens are the same, the others are not."""
    rng = np.random.default_rng(len(group))
    trunk = rng.integers(0, VOCAB, shared)
    ids = [np.concatenate((trunk, [number], rng.integers(0, VOCAB, tail - 1))) for number in range(count)]
    return [Row(one, np.arange(len(one)) % 2 == 1, trajectory=f"{group}{n}", group=group) for n, one in enumerate(ids)]


def requests(rows: Sequence[Row], family: str = "f") -> list[ScoreRequest]:
    return [ScoreRequest(row.ids.tolist(), [len(row.ids)], [[1, 2, 3]], [(1, 3)], family=family) for row in rows]


def work(rows: Sequence[Row], plans: Sequence[Sequence[Sequence[int]]]) -> list[int]:
    """Tokens in each hand's passes."""
    return [sum(bundle.tokens for batch in own for bundle in Bundling([rows[i] for i in batch]).cut(10**9)) for own in plans]


def test_rollouts_of_one_question_are_shared_out():
    apart = rollouts(8, 0, 60)
    assert [sorted(map(len, own)) for own in _plan(apart, CONFIG, 2)] == [[4], [4]]
    alike = rollouts(8, 50, 10)
    plans = _plan(alike, CONFIG, 2)
    assert all(plans) and max(work(alike, plans)) <= 50 + 5 * 10, "each hand has a part of the tree, not rows by themselves"
    assert work(alike, _plan(alike, CONFIG, 1)) == [50 + 8 * 10]
    same = [apart[0]] * 8
    assert sorted(work(same, _plan(same, CONFIG, 2))) == [0, 60], "two would each do what one does"


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=4),
    st.sampled_from([1, 40, 100, 2048]),
    st.integers(1, 4),
)
def test_every_row_has_one_place_and_no_hand_more_than_without_evening(kinds, budget: int, hands: int):
    named = zip(("a", "bb", "ccc", "dddd"), kinds, strict=False)
    rows = [row for name, (count, shared, tail) in named for row in rollouts(count, shared, tail, name)]
    plans = _plan(rows, CONFIG.model_copy(update={"micro_batch_tokens": budget}), hands)
    assert sorted(i for own in plans for batch in own for i in batch) == list(range(len(rows)))
    sizes = [bundle.tokens for bundle in Bundling(rows).cut(budget)]
    assert max(work(rows, plans)) <= max(sum(sizes[i] for i in hand) for hand in deal(sizes, hands))
    if all(shared == 0 for _, shared, _ in kinds) and len({tail for *_, tail in kinds}) == 1 and len(rows) >= hands:
        assert all(plans), "nobody is idle where there are enough rows of one length"
    for batch in (batch for own in plans for batch in own):
        bundles = Bundling([rows[i] for i in batch]).cut(10**9)
        assert sum(one.copied for one in bundles) <= COPIES * budget or len(batch) == 1


def test_the_cut_that_decides_a_loss_does_not_depend_on_what_is_even():
    rows = [row for name in ("a", "bb", "ccc") for row in rollouts(8, 10, 50, name)]
    alone = bundled(rows, 2048, Packing.VARLEN, groups=False)
    assert bundled(rows, 2048, Packing.VARLEN, groups=False, hands=2) == alone and len(alone) == len(rows)


def test_requests_of_one_question_are_shared_out():
    several = [asked(one) for one in requests(rollouts(8, 0, 60))]
    assert [len(members) for members, _ in lines_of(several, 2048, 2)] == [4, 4]
    assert len(lines_of(several, 2048)) == 1
    alike = [asked(one) for one in requests(rollouts(8, 50, 10))]
    sizes = [len(line.ids) for _, line in lines_of(alike, 2048, 2)]
    assert len(sizes) == 2 and max(sizes) <= 50 + 5 * (10 + 2)


def test_copies_of_what_rows_share_are_bounded():
    rows = rollouts(8, 95, 5)
    assert [(len(one.rows), one.copied) for one in Bundling(rows).cut(150)] == [(6, 600), (2, 200)]
    assert [len(one.rows) for one in Bundling([rows[0]] * 8).cut(150)] == [8], "the same again is no stretch"
    two = [row for name in ("a", "bb") for row in rollouts(4, 95, 5, name)]
    plans = _plan(two, TrainerConfig(micro_batch_tokens=160), 1)
    assert [len(batch) for batch in plans[0]] == [4, 4], "115 tokens each, but they continue 400"
    wide = _plan(two, TrainerConfig(micro_batch_tokens=230), 1)
    assert [len(batch) for batch in wide[0]] == [8]


@given(request_groups(), st.integers(1, 80))
def test_lines_hold_as_many_requests_as_fit(group, budget: int):
    several = [asked(request, rows) for request, rows in group]
    lines = lines_of(several, budget)
    for (members, line), (others, _) in pairwise(lines):
        one, other = several[members[0]].request, several[others[0]].request
        if one.family and (one.family, one.temperature) == (other.family, other.temperature):
            longer = len(lay_out_requests([several[index] for index in (*members, others[0])]).ids)
            assert longer > max(budget, len(line.ids))


@pytest.mark.parametrize("hands", [1, 3])
def test_only_the_lines_themselves_are_laid_out(monkeypatch: pytest.MonkeyPatch, hands: int):
    made, real = [], scorer_layout.lay_out_requests

    def lay_out(several):
        made.append(len(several))
        return real(several)

    monkeypatch.setattr(scorer_layout, "lay_out_requests", lay_out)
    lines = lines_of([asked(one) for one in requests(rollouts(16, 30, 100))], 131, hands)
    assert len(lines) == len(made) == 16 and sum(made) == 16
    assert len(lines_of([asked(one) for one in requests(rollouts(16, 30, 100))], 1310, hands)) == len(made) - 16 < 16
