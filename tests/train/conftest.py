import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

# The loop's fakes of tests/agent serve here too, also when this is run alone.
sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("agent", "rl")]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pair() -> Iterator[Callable[..., list[Any]]]:
    """Runs a function on both ranks of a new team, in two processes that live as long as the module."""
    from team_ranks import processes

    with processes(2) as run:
        yield run
