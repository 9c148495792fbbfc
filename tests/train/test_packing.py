"""Rows in one line: what they share stands there once, and nothing that is computed changes by it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from sanderling.train import attention
from sanderling.train.attention import Stretch, attend, packed_attention, partial_attention
from sanderling.train.packing import Layout, TokenLogprobs, bundled, collate, families, lay_out, per_token
from sanderling.train.rows import Row


def line_of(rows: Sequence[Row]) -> Layout:
    return lay_out([row.ids for row in rows], families(rows))


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
    line = line_of(rows)
    for one, places in zip(rows, line.where, strict=True):
        assert line.ids[places].tolist() == one.ids.tolist()
        assert line.positions[places].tolist() == list(range(len(one.ids)))
    assert sum(stretch.length for stretch in line.stretches) == len(line.ids)
    beginnings = {(one.trajectory, tuple(one.ids[: end + 1].tolist())) for one in rows for end in range(len(one.ids))}
    assert len(line.ids) == len(beginnings)


MODEL = tiny_model(seed=4).double()
tokens = st.integers(0, VOCAB - 1)


@st.composite
def groups(draw: st.DrawFn) -> list[Row]:
    """Rollouts of a few questions, some forked, some the same token for token, some the beginning of another."""
    rows: list[Row] = []
    for group in range(draw(st.integers(1, 2))):
        family: list[list[int]] = []
        for number in range(draw(st.integers(1, 5))):
            model = draw(st.sampled_from(family)) if family else []
            kept = model[: draw(st.integers(0, len(model)) | st.just(len(model)))]
            family.append([*kept, *draw(st.lists(tokens, min_size=2 - min(2, len(kept)), max_size=10))])
            ids = np.array(family[-1])
            trained = np.array([False, *draw(st.lists(st.booleans(), min_size=len(ids) - 1, max_size=len(ids) - 1))])
            if family[-1] in family[:-1] and draw(st.booleans()):  # the very same rollout, as temperatures near 0 give
                trained = rows[-len(family) + 1 + family.index(family[-1])].loss_mask
            credit = draw(st.lists(st.sampled_from([-1.0, 0.5, 2.0]), min_size=len(ids), max_size=len(ids)))
            name = f"g{group}-{number - (number == 2)}"  # the third goes on with the second's trajectory
            rows.append(Row(ids, trained, np.array(credit), np.full(len(ids), -2.0), trajectory=name, group=f"g{group}"))
    return draw(st.permutations(rows))


def plain(rows: Sequence[Row]) -> list[Row]:
    """The rows under names of their own: none shares anything."""
    return [replace(row, trajectory=f"alone {index}", group="") for index, row in enumerate(rows)]


def loss_of(rows: Sequence[Row], batches: Sequence[Sequence[int]], chunk: int):
    """Log-probabilities and entropies by row, and the gradients of a loss in which each token has its own weight."""
    MODEL.zero_grad()
    scored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    with packed_attention(MODEL):
        for indices in batches:
            batch = collate([rows[i] for i in indices])
            found = TokenLogprobs(MODEL)(batch, temperature=0.7, entropy=True, logit_chunk=chunk)
            credit = per_token(batch, "advantages")
            assert found.entropy is not None and credit is not None
            (found.logprobs * credit).sum().backward()
            for place, i in enumerate(indices):
                own = batch.row_index == place
                scored[i] = found.logprobs[own].detach(), found.entropy[own]
    return [scored[i] for i in range(len(rows))], [p.grad.clone() for p in MODEL.parameters() if p.grad is not None]


@settings(max_examples=60, deadline=None)
@given(groups(), st.sampled_from([1, 12, 30, 1000]), st.sampled_from([VOCAB * 3, 10**9]))
def test_a_group_gives_the_log_probabilities_entropies_and_gradients_of_its_rows_alone(rows, budget: int, chunk: int):
    together, gradients = loss_of(rows, [bundle.rows for bundle in bundled(rows, budget)], chunk)
    apart, expected = loss_of(plain(rows), [[index] for index in range(len(rows))], 10**9)
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@given(groups(), st.integers(1, 40))
def test_bundles_hold_every_row_once_keep_to_the_budget_and_cost_their_distinct_beginnings(rows: list[Row], budget: int):
    found = bundled(rows, budget)
    assert sorted(i for bundle in found for i in bundle.rows) == list(range(len(rows)))
    for bundle in found:
        own = [rows[i] for i in bundle.rows]
        beginnings = {tuple(row.ids[: end + 1].tolist()) for row in own for end in range(len(row.ids))}
        assert len({row.group for row in own}) == 1
        assert bundle.tokens == len(beginnings) == len(line_of(own).ids)
        assert bundle.tokens <= budget or bundle.tokens == max(len(row.ids) for row in own), "but for beginnings of the first"


def test_groups_and_trajectories_of_one_name_are_not_the_same():
    def row(trajectory: str, group: str) -> Row:
        return Row(np.array([1, 2]), np.array([False, True]), trajectory=trajectory, group=group)

    rows = [row("a", "x"), row("b", "x"), row("x", ""), row("x", ""), row("", ""), row("", ""), row("a", "y"), row("", "x")]
    assert families(rows) == [[0, 1, 7], [2, 3], [4], [5], [6]]


# -- Attention over packed lines: it is what a mask would give, and asks for the kernels that the device has ---------------


@st.composite
def lines(draw: st.DrawFn) -> list[Stretch]:
    """A row, and stretches that continue spans of it, some long, with other rows in between."""
    trunk = draw(st.integers(1, 40))
    found = [Stretch(trunk)]
    for _ in range(draw(st.integers(1, 8))):
        found += [Stretch(2)] * draw(st.integers(0, 1))
        cut, fork = draw(st.integers(1, trunk)), draw(st.integers(1, trunk))
        apart = ((0, fork), (cut - 1, cut + draw(st.integers(0, trunk - cut))))
        prefix = apart if fork < cut and draw(st.booleans()) else ((0, cut),)
        found.append(Stretch(draw(st.integers(0, 5) | st.just(300)), prefix))
    return found


def masked(query, key, value, stretches: list[Stretch], scale):
    """The same by one large mask."""
    length = query.shape[2]
    seen, start = torch.zeros(length, length, dtype=torch.bool), 0
    for one in stretches:
        own = slice(start, start + one.length)
        seen[own, own] = torch.ones(one.length, one.length, dtype=torch.bool).tril()
        for first, end in one.prefix:
            seen[own, first:end] = True
        start += one.length
    return scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale, enable_gqa=True)


@settings(max_examples=60)
@given(lines(), st.sampled_from([(1, 1), (4, 4), (4, 2), (6, 1)]), st.sampled_from([8, 20]), st.sampled_from([None, 0.3]))
def test_it_is_the_attention_that_a_mask_would_give_with_and_without_gradients(stretches, heads, size: int, scale):
    length = sum(one.length for one in stretches)
    torch.manual_seed(length)
    query = 3 * torch.randn(1, heads[0], length, size)
    key, value = (3 * torch.randn(1, length, heads[1], size).transpose(1, 2) for _ in range(2))
    expected = masked(query, key, value, stretches, scale)
    torch.testing.assert_close(attend(query, key, value, stretches, scale), expected, atol=2e-5, rtol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "_MASK_ROWS", 7)
        trained = attend(query.requires_grad_(), key, value, stretches, scale)
    torch.testing.assert_close(trained, expected, atol=2e-5, rtol=1e-5)


def test_in_16_bits_partial_results_are_added_in_32():
    torch.manual_seed(1)
    stretches = [Stretch(400), *(Stretch(4, ((0, 20 * (n + 1)),)) for n in range(20))]
    query, key, value = (torch.randn(1, 4, 480, 16).bfloat16() for _ in range(3))
    got = attend(query, key, value, stretches, None)
    assert got.dtype is torch.bfloat16
    assert (got.float() - masked(query.float(), key.float(), value.float(), stretches, None)).abs().max() < 0.02


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [
        (torch.bfloat16, "_scaled_dot_product_flash_attention.default"),
        (torch.float16, "_scaled_dot_product_flash_attention.default"),
        (torch.float32, "_scaled_dot_product_efficient_attention.default"),
    ],
)
def test_on_a_gpu_its_kernels_are_called_as_their_shape_functions_want_it(dtype: torch.dtype, kernel: str):
    """No GPU computes here: tensors are only said to be on one."""
    called = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            called.append(str(func))
            return func(*args, **(kwargs or {}))

    with FakeTensorMode():
        query = torch.empty(1, 2, 77, 64, device="cuda", dtype=dtype)
        key = torch.empty(1, 500, 2, 64, device="cuda", dtype=dtype).transpose(1, 2).narrow(2, 13, 300)
        with Watch():
            out, lse = partial_attention(query, key, key, causal=False, scale=0.5)
    assert out.shape == query.shape and out.dtype is dtype
    assert lse.shape == (1, 2, 77) and lse.dtype is torch.float32
    assert [name for name in called if "attention" in name] == [f"aten.{kernel}"]


def asked(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, rows: int, seen: int) -> list[tuple[int, Any, bool]]:
    """Of each call: heads of keys, mask, whether heads are grouped. 4 heads of queries, 2 of keys."""
    calls: list[tuple[int, Any, bool]] = []

    def watched(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> torch.Tensor:
        assert key.shape == value.shape
        calls.append((key.shape[1], options.get("attn_mask"), options["enable_gqa"]))
        return torch.empty_like(query)

    monkeypatch.setattr(attention, "scaled_dot_product_attention", watched)
    with FakeTensorMode():
        query = torch.empty(1, 4, rows, 8, device="cuda", dtype=dtype)
        key = torch.empty(1, 2, seen, 8, device="cuda", dtype=dtype)
    parts = list(attention._causal(query, key, key, None))
    assert sum(part.shape[2] for part in parts) == rows
    return calls


def test_float32_has_no_kernel_for_grouped_heads_that_is_linear_in_memory(monkeypatch: pytest.MonkeyPatch):
    assert asked(monkeypatch, torch.float32, 64, 64) == [(4, None, False)]


def test_16_bits_read_grouped_heads_as_they_lie(monkeypatch: pytest.MonkeyPatch):
    assert asked(monkeypatch, torch.bfloat16, 64, 64) == [(2, None, True)]
    ((heads, mask, grouped),) = asked(monkeypatch, torch.bfloat16, 3_000, 5_000)
    assert (heads, grouped) == (2, True)
    assert (mask.seq_len_q, mask.seq_len_kv) == (3_000, 5_000)


def test_a_long_branch_asks_for_no_room_for_all_pairs():
    bias = attention._lower_right(1 << 17, 1 << 18)
    assert bias.untyped_storage().nbytes() < 1 << 10
    query, key = torch.randn(1, 2, 40, 16), torch.randn(1, 2, 100, 16)
    mask = torch.ones(40, 100, dtype=torch.bool).tril(60)
    found = scaled_dot_product_attention(query, key, key, attn_mask=attention._lower_right(40, 100))
    torch.testing.assert_close(found, scaled_dot_product_attention(query, key, key, attn_mask=mask))
