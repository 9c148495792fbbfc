"""The slot cache where memory runs out amid its growth."""

import pytest
import torch

from sanderling.policy import kv_cache
from sanderling.policy.kv_cache import Placement, SlotCache


def test_grown_by_half_when_memory_ran_out_it_grows_on_and_keeps_what_it_holds(monkeypatch: pytest.MonkeyPatch):
    cache = SlotCache(3)
    cache.reserve(1, 4)
    one = torch.arange(4)
    cache.place(Placement(slots=torch.zeros(4, dtype=torch.int64), positions=one, source=None, read=1, length=4))
    states = torch.randn(1, 2, 4, 8)
    for layer in cache.slot_layers:
        layer.update(states, -states)
    grown, left = kv_cache._grown, [3]  # a layer and half of the next

    def scarce(*wanted):
        left[0] -= 1
        if left[0] < 0:
            raise torch.OutOfMemoryError("no memory left")
        return grown(*wanted)

    monkeypatch.setattr(kv_cache, "_grown", scarce)
    with pytest.raises(torch.OutOfMemoryError):
        cache.reserve(20, 4)
    monkeypatch.setattr(kv_cache, "_grown", grown)
    cache.reserve(20, 4)
    for layer in cache.slot_layers:
        assert layer.keys is not None and layer.values is not None
        assert len(layer.keys) == len(layer.values) >= 20
        assert torch.equal(layer.keys[:1, :, :4], states) and torch.equal(layer.values[:1, :, :4], -states)
