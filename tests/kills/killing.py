"""Commands that are killed and called again: what is killed when, and what must come out the same.

A `Case` is one command of ``sanderling``. It is called once in peace, and then in another place, where it is killed at
moments that are shares of what the call in peace went through: changes of files, bytes written, questions to a server, seconds.
"""

import hashlib
import json
import math
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from launcher import begun, launch
from talker import Talker

PATIENCE_S = 600
FLEETING = {"date", "latency", "remembered", "cost", "runs", "resumed", "command"}
FLEETING |= {"commands", "parts", "asked"}
"""Keys of results that tell of clocks, of money and of how often something was begun or asked, beside those of seconds."""


@dataclass(frozen=True)
class Case:
    """A command, its result, and what it needs."""

    name: str
    arguments: str
    """``{given}`` is where things lie that all cases share, ``{out}`` an empty directory, ``{url}`` the server's address."""
    results: str = ""
    """Patterns below ``{out}`` of the files that must be the same."""
    clocks: tuple[str, ...] = ("files", "bytes", "seconds")
    before: str = ""
    """A command that is called in peace before."""
    read: Callable[[Path], object] | None = None
    """In place of files' contents."""
    again: int = 8
    """Questions to the server that a kill may have asked once more: those that were under way."""
    unordered: bool = False
    """Records stand in the order in which they ended."""
    close: float = 0.0
    """By how much numbers may differ: a synchronous RL run that is killed between two turns of one rollout computes the first
    of them again together, and log-probabilities differ in their last digits."""


@dataclass(frozen=True)
class Moment:
    """When to kill: after this share of what the clock showed at the end of the call in peace."""

    clock: str
    share: float


def moments(case: Case, seed: int, count: int) -> list[Moment]:
    """So many moments at random, the earlier ones first."""
    dice = random.Random(f"{case.name} {seed}")
    shares = sorted(dice.uniform(0.05, 0.98) for _ in range(count))
    return [Moment(dice.choice(case.clocks), share) for share in shares]


@dataclass
class Place:
    """Where a case is called, and with whom it speaks."""

    given: Path
    out: Path
    talker: Talker

    def start(self, words: str, die_at: int = 0) -> BaseProcess:
        """The command in a process of its own, forked from one that has imported what commands import."""
        told = words.format(given=self.given, out=self.out, url=self.talker.url).split()
        home = {"XDG_CACHE_HOME": str(self.out / "cache"), "XDG_DATA_HOME": str(self.out / "data")}
        return begun(launch, told, home, self.said, self.count, str(self.out), die_at)

    @property
    def count(self) -> Path:
        return self.out.with_name(f"{self.out.name}.count")

    @property
    def said(self) -> Path:
        """What the last command has said."""
        return self.out.with_name(f"{self.out.name}.said")

    @property
    def bytes(self) -> int:
        """Of all files of the place, as far as they can be seen."""
        found = 0
        for root, _, files in os.walk(self.out):
            for name in files:
                try:
                    found += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 -- ten times as fast
                except OSError:
                    continue
        return found

    def in_peace(self, words: str) -> str:
        process = self.start(words)
        process.join(PATIENCE_S)
        assert process.exitcode == 0, f"{words}: {self.said.read_text()[-3000:]}"
        return self.said.read_text()


@dataclass(frozen=True)
class Straight:
    """What the call in peace came to."""

    result: dict[str, Any]
    clocks: dict[str, float]


def called_in_peace(case: Case, place: Place) -> Straight:
    if case.before:
        place.in_peace(case.before)
    place.talker.asked = 0
    began, first = time.monotonic(), place.bytes
    process, most = place.start(case.arguments), first
    while process.is_alive():
        most = max(most, place.bytes)
        time.sleep(0.02)
    assert process.exitcode == 0, f"{case.name}: {place.said.read_text()[-3000:]}"
    clocks = {"seconds": time.monotonic() - began, "bytes": most - first, "asked": place.talker.asked}
    return Straight(result_of(case, place), clocks | {"files": int(place.count.read_text())})


def killed(case: Case, place: Place, straight: Straight, when: Sequence[Moment]) -> int:
    """Call the case, kill it at each moment in turn, call it to its end; how many of the kills met it at work."""
    if case.before:
        place.in_peace(case.before)
    place.talker.asked, first, met = 0, place.bytes, 0
    for moment in when:
        at = straight.clocks[moment.clock] * moment.share
        process = place.start(case.arguments, die_at=max(1, round(at)) if moment.clock == "files" else 0)
        began = time.monotonic()

        def strike(victim: BaseProcess = process) -> None:
            os.killpg(victim.pid, signal.SIGKILL)

        if moment.clock == "asked":
            place.talker.strike(max(1, round(at)), strike)
        while process.is_alive():
            late = moment.clock == "seconds" and time.monotonic() - began >= at
            if late or (moment.clock == "bytes" and place.bytes - first >= at):
                with suppress(ProcessLookupError):  # it has hardly begun, and leads no group yet
                    strike()
            assert time.monotonic() - began < PATIENCE_S
            time.sleep(0.003)
        process.join(PATIENCE_S)
        place.talker.strike(0, None)
        assert process.exitcode in (0, -signal.SIGKILL), f"{case.name} {moment}: {place.said.read_text()[-3000:]}"
        if process.exitcode == 0:  # it was done before it could be killed, and some commands refuse a finished place
            break
        met += 1
    else:
        place.in_peace(case.arguments)
    assert place.talker.asked <= straight.clocks["asked"] + case.again * met, "only what was under way is asked for again"
    return met


def result_of(case: Case, place: Place) -> dict[str, Any]:
    """What the case came to: its result files without what clocks decide, and their names."""
    if case.read is not None:
        return {"read": case.read(place.out)}
    found = sorted({path for pattern in case.results.split() for path in place.out.glob(pattern) if path.is_file()})
    assert found, f"{case.name} has no result"
    return {str(path.relative_to(place.out)): _content(path, place, case) for path in found}


def _content(path: Path, place: Place, case: Case) -> object:
    if path.suffix == ".parquet":
        return [_plain(row, place) for row in pq.read_table(path).to_pylist()]
    if path.suffix in (".json", ".jsonl", ".toml"):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return _plain(json.loads(text), place)
        if path.suffix == ".toml":
            return text
        lines = [_plain(json.loads(line), place) for line in text.splitlines()]
        return sorted(lines, key=lambda line: line["id"]) if case.unordered else lines
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _plain(value: Any, place: Place) -> Any:
    """A value without fleeting keys; what names the place names any."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if not (key in FLEETING or "second" in key or key.endswith("_s"))}
        return {key: _plain(one, place) for key, one in kept.items()}
    if isinstance(value, list):
        return [_plain(one, place) for one in value]
    return value.replace(str(place.out), "OUT") if isinstance(value, str) else value


def differences(one: Any, other: Any, at: str = "", close: float = 0.0) -> list[str]:
    """Where two results differ, a line each; ``close``: by how much numbers may, relatively."""
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=close):
        return []
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{at}/{key}", close)]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for place, (a, b) in enumerate(zip(one, other, strict=True))
            for line in differences(a, b, f"{at}/{place}", close)
        ]
    return [] if one == other else [f"{at}: {str(one)[:200]} is not {str(other)[:200]}"]
