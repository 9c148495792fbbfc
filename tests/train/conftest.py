from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def pair() -> Iterator[Callable[..., list[Any]]]:
    """Runs a function on both ranks of a new team, in two processes that live as long as the module."""
    from team_ranks import processes

    with processes(2) as run:
        yield run
