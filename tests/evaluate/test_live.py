"""A live view's figures and lines, with a clock that the test moves."""

import asyncio
import io

import pytest
from rich.console import Console
from test_evaluate_result import episode

from sanderling.core.types import Ending
from sanderling.evaluate.live import FEWEST_FOR_TIME_LEFT, Live, showing
from sanderling.evaluate.statistics import wilson_interval
from sanderling.report.numbers import compact, percent, span


def test_a_run_from_its_beginning_to_its_end() -> None:
    seconds = 1_000.0
    live = Live(8, lambda: seconds)
    assert live.lines(1.5) == ["0/8 · 0.0 s · time left: too early to tell", "pass so far: nothing scored · 0 turns · cost 1.5"]
    live.resumed([episode("old", 0, True)])
    for attempt in range(FEWEST_FOR_TIME_LEFT):
        seconds += 4.0
        correct = None if attempt == 4 else attempt < 3
        live.ended(episode("q0", attempt, correct, Ending.ANSWERED if attempt < 4 else Ending.POLICY_OUTAGE, prompt_tokens=7))
    head, quality, warning = live.lines(0.0)
    assert head == "6/8 · 20 s · about 8.0 s left"
    so_far = f"pass so far {percent(1.75 / 2)} ({span(wilson_interval(1.75, 2))}) over 2 questions · 1 unscored"
    assert quality == f"{so_far} · 18 turns · tokens 60 sampled, 35 read · cost 0"
    assert warning == "warning: q0 #4 is left unscored: policy outage."
    live.waits(("q0", 4), "the server is\naway", 4.0)
    assert live.lines(0.0)[2] == "warning: the server is away q0 #4 is tried again in 4 s."
    live.ended(episode("q0", 4, True))  # a verdict that comes later takes the place of none
    live.resumed([episode("q1", 0, True), episode("q1", 1, True)])
    assert live.lines(0.0)[0].endswith("all made") and "unscored" not in live.lines(0.0)[1]
    live.judged(3)
    assert live.lines(0.0)[0].endswith("3 looked through by the judges")


@pytest.mark.parametrize("width", [20, 200])
async def test_a_terminal_keeps_its_width_and_is_left_as_it_was(width: int) -> None:
    out, live = io.StringIO(), Live(40, lambda: 0.0)
    live.warning = "bad \x1b[31m news " * 30
    console = Console(file=out, force_terminal=True, width=width, height=24, color_system=None)
    async with showing(live, "Browse[bold]Comp", lambda: 1.5, console, asyncio.Event()):
        await asyncio.sleep(0.01)
    shown = out.getvalue()
    assert "\x1b[2J" not in shown and "Browse[bold]Comp" in shown
    lines = [line for line in shown.replace("\r", "\n").splitlines() if "\x1b" not in line]
    assert lines and max(map(len, lines)) <= width
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1, "the cursor is there again"


async def test_a_log_has_lines_and_the_view_ends_with_the_run_even_when_that_fails() -> None:
    live, out, stop = Live(40, lambda: 0.0), io.StringIO(), asyncio.Event()
    stop.set()
    with pytest.raises(ValueError, match="broken"):
        async with showing(live, "Browse[bold]Comp", lambda: 1.5, Console(file=out, width=40), stop):
            await asyncio.sleep(0.01)
            raise ValueError("broken")
    lines = out.getvalue().splitlines()
    assert len(lines) == 2 and all(line.startswith("Browse[bold]Comp 0/40 · ") and "stopping" in line for line in lines)
    assert "\x1b" not in out.getvalue() and len(asyncio.all_tasks()) == 1


def test_numbers_have_one_unit_and_three_digits() -> None:
    counts = {None: "–", 0: "0", 0.25: "0.25", 999: "999", 999.6: "1k", 9_120: "9.12k", 31_249_000: "31.2M", 2e9: "2B"}
    assert {count: compact(count) for count in counts} == counts
