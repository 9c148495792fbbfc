import sys
from pathlib import Path

import pytest
import torch

# The loop's fakes of tests/agent serve here too, also when this is run alone.
sys.path[:0] = [str(Path(__file__).parents[1] / "agent")]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
