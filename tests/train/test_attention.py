"""Attention over packed lines: it is what a mask would give, and asks for the kernels that the device has."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from sanderling.train import attention
from sanderling.train.attention import Stretch, attend, partial_attention


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
