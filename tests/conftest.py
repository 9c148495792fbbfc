"""For all tests: property tests have no deadlines, since a busy machine is not a wrong result.

They try the same 50 examples each time in ``make test``, 200 in ``make test-all`` (``HYPOTHESIS_PROFILE=all``), and random ones
in ``make fuzz`` (``fuzz``), where none says otherwise.
"""

import gc
import multiprocessing
import os
import signal
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("sanderling", max_examples=50, derandomize=True, **COMMON)
settings.register_profile("all", max_examples=200, derandomize=True, **COMMON)
settings.register_profile("fuzz", max_examples=500, print_blob=True, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sanderling"))

# A shell that starts tests in the background has them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tiny models are fastest with one thread, and sum in the same order everywhere.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start and kill are forked from one that has imported what takes seconds, and nothing else.
multiprocessing.set_forkserver_preload(["torch", "transformers.models.qwen3.modeling_qwen3", "sanderling.rl.launch"])

# One room's fakes, tiny models and records serve in others, too, also where one of them is run alone.
sys.path.extend(str(room) for room in sorted(Path(__file__).parent.iterdir()) if room.is_dir() and room.name[0] not in "._")

_NUMBERS = count()


def pytest_collection_finish() -> None:
    """What collection has made lives to the end: a whole collection of garbage amid a test need not look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def places_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies are kept by address: a port that comes again must not answer with what another test's server said.

    And no test's questions come among those that whoever runs the tests has asked.
    """
    own = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("XDG_CACHE_HOME", str(own / f"cache-{next(_NUMBERS)}"))
    monkeypatch.setenv("XDG_DATA_HOME", str(own / f"data-{next(_NUMBERS)}"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of two documents on made-up towns."""
    place = tmp_path / "notes"
    place.mkdir()
    (place / "kent.md").write_text(
        "# Kent\n\nKent was founded by Ada Vell in 1803, on the north bank of the river Quoll.\n\n"
        "The town has had a lighthouse since 1851, built by her grandson Tom Vell after the flood.\n"
    )
    (place / "eden.md").write_text("# Eden\n\nEden lies forty miles south of Kent and was founded by settlers in 1820.\n")
    return place
