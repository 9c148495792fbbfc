"""How processes find their devices."""

import pytest
import torch

from sanderling.core.errors import UserError
from sanderling.train.config import ParallelConfig
from sanderling.train.parallel.launch import Place, opened_team


@pytest.mark.parametrize("rank", [0, 3])
def test_more_processes_than_gpus_are_refused_by_every_one_before_they_meet(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    team = opened_team(ParallelConfig(), Place(rank, 4, rank, 4), None, bfloat16=False)
    with pytest.raises(UserError, match="2 GPUs for 4 processes"), team:
        pass
