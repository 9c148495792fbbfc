from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def pair() -> Iterator[Callable[..., list[Any]]]:
    """Runs a function on both ranks of a new team: on one here, on the other in a process that lives as long as the module."""
    from team_ranks import processes

    with processes(2) as run:
        yield run
