"""One measurement in a fresh process: ``python world_child.py '{"task": …}'`` prints one line of JSON. Run by `world_fresh`.

Knows how to open, search and visit; not what is measured together, nor why.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import world_corpus
from engines import ENGINES, OWN

from sanderling.world.contract import answered
from sanderling.world.disk.index import Ranker, indexed_text
from sanderling.world.disk.store import open_world
from sanderling.world.local import LocalWorld

WARM_UP = 20
RESULTS = 10


def anonymous_mb() -> float | None:
    """Memory of this process that belongs to no file, in megabytes; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("RssAnon:")), None)


def timed(call: Callable[[Any], object], inputs: list[Any]) -> dict[str, float]:
    """Median and 99th percentile of single calls in milliseconds; beside it processor time, which other work disturbs less."""
    seconds, busy = [], []
    for item in inputs:
        began, worked = time.perf_counter(), time.thread_time()
        call(item)
        busy.append(time.thread_time() - worked)
        seconds.append(time.perf_counter() - began)
    seconds.sort()
    return {
        "n": len(seconds),
        "p50_ms": seconds[len(seconds) // 2] * 1e3,
        "p99_ms": seconds[int(len(seconds) * 0.99)] * 1e3,
        "processor_p50_ms": sorted(busy)[len(busy) // 2] * 1e3,
    }


def opened(given: dict[str, Any]) -> tuple[LocalWorld, Ranker]:
    """The world, and the engine that is asked for as its ranker."""
    world, name = open_world(Path(given["world"])), given.get("engine", OWN)
    if name == OWN:
        return world, world.lexical
    ranker = ENGINES[name].open(Path(given["engine_directory"]))
    return world.with_ranker(ranker), ranker


def open_task(given: dict[str, Any]) -> dict[str, Any]:
    """Opening, and the first search after it."""
    began = time.perf_counter()
    world, _ = opened(given)
    ready = time.perf_counter()
    answered(world.search(world_corpus.queries(1)[0]))
    return {"open_s": ready - began, "first_search_s": time.perf_counter() - ready, "anonymous_mb": anonymous_mb()}


def search_task(given: dict[str, Any]) -> dict[str, Any]:
    """Searches with snippets, one after the other on one core; ranking alone beside them; memory after it all."""
    _one_core()
    world, ranker = opened(given)
    queries = world_corpus.queries(given["n"] + WARM_UP, given["seed"], common=given["common"])
    for query in queries[:WARM_UP]:
        answered(world.search(query, limit=RESULTS))
    found = timed(lambda query: answered(world.search(query, limit=RESULTS)), queries[WARM_UP:])
    ranked = timed(lambda query: ranker.rank(query, RESULTS), queries[WARM_UP:])
    return {**found, "rank_p50_ms": ranked["p50_ms"], "anonymous_mb": anonymous_mb()}


def visit_task(given: dict[str, Any]) -> dict[str, Any]:
    """Visits of pages all over the world, each with a goal; ``max_words`` forces a choice of passages."""
    _one_core()
    world, _ = opened(given)
    goals = world_corpus.queries(given["n"] + WARM_UP, given["seed"])
    step = 7_919
    asked = [(world_corpus.url(i * step % given["pages"]), goal) for i, goal in enumerate(goals)]
    for url, goal in asked[:WARM_UP]:
        answered(world.visit(url, goal, max_words=given["max_words"]))
    return timed(lambda pair: answered(world.visit(*pair, max_words=given["max_words"])), asked[WARM_UP:])


def throughput_task(given: dict[str, Any]) -> dict[str, Any]:
    """Searches/s of some threads of one process, begun when a line is read, so that several processes begin together."""
    world, _ = opened(given)
    threads, each = given["threads"], given["n"]
    parts = [world_corpus.queries(each, 1_000 * given["seed"] + thread, common=given["common"]) for thread in range(threads)]
    answered(world.search(parts[0][0]))
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: [answered(world.search(query, limit=RESULTS)) for query in part], parts))
    return {"searches": threads * each, "seconds": time.perf_counter() - began}


def build_engine_task(given: dict[str, Any]) -> dict[str, Any]:
    """Indexing by an engine, from terms that are already made."""
    documents = [indexed_text(page.title, page.text) for page in world_corpus.pages(given["pages"], given["seed"])]
    began = time.perf_counter()
    ENGINES[given["engine"]].build(Path(given["engine_directory"]), documents)
    return {"seconds": time.perf_counter() - began}


def lists_task(given: dict[str, Any]) -> dict[str, Any]:
    """The pages that are found for a few queries of each kind."""
    _, ranker = opened(given)
    queries = [query for words in given["common"] for query in world_corpus.queries(given["n"], given["seed"], common=words)]
    return {"lists": [[number for number, _ in ranker.rank(query, RESULTS)] for query in queries]}


def _one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "open": open_task,
    "search": search_task,
    "visit": visit_task,
    "throughput": throughput_task,
    "build_engine": build_engine_task,
    "lists": lists_task,
}

if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(TASKS[task["task"]](task)))
