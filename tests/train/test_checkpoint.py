"""A checkpoint that was damaged behind our back."""

from pathlib import Path

import pytest
import torch

from sanderling.core.errors import UserError
from sanderling.train.checkpoint import load_state
from sanderling.train.sft.schedule import STATE


@pytest.mark.parametrize("left", [0, 4, 600])
def test_a_state_that_was_cut_short_is_one_sentence(tmp_path: Path, left: int) -> None:
    torch.save({"steps": 3, "optimizer": torch.zeros(1000)}, tmp_path / STATE)
    assert load_state(tmp_path)["steps"] == 3
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:left])
    with pytest.raises(UserError, match="is damaged: remove"):
        load_state(tmp_path)


def test_a_state_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is damaged: remove"):
        load_state(tmp_path)
