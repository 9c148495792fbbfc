"""The benchmarks by key, and the known leaks. Nothing is discovered: each benchmark is a line here."""

from difflib import get_close_matches
from importlib.resources import files

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.browsecomp import BROWSECOMP, BROWSECOMP_ZH
from sanderling.evaluate.benchmarks.browsecomp_plus import BROWSECOMP_PLUS
from sanderling.evaluate.benchmarks.custom import CUSTOM, WORLD
from sanderling.evaluate.benchmarks.deepsearchqa import DEEPSEARCHQA
from sanderling.evaluate.benchmarks.frames import FRAMES
from sanderling.evaluate.benchmarks.gaia import GAIA, GAIA_TEXT_103
from sanderling.evaluate.benchmarks.hle import HLE
from sanderling.evaluate.benchmarks.qa_sets import QA_SETS
from sanderling.evaluate.benchmarks.seal import SEAL_0
from sanderling.evaluate.benchmarks.simpleqa import SIMPLEQA
from sanderling.evaluate.benchmarks.webwalker import WEBWALKERQA
from sanderling.evaluate.benchmarks.xbench import XBENCH_2505, XBENCH_2510

_ALL = (
    GAIA,
    GAIA_TEXT_103,
    BROWSECOMP,
    BROWSECOMP_ZH,
    BROWSECOMP_PLUS,
    XBENCH_2505,
    XBENCH_2510,
    HLE,
    FRAMES,
    WEBWALKERQA,
    SEAL_0,
    DEEPSEARCHQA,
    SIMPLEQA,
    *QA_SETS,
    CUSTOM,
    WORLD,
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.key: benchmark for benchmark in _ALL}


def get_benchmark(key: str) -> Benchmark:
    """The benchmark of that key. Raises UserError, with the nearest keys, when there is none."""
    found = BENCHMARKS.get(key) or BENCHMARKS.get(key.lower().replace("_", "-"))
    if found is not None:
        return found
    near = get_close_matches(key.lower(), BENCHMARKS, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "sanderling eval list shows them all."
    raise UserError(f"There is no benchmark {key!r}: {hint}")


def leaks() -> str:
    """Sites known to repeat benchmarks, in the form of a blocklist: one a line, each with its source."""
    return files("sanderling.evaluate.benchmarks").joinpath("leaks.txt").read_text(encoding="utf-8")
