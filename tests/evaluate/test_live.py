"""A live view's figures and lines, with a clock that the test moves."""

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import measured_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_runs import go
from rich.console import Console

from sanderling.agent.events import CallsMade, Ended, TurnSampled, TurnStarted
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending, ToolCall
from sanderling.evaluate.episodes import Episode, Key
from sanderling.evaluate.live import FEWEST_FOR_TIME_LEFT, Live, showing
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.statistics import wilson_interval
from sanderling.report.numbers import compact, percent, roughly, span


def episode(question: str = "q0", attempt: int = 0, correct: bool | None = True, **more) -> Episode:
    ending = Ending.ANSWERED if correct is not None else Ending.POLICY_OUTAGE
    counts = {
        "turns": 2,
        "calls": 1,
        "searches": 1,
        "visits": 0,
        "sampled_tokens": 20,
        "context_tokens": None,
        "prompt_tokens": 300,
    }
    said = {"ending": ending, "model": "m", "world": "w", "seconds": 5.0, **counts, **more}
    return Episode(question=question, attempt=attempt, correct=correct, **said)


class Run:
    """A run whose time the test moves."""

    def __init__(self, total: int = 40, concurrency: int = 4) -> None:
        self.seconds = 1_000.0
        self.live = Live(total, concurrency, lambda: self.seconds)

    def turn(self, key: Key, turn: int, seconds: float = 2.0, *, sampled: int = 10, prompt: int = 100, retry: int = 0) -> None:
        self.live.heard(key, TurnStarted(turn, retry, False, prompt))
        self.seconds += seconds
        self.live.heard(key, TurnSampled(turn, retry, prompt, sampled, seconds))

    def attempt(self, key: Key, *, turns: int = 2, correct: bool | None = True) -> None:
        """A whole one of 2 s a turn."""
        self.live.begun(key)
        for turn in range(turns):
            self.turn(key, turn)
        self.live.ended(episode(*key, correct, turns=turns, sampled_tokens=10 * turns, prompt_tokens=100 * turns))
        self.live.freed(key)

    @property
    def lines(self) -> list[str]:
        return self.live.lines(cost=1.5)


def test_nothing_has_happened() -> None:
    run = Run()
    assert run.live.headline() == "0/40 · 0 running · 0.0 s · time left: too early to tell"
    assert run.lines == ["pass so far: nothing scored", "0 turns · cost 1.5"] and run.live.warning() == ""
    assert Run(total=0).live.left_s() == 0.0


def test_pass_so_far_weighs_questions_alike_and_has_wilsons_interval() -> None:
    run = Run()
    for attempt, correct in enumerate((True, True, False, True)):
        run.attempt(("q0", attempt), correct=correct)
    run.attempt(("q1", 0), correct=False)
    run.attempt(("q2", 0), correct=None)
    told = f"pass so far {percent(3 / 8)} ({span(wilson_interval(0.75, 2))}) over 2 questions · 3 of 5 right · 1 unscored"
    assert run.lines[0] == told
    assert run.live.warning() == "warning 1 s ago: q2 #0 is left unscored: policy outage."


def test_a_verdict_that_comes_later_takes_the_place_of_none() -> None:
    run = Run(total=1)
    run.live.begun(("q0", 0))
    run.live.ended(replace(episode(correct=None), ending=Ending.ANSWERED))
    assert run.lines[0] == "pass so far: nothing scored · 1 unscored" and run.live.headline().endswith("all made")
    run.live.ended(episode(correct=True))
    assert "over 1 question · 1 of 1 right" in run.lines[0] and run.lines[1].startswith("2 turns · tokens 20 sampled, 300 read")
    run.live.judged(1)
    assert run.live.headline().endswith("1 looked through by the judges")


def test_turns_and_tokens_while_they_come_and_after_the_record() -> None:
    run, key = Run(), ("q0", 0)
    run.live.begun(key)
    run.turn(key, 0, sampled=7)
    run.turn(key, 1, sampled=5)
    run.turn(key, 1, sampled=6, retry=1)  # the turn was rejected
    during = run.lines[1]
    run.live.ended(episode(sampled_tokens=18, prompt_tokens=300))
    run.live.freed(key)
    assert during == run.lines[1] == "2 turns · tokens 18 sampled, 300 read · cost 1.5"
    run.live.begun(("q1", 0))
    run.turn(("q1", 0), 0)
    run.live.freed(("q1", 0))  # put off: it is not made
    assert run.lines[1] == during


def test_an_attempt_that_begins_again_after_an_outage_counts_no_turn_twice() -> None:
    run, key = Run(), ("q0", 0)
    run.live.begun(key)
    run.turn(key, 0)
    ended = Trajectory(id="t", question=Question(id="q", text="?"), nodes=(), leaf=None, ending=Ending.POLICY_OUTAGE)
    run.live.heard(key, Ended(ended))
    assert "for the verdict" in run.lines[2]
    run.live.waits(key, "the server is\naway", 4.0)
    assert "for a retry" in run.lines[2]
    assert run.live.warning() == "warning 1 s ago (1 to be tried again): the server is away q0 #0 is tried again in 4 s."
    run.turn(key, 0)
    assert run.lines[1].startswith("1 turns · tokens 10 sampled, 100 read")


