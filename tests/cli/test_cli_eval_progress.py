"""What a person sees of a run while it lasts: on terminals of several widths, in a log, and nothing where nothing is wanted."""

import asyncio
import io

import pytest
from rich.console import Console

from sanderling.agent.events import CallsMade, TurnSampled, TurnStarted
from sanderling.cli.eval_progress import Lines, Pane, Shown, showing
from sanderling.cli.eval_progress_text import headline, plain_line, quality, taken, under_way, warning
from sanderling.core.types import Ending, ToolCall
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.live import Live
from sanderling.report.numbers import compact, roughly


class Run:
    """A run in the middle, whose time the test moves."""

    def __init__(self, total: int = 5_064) -> None:
        self.seconds = 0.0
        self.live = Live(total, 2, lambda: self.seconds)
        self.shown = Shown(self.live, "Browse[bold]Comp", lambda: 12.3456)

    def middle(self) -> "Run":
        for number in range(6):
            self.ended(f"browsecomp/{number:016x}", number % 2 == 0)
        self.live.begun(("browsecomp/a-question-of-a-long-id", 3))
        self.live.heard(("browsecomp/a-question-of-a-long-id", 3), TurnStarted(40, 0, False, 9))
        self.live.heard(
            ("browsecomp/a-question-of-a-long-id", 3), CallsMade(40, (ToolCall(name="visit\x1b[2J", arguments={}),))
        )
        self.seconds += 750.0
        self.live.warned("http://h/v1 gave no\n answer \x1b]0;title\x07 [red]: again in 8 s")
        self.live.warned("http://h/v1 gave no\n answer \x1b]0;title\x07 [red]: again in 8 s")
        return self

    def ended(self, question: str, correct: bool | None) -> None:
        self.live.begun((question, 0))
        self.live.heard((question, 0), TurnStarted(0, 0, False, 9))
        self.seconds += 30.0
        self.live.heard((question, 0), TurnSampled(0, 0, 1_000_000, 512, 30.0))
        ending = Ending.TOOL_OUTAGE if correct is None else Ending.ANSWERED
        self.live.ended(Episode(question, 0, ending, correct, "m", "w", 1, 0, 0, 0, 512, None, 30.0, 1_000_000))
        self.live.freed((question, 0))


def test_every_figure_has_its_words() -> None:
    now = Run().middle().shown.snapshot()
    assert headline(now) == "6/5,064 · 1 running · 15 min 30 s · about 4.5 days left"
    assert quality(now) == "pass so far 50.0% (18.8–81.2) over 6 questions · 3 of 6 right"
    assert taken(now) == "6 turns (0/s) · tokens 3.07k sampled (0/s), 6M read · cost 12.35"
    assert under_way(now) == ["longest …tion-of-a-long-id-3: 12 min 30 s, turn 41, waits 12 min 30 s for visit␛[2J"]
    told = "warning 1 s ago (2 in the last minute): http://h/v1 gave no answer ␛]0;title␇ [red]: again in 8 s"
    assert warning(now) == told
    assert plain_line(now, "GAIA") == " · ".join(
        [f"GAIA {headline(now)}", quality(now), taken(now), *under_way(now), warning(now)]
    )


def test_the_beginning_and_the_end() -> None:
    run = Run(total=1)
    now = run.shown.snapshot()
    assert headline(now).endswith("time left: too early to tell") and quality(now) == "pass so far: nothing scored"
    run.ended("q", None)
    now = run.shown.snapshot()
    assert headline(now).endswith("all made") and quality(now) == "pass so far: nothing scored · 1 unscored"
    run.live.judged(1)
    assert headline(run.shown.snapshot()).endswith("1 looked through by the judges")


def test_an_attempt_that_stands_still_is_told_beside_the_longest() -> None:
    run = Run()
    for name in ("a", "b"):
        run.live.begun((name, 0))
        run.live.heard((name, 0), TurnStarted(0, 0, False, 9))
    run.seconds += 100.0
    run.live.heard(("a", 0), TurnStarted(1, 0, False, 9))
    assert under_way(run.shown.snapshot()) == [
        "longest a-0: 1 min 40 s, turn 2, waits 0.0 s for the model",
        "stillest b-0: turn 1, waits 1 min 40 s for the model",
    ]
    run.live.waits(("b", 0), "The server is away.", 2.0)
    assert len(under_way(run.shown.snapshot())) == 1
    assert "(1 attempt to be tried again): The server is away. b #0" in warning(run.shown.snapshot())


def test_servers_without_counts() -> None:
    run = Run()
    run.live.begun(("q", 0))
    run.live.heard(("q", 0), TurnStarted(0, 0, False, 9))
    run.live.heard(("q", 0), TurnSampled(0, 0, 0, 0, 0.0))
    assert "tokens: the server does not say" in taken(run.shown.snapshot())
    run.live.heard(("q", 0), TurnSampled(1, 0, 50, 7, 0.0))
    assert "tokens at least 7 sampled (7/s), 50 read" in taken(run.shown.snapshot())


@pytest.mark.parametrize("width", [20, 80, 100, 200])
def test_a_terminal_keeps_its_width_and_is_left_as_it_was(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, height=24, color_system=None)
    view = Pane(Run().middle().shown, console)
    view.look()
    shown = out.getvalue()
    assert "\x1b]" not in shown and "\x1b[2J" not in shown and ("␛" in shown or width < 80)
    lines = [line for line in shown.replace("\r", "\n").splitlines() if "\x1b" not in line]
    assert lines and max(map(len, lines)) <= width - 6
    view.close()
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 1, "the cursor is there again"
    tail = out.getvalue()[out.getvalue().rindex("\x1b[?25h") :]
    assert tail.count("\x1b[1A\x1b[2K") >= 5 and tail.rstrip().endswith("\x1b[2K"), "every line is erased"


def test_a_log_has_a_line_each_half_a_minute_one_at_a_stop_and_one_at_the_end() -> None:
    run, out = Run(), io.StringIO()
    view = Lines(run.shown, Console(file=out, width=40))
    for _ in range(130):
        view.look()
        run.seconds += 0.5
    assert len(out.getvalue().splitlines()) == 2
    run.live.stopping()
    view.look()
    view.look()
    assert len(out.getvalue().splitlines()) == 3 and "stopping" in out.getvalue().splitlines()[-1]
    run.ended("q", True)
    view.close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 4 and all(line.startswith("Browse[bold]Comp ") for line in lines) and "1 of 1 right" in lines[-1]
    assert "\x1b" not in out.getvalue()


async def test_the_view_ends_with_the_run_even_when_that_fails() -> None:
    run, out = Run(), io.StringIO()
    stop = asyncio.Event()
    stop.set()
    with pytest.raises(ValueError, match="broken"):
        async with showing(run.shown, Console(file=out, width=40), stop):
            await asyncio.sleep(0)
            raise ValueError("broken")
    assert out.getvalue().count("\n") == 2 and "stopping" in out.getvalue()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (5_399, "90 min"), (5_400, "2 h"), (100_000, "28 h"), (200_000, "2.3 days")],
)
def test_estimates_have_one_unit(seconds: float, told: str) -> None:
    assert roughly(seconds) == told


@pytest.mark.parametrize(
    ("count", "told"),
    [(None, "–"), (0, "0"), (0.25, "0.25"), (999, "999"), (999.6, "1k"), (9_120, "9.12k"), (31_249_000, "31.2M"), (2e9, "2B")],
)
def test_counts_have_three_digits(count: float | None, told: str) -> None:
    assert compact(count) == told
