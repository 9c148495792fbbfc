"""What CUDA's kernels are asked for. No GPU computes here: tensors are only said to be on one."""

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention

from sanderling.train.packed import attention


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
