"""What the live view of a run costs: an event heard, and a look at the pane, in runs of different sizes.

An event must cost the same however large the run is. At 64 attempts of 500 ms a turn there are about 500 events and two looks a
second.

Run: ``OMP_NUM_THREADS=1 python benchmarks/live.py``; writes ``benchmarks/results/live.json``.
"""

import datetime
import io
import json
import platform
import sys
import time
from pathlib import Path

from rich.console import Console

from sanderling.agent.events import CallsMade, Event, Observed, TurnSampled, TurnStarted
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import Episode, Key
from sanderling.evaluate.live import Live

SIZES, LANES, TURNS, LOOKS = (400, 4_000, 40_000), 64, 5, 300
EVENTS_PER_S, LOOKS_PER_S = 4 * LANES / 0.5, 2.0
OUT = Path(__file__).parent / "results" / "live.json"


def turn(number: int) -> tuple[Event, ...]:
    """What is heard of one."""
    return (
        TurnStarted(number, 0, False, 9_000),
        TurnSampled(number, 0, 9_000, 350, 0.0),
        CallsMade(number, ()),
        Observed(number, "", (), 0.1),
    )


def play(live: Live, keys: list[Key]) -> int:
    """Attempts under way together, from their beginnings to their ends; returns how many events that were."""
    events = [event for number in range(TURNS) for event in turn(number)]
    for key in keys:
        live.begun(key)
    for event in events:
        for key in keys:
            live.heard(key, event)
    for question, attempt in keys:
        live.ended(Episode(question, attempt, Ending.ANSWERED, True, "m", "w", TURNS, 0, 0, 0, 350 * TURNS, None, 1.0, 9_000))
        live.freed((question, attempt))
    return len(keys) * (len(events) + 3)


def measure(size: int) -> dict[str, float]:
    """Microseconds an event and milliseconds a look, of processor time."""
    live = Live(size, LANES, time.monotonic)
    keys = [(f"q{number}", attempt) for attempt in range(4) for number in range(size // 4)]
    began = time.process_time()
    events = sum(play(live, keys[first : first + LANES]) for first in range(0, size, LANES))
    event_us = 1e6 * (time.process_time() - began) / events
    for number in range(LANES):
        live.begun((f"running-{number}", 0))
    live.warned("http://127.0.0.1:8000/v1 gave no answer (status 503: overloaded): attempt 2 of 6 in 1 s")
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=24)
    began = time.process_time()
    for _ in range(LOOKS):
        console.print(live.pane("benchmark", 1.0))
    look_ms = 1e3 * (time.process_time() - began) / LOOKS
    share = (event_us * EVENTS_PER_S / 1e6 + look_ms * LOOKS_PER_S / 1e3) * 100
    return {"event_us": round(event_us, 2), "look_ms": round(look_ms, 2), "percent_of_a_core": round(share, 2)}


def main() -> None:
    """Measure, print, write the results."""
    found = {f"{size} attempts": measure(size) for size in SIZES}
    for name, row in found.items():
        print(name, row)
    report = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/live.py",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"processor": platform.processor() or platform.machine(), "python": sys.version.split()[0]},
        "settings": {"lanes": LANES, "turns": TURNS, "events_per_s": EVENTS_PER_S, "looks_per_s": LOOKS_PER_S},
        "results": found,
    }
    OUT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
