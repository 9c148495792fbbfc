"""Attention over packed lines: it is what a mask would give, and asks for the kernels that the device has."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from sanderling.train.packed import attention
from sanderling.train.packed.attention import Continuing, attend, partial_attention, rectangles


@st.composite
def lines(draw: st.DrawFn) -> tuple[int, list[Continuing]]:
    """A line's length, and stretches that continue spans of it, in any order, with other tokens in between."""
    trunk = draw(st.integers(1, 40))
    found: list[Continuing] = []
    at = trunk
    for _ in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([0, 0, 0, 2]))
        length = draw(st.integers(1, 5))
        cut = draw(st.integers(1, trunk))
        fork = draw(st.integers(1, trunk))
        prefix = (
            ((0, cut),)
            if fork >= cut or draw(st.booleans())
            else ((0, fork), (cut - 1, cut + draw(st.integers(0, trunk - cut))))
        )
        found.append(Continuing(at, length, prefix))
        at += length
    return at, found


def visible(length: int, stretches: list[Continuing]) -> torch.Tensor:
    """Which keys each token sees of its prefix: how often."""
    seen = torch.zeros(length, length, dtype=torch.int64)
    for one in stretches:
        for first, end in one.prefix:
            seen[one.first : one.end, first:end] += 1
    return seen


@given(lines())
def test_every_pair_of_query_and_key_is_in_one_rectangle(line):
    length, stretches = line
    found = torch.zeros(length, length, dtype=torch.int64)
    for one in rectangles(stretches):
        found[slice(*one.queries), slice(*one.keys)] += 1
    assert torch.equal(found, visible(length, stretches))


def test_a_sorted_staircase_takes_about_as_many_rectangles_as_it_has_steps():
    steps = [Continuing(10_000 + 10 * n, 10, ((0, 50 * (n + 1)),)) for n in range(200)]
    found = rectangles(steps)
    assert len(found) == 200
    assert max(sum(one.queries[0] <= step.first < one.queries[1] for one in found) for step in steps) <= 9, (
        "log2 for each probe"
    )
    answers = [Continuing(10_000 + 10 * n, 10, ((0, 50 * (n // 4 + 1)),)) for n in range(200)]
    assert len(rectangles(answers)) == 50, "several answers at a boundary look at its keys together"


def masked(query, key, value, length: int, stretches: list[Continuing], scale):
    """The same by one large mask."""
    seen = visible(length, stretches).bool()
    for one in stretches:
        own = torch.ones(one.length, one.length, dtype=torch.bool).tril()
        seen[one.first : one.end, one.first : one.end] = own
    rows = torch.cat([torch.arange(one.first, one.end) for one in stretches])
    return scaled_dot_product_attention(query[:, :, rows], key, value, attn_mask=seen[rows], scale=scale, enable_gqa=True)


@settings(max_examples=60)
@given(lines(), st.sampled_from([(1, 1), (4, 4), (4, 2), (6, 1)]), st.sampled_from([8, 20]), st.sampled_from([None, 0.3]))
def test_it_is_the_attention_that_a_mask_would_give(line, heads, size: int, scale):
    length, stretches = line
    torch.manual_seed(length)
    query = 3 * torch.randn(1, heads[0], length, size)
    key, value = (3 * torch.randn(1, length, heads[1], size).transpose(1, 2) for _ in range(2))
    got = attend(query, key, value, stretches, scale)
    torch.testing.assert_close(got, masked(query, key, value, length, stretches, scale), atol=2e-5, rtol=1e-5)


def test_in_16_bits_partial_results_are_added_in_32():
    torch.manual_seed(1)
    stretches = [Continuing(400 + 4 * n, 4, ((0, 20 * (n + 1)),)) for n in range(20)]
    exact = [torch.randn(1, 4, 480, 16) for _ in range(3)]
    query, key, value = (x.bfloat16() for x in exact)
    got = attend(query, key, value, stretches, None)
    assert got.dtype is torch.bfloat16
    whole = masked(*(x.bfloat16().float() for x in exact), 480, stretches, None)
    assert (got.float() - whole).abs().max() < 0.02


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
    parts = list(attention._causal(query, key, key, 0.0, None))
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