def test_the_time_left_is_the_mean_of_this_run() -> None:
    run = Run(total=13, concurrency=4)
    run.live.resumed([episode("old", number) for number in range(3)])
    for number in range(FEWEST_FOR_TIME_LEFT):
        assert run.live.left_s() is None
        run.attempt(("q", number))  # 4 s each
    assert run.live.left_s() == pytest.approx(5 / 4 * 4.0)
    run.live.begun(("q", 9))
    run.turn(("q", 9), 0, seconds=20.0)
    assert run.live.left_s() == pytest.approx(5 / 4 * (20.0 + 20.0) / 5), "one under way counts with what it took so far"


def test_what_may_be_stuck_is_told() -> None:
    run = Run()
    run.live.begun(("first", 0))
    run.turn(("first", 0), 0)
    run.live.begun(("a-very-long-name-of-a-question", 3))
    run.live.heard(("a-very-long-name-of-a-question", 3), CallsMade(0, (ToolCall(name="vi\x1bsit", arguments={}),)))
    run.seconds += 70.0
    run.live.heard(("first", 0), TurnStarted(1, 0, False, 9))
    longest, stillest = run.lines[2:]
    assert longest == "longest first-0: 1 min 12 s, turn 2, waits 0.0 s for the model"
    assert stillest == "stillest …ame-of-a-question-3: turn 0, waits 1 min 10 s for vi␛sit"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.none() | st.booleans()), max_size=30))
def test_the_sums_are_those_of_the_last_verdicts(verdicts: list[tuple[int, int, bool | None]]) -> None:
    live, last = Live(99, 1, lambda: 0.0), dict[tuple[int, int], bool | None]()
    for question, attempt, correct in verdicts:
        live.ended(episode(str(question), attempt, correct))
        last[question, attempt] = correct
    scored = [correct for correct in last.values() if correct is not None]
    shares = [[c for (q, _), c in last.items() if q == one and c is not None] for one in range(4)]
    means = [sum(of) / len(of) for of in shares if of]
    quality, taken = live.lines(0.0)
    assert taken.startswith(f"{2 * len(last)} turns")
    if means:
        assert f"pass so far {percent(sum(means) / len(means))} (" in quality
        assert f"{sum(scored)} of {len(scored)} right" in quality


def test_a_real_run_with_outages_ends_with_the_figures_of_its_result(tmp_path: Path) -> None:
    live = Live(30, 8, lambda: 0.0)
    made, result = asyncio.run(go(tmp_path / "run", 15, 2, watch=live))
    turns = sum(one.turns for one in made.episodes.values())
    assert live.headline() == "30/30 · 0 running · 0.0 s · 30 looked through by the judges" and result.unscored
    assert (
        f"pass so far {percent(result.pass_at_1.value)}" in live.lines(0.0)[0]
        and f"{result.unscored} unscored" in live.lines(0.0)[0]
    )
    assert live.lines(0.0)[1].startswith(f"{turns} turns") and "away" in live.warning() + "away"
    again = Live(30, 8, lambda: 0.0)
    asyncio.run(go(tmp_path / "run", 15, 2, watch=again))
    assert again.lines(0.0) == live.lines(0.0)


def test_a_run_that_nobody_watches_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_runs, "FLAKY", 0.5)
    asyncio.run(go(tmp_path / "a", 6, 2, watch=Live(12, 8, lambda: 0.0)))
    asyncio.run(go(tmp_path / "b", 6, 2))
    first, second = (sorted(RunLog(tmp_path / name).records(), key=lambda one: one.id) for name in "ab")
    assert first == second


@pytest.mark.parametrize("width", [20, 80, 200])
async def test_a_terminal_keeps_its_width_and_is_left_as_it_was(width: int) -> None:
    out, run = io.StringIO(), Run()
    run.live.begun(("q\x1b[2J]", 0))
    run.live.warned("bad \x1b[31m news " * 30)
    console = Console(file=out, force_terminal=True, width=width, height=24, color_system=None)
    async with showing(run.live, "Browse[bold]Comp", lambda: 1.5, console, asyncio.Event()):
        await asyncio.sleep(0.01)
    shown = out.getvalue()
    assert "\x1b[2J" not in shown and "Brows" in shown
    lines = [line for line in shown.replace("\r", "\n").splitlines() if "\x1b" not in line]
    assert lines and max(map(len, lines)) <= width - 6
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1, "the cursor is there again"


async def test_a_log_has_lines_and_the_view_ends_with_the_run_even_when_that_fails() -> None:
    run, out, stop = Run(), io.StringIO(), asyncio.Event()
    stop.set()
    with pytest.raises(ValueError, match="broken"):
        async with showing(run.live, "Browse[bold]Comp", lambda: 1.5, Console(file=out, width=40), stop):
            await asyncio.sleep(0.01)
            raise ValueError("broken")
    lines = out.getvalue().splitlines()
    assert len(lines) == 2 and all(line.startswith("Browse[bold]Comp 0/40 · ") and "stopping" in line for line in lines)
    assert "\x1b" not in out.getvalue() and len(asyncio.all_tasks()) == 1


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
