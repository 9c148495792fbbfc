"""Branches of one trajectory share what they begin with, and no number changes. For those of a group: test_group_prefixes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model

from sanderling.train.config import Packing
from sanderling.train.contract import Row
from sanderling.train.packed import attention
from sanderling.train.packed.attention import Stretch, _with_gradients, _without_gradients, packed_attention
from sanderling.train.packed.logprobs import token_logprobs
from sanderling.train.packed.packing import collate, lay_out


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
