"""Branches of one trajectory share what they begin with, and no number changes. For those of a group: test_group_prefixes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model

from sanderling.train.config import Aggregation, Packing, TrainerConfig
from sanderling.train.contract import Row
from sanderling.train.loss import sft
from sanderling.train.packed import attention
from sanderling.train.packed.attention import Stretch, _with_gradients, _without_gradients, packed_attention
from sanderling.train.packed.logprobs import token_logprobs
from sanderling.train.packed.packing import collate
from sanderling.train.packed.prefixes import Bundling, families, lay_out
from sanderling.train.trainer import Trainer


def row(ids: list[int], trajectory: str, trained: list[int]) -> Row:
    mask = np.zeros(len(ids), dtype=np.bool_)
    mask[trained] = True
    return Row(ids=np.array(ids), loss_mask=mask, trajectory=trajectory)


@st.composite
def forked(draw: st.DrawFn) -> list[Row]:
    """Rows of a few trajectories; each begins with a part of an earlier one of its trajectory, and may hold nothing more."""
    rows: list[Row] = []
    for name in range(draw(st.integers(1, 3))):
        family: list[list[int]] = []
        for _ in range(draw(st.integers(1, 4))):
            model = draw(st.sampled_from(family)) if family else []
            kept = model[: draw(st.integers(0, len(model)))]
            ids = kept + draw(st.lists(st.integers(0, VOCAB - 1), min_size=2 - min(2, len(kept)), max_size=12))
            family.append(ids)
            mask = [0] if len(ids) < 2 else draw(st.lists(st.integers(1, len(ids) - 1), min_size=1, max_size=6))
            rows.append(row(ids, f"t{name}", [] if mask == [0] else mask))
    return draw(st.permutations(rows))


@given(forked())
def test_every_token_of_every_row_stands_in_the_line_at_its_own_position(rows: list[Row]):
    line = lay_out(rows)
    for one, places in zip(rows, line.where, strict=True):
        assert line.ids[places].tolist() == one.ids.tolist()
        assert line.positions[places].tolist() == list(range(len(one.ids)))
    assert sum(stretch.length for stretch in line.stretches) == len(line.ids)


@given(forked())
def test_the_line_is_as_long_as_the_tree_of_beginnings(rows: list[Row]):
    beginnings = {(one.trajectory, tuple(one.ids[: end + 1].tolist())) for one in rows for end in range(len(one.ids))}
    assert len(lay_out(rows).ids) == len(beginnings)


@settings(max_examples=25, deadline=None)
@given(forked())
def test_forked_rows_give_the_log_probabilities_and_gradients_of_the_plain_way(rows: list[Row]):
    if not any(one.loss_mask.any() for one in rows):
        return
    model = tiny_model()
    got, want = [], []
    with packed_attention(model):
        for batches, found in (([rows], got), ([[one] for one in rows], want)):
            model.zero_grad()
            scores = [token_logprobs(model, collate(batch, Packing.VARLEN)).logprobs for batch in batches]
            whole = torch.cat(scores)
            whole.sum().backward()
            found.extend([whole.detach(), *(p.grad.clone() for p in model.parameters())])
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_long_branch_behind_a_prefix_needs_no_whole_mask(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    trunk = rng.integers(0, VOCAB, 30).tolist()
    rows = [row(trunk, "t", [5]), row(trunk[:20] + rng.integers(0, VOCAB, 50).tolist(), "t", [40, 60])]
    model = tiny_model()
    with packed_attention(model):
        whole = token_logprobs(model, collate(rows, Packing.VARLEN)).logprobs
        monkeypatch.setattr("sanderling.train.packed.attention._MASK_ROWS", 7)
        blocks = token_logprobs(model, collate(rows, Packing.VARLEN)).logprobs
    torch.testing.assert_close(blocks, whole, atol=1e-5, rtol=1e-5)


def test_a_branch_of_a_branch_continues_both():
    rows = [row([1, 2, 3, 4], "t", [3]), row([1, 2, 5, 6], "t", [3]), row([1, 2, 5, 7], "t", [3]), row([1, 2], "u", [1])]
    assert lay_out(rows).stretches == (
        Stretch(4), Stretch(1, ((0, 3),)), Stretch(2, ((0, 2),)), Stretch(2),
    )  # fmt: skip
    rows = [row([5, 6, 7, 8], "t", [3]), row([5, 6, 4, 9], "t", [3]), row([5, 6, 4, 3], "t", [3]), row([5, 6], "t", [1])]
    assert lay_out(rows).stretches == (Stretch(4), Stretch(2, ((0, 2),)), Stretch(1, ((0, 2), (4, 5))))


def test_rows_without_a_name_share_nothing():
    rows = [row([1, 2, 3], "", [2]), row([1, 2, 3], "", [2])]
    assert families(rows) == [[0], [1]]
    assert len(lay_out(rows).ids) == 6


@given(forked(), st.integers(1, 40))
def test_bundles_hold_every_row_once_and_keep_to_the_budget(rows: list[Row], budget: int):
    found = Bundling(rows).cut(budget)
    assert sorted(i for bundle in found for i in bundle.rows) == list(range(len(rows)))
    for bundle in found:
        assert bundle.tokens == len(lay_out([rows[i] for i in bundle.rows]).ids)
        assert bundle.room <= budget or bundle.tokens == max(len(rows[i].ids) for i in bundle.rows)


@pytest.mark.parametrize("aggregation", list(Aggregation))
def test_a_step_over_forks_is_the_step_over_plain_rows(aggregation: Aggregation):
    rng = np.random.default_rng(3)
    trunk = rng.integers(0, VOCAB, 20).tolist()
    rows = [row(trunk + rng.integers(0, VOCAB, size).tolist(), f"t{size % 2}", [8, 21]) for size in (4, 9, 6, 5)]
    figures = []
    for packing in (Packing.VARLEN, Packing.PADDED):
        model = tiny_model()
        trainer = Trainer(model, TrainerConfig(packing=packing, aggregation=aggregation, micro_batch_tokens=64, lr=1e-3))
        figures.append((trainer.step(rows, sft), [p.detach().clone() for p in model.parameters()]))
    (forks, weights), (plain, others) = figures
    assert forks["loss"] == pytest.approx(plain["loss"], abs=1e-5)
    assert forks["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-4)
    for one, other in zip(weights, others, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_prefix_may_lie_across_stretches():
    stretches = [
        Stretch(3),
        Stretch(2, ((0, 3),)),
        Stretch(0),
        Stretch(0, ((0, 2),)),
        Stretch(4),
        Stretch(2, ((0, 4), (6, 8))),
        Stretch(3, ((1, 9),)),
    ]
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 14, 8, generator=generator) for heads in (4, 2, 2))
    expected = _without_gradients(query, key, value, stretches, None)
    torch.testing.assert_close(_with_gradients(query, key, value, stretches, 0.0, None), expected)


@pytest.mark.parametrize(("short", "together"), [(1000, [1, 2, 3, 300]), (256, [1, 2, 3]), (2, [1, 2]), (0, [])])
@pytest.mark.parametrize("rows", [4, 1024])
def test_only_short_stretches_are_attended_to_together(
    monkeypatch: pytest.MonkeyPatch, short: int, together: list[int], rows: int
):
    stretches = [
        Stretch(9), Stretch(3, ((0, 4),)), Stretch(300, ((0, 9),)), Stretch(2, ((0, 9), (12, 200))), Stretch(5),
        Stretch(1, ((0, 9), (12, 312), (312, 314))),
    ]  # fmt: skip
    seen, real = [], attention.attend

    def attend(query, key, value, some, scale):
        seen.extend(one.length for one in some)
        return real(query, key, value, some, scale)

    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 320, 8, generator=generator) for heads in (4, 2, 2))
    expected = _with_gradients(query, key, value, stretches, 0.0, None)
    monkeypatch.setattr(attention, "attend", attend)
    monkeypatch.setattr(attention, "_MASK_ROWS", rows)
    if short != 256:
        monkeypatch.setattr(attention, "_SHORT", short)
    torch.testing.assert_close(_without_gradients(query, key, value, stretches, None), expected)
    assert sorted(seen) == together
