import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# Fakes of the loop, tiny models and records, and the settings of SFT's tests serve here too.
sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("agent", "policy", "train")]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model for bandits."""
    from tiny_qwen3 import save_tiny

    return save_tiny(tmp_path_factory.mktemp("models") / "base")
