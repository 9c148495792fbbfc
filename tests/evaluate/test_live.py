"""A live view's figures, with a clock that the test moves."""

import asyncio
from dataclasses import replace
from pathlib import Path

import measured_runs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_runs import go

from sanderling.agent.events import CallsMade, Ended, Event, Observed, TurnSampled, TurnStarted
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending, ToolCall
from sanderling.evaluate.episodes import Episode, Key
from sanderling.evaluate.live import FEWEST_FOR_TIME_LEFT, Live
from sanderling.evaluate.live_snapshot import Doing, Snapshot
from sanderling.evaluate.live_sums import LastMinute, PassSoFar
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.statistics import wilson_interval


def episode(question: str = "q0", attempt: int = 0, correct: bool | None = True, **more) -> Episode:
    said = {
        "ending": Ending.ANSWERED if correct is not None else Ending.POLICY_OUTAGE,
        "model": "m",
        "world": "w",
        "turns": 2,
        "calls": 1,
        "searches": 1,
        "visits": 0,
        "sampled_tokens": 20,
        "context_tokens": None,
        "seconds": 5.0,
        "prompt_tokens": 300,
        **more,
    }
    return Episode(question=question, attempt=attempt, correct=correct, **said)


class Run:
    """A run whose time the test moves."""

    def __init__(self, total: int = 40, concurrency: int = 4) -> None:
        self.seconds = 1_000.0
        self.live = Live(total, concurrency, lambda: self.seconds)

    def now(self) -> Snapshot:
        return self.live.snapshot(cost=1.5)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def turn(
        self, key: Key, turn: int, seconds: float = 2.0, *, sampled: int = 10, prompt: int = 100, real: bool = True
    ) -> None:
        """One turn; not a real one is remembered by a journal: it comes at once, and says what it had taken."""
        self.live.heard(key, TurnStarted(turn, 0, False, prompt))
        if real:
            self.wait(seconds)
        self.live.heard(key, TurnSampled(turn, 0, prompt, sampled, seconds))

    def attempt(self, key: Key, *, turns: int = 2, correct: bool | None = True) -> None:
        """A whole one of 2 s a turn."""
        self.live.begun(key)
        for turn in range(turns):
            self.turn(key, turn)
        self.live.ended(episode(*key, correct, turns=turns, sampled_tokens=10 * turns, prompt_tokens=100 * turns))
        self.live.freed(key)


def ended_event() -> Event:
    return Ended(Trajectory(id="t", question=Question(id="q", text="?"), nodes=(), leaf=None, ending=Ending.ANSWERED))


def test_nothing_has_happened() -> None:
    run = Run(total=0)
    assert (run.now().left_s, run.now().pass_so_far, run.now().interval) == (0.0, None, None)
    run = Run()
    now = run.now()
    assert (now.total, now.done, now.running, now.scored, now.questions, now.turns) == (40, 0, 0, 0, 0, 0)
    assert (now.pass_so_far, now.left_s, now.longest, now.stillest, now.warning) == (None, None, None, None, "")
    assert (now.sampled_tokens, now.turns_per_s, now.cost) == (0, 0.0, 1.5)


def test_pass_so_far_weighs_questions_alike_and_has_wilsons_interval() -> None:
    run = Run()
    for attempt, correct in enumerate((True, True, False, True)):
        run.attempt(("q0", attempt), correct=correct)
    run.attempt(("q1", 0), correct=False)
    run.attempt(("q2", 0), correct=None)
    now = run.now()
    assert (now.correct, now.scored, now.unscored, now.questions, now.done) == (3, 5, 1, 2, 6)
    assert now.pass_so_far == pytest.approx((3 / 4 + 0) / 2)
    assert now.interval == pytest.approx(wilson_interval(0.75, 2))


def test_a_verdict_that_comes_later_takes_the_place_of_none() -> None:
    run = Run()
    run.live.begun(("q0", 0))
    run.live.ended(replace(episode(correct=None), ending=Ending.ANSWERED))
    assert (run.now().done, run.now().unscored, run.now().pass_so_far, run.now().warning) == (1, 1, None, "")
    run.live.ended(episode(correct=True))
    now = run.now()
    assert (now.done, now.unscored, now.pass_so_far, now.turns, now.sampled_tokens) == (1, 0, 1.0, 2, 20)
    run.live.judged(1)
    assert run.now().judged == 1


def test_a_resumed_run_counts_what_is_stored_and_times_only_itself() -> None:
    run = Run()
    run.wait(9.0)
    run.live.resumed([episode("q0", 0), episode("q1", 0, False), episode("q2", 0, None, turns=0, sampled_tokens=None)])
    now = run.now()
    assert (now.done, now.resumed, now.scored, now.unscored, now.turns, now.sampled_tokens) == (3, 3, 2, 1, 4, 40)
    assert now.prompt_tokens == 900 and now.pass_so_far == 0.5 and now.elapsed_s == 9.0
    assert (now.left_s, now.turns_per_s, now.warning) == (None, 0.0, "")
    assert not now.some_tokens_untold, "an outage before the first turn leaves nothing untold"


def test_turns_and_tokens_while_they_come_and_after_the_record() -> None:
    run = Run()
    run.live.begun(("q0", 0))
    run.turn(("q0", 0), 0, sampled=7)
    run.live.heard(("q0", 0), TurnStarted(1, 0, False, 100))
    run.live.heard(("q0", 0), TurnSampled(1, 0, 100, 5, 0.0))
    run.live.heard(("q0", 0), TurnStarted(1, 1, False, 100))  # the turn was rejected
    run.live.heard(("q0", 0), TurnSampled(1, 1, 100, 6, 0.0))
    now = run.now()
    assert (now.turns, now.sampled_tokens, now.prompt_tokens) == (2, 18, 300)
    run.live.ended(episode(sampled_tokens=18, prompt_tokens=300))
    run.live.freed(("q0", 0))
    assert (run.now().turns, run.now().sampled_tokens, run.now().prompt_tokens) == (2, 18, 300)


def test_an_outage_that_a_journal_goes_on_from_counts_no_turn_twice() -> None:
    run, key = Run(), ("q0", 0)
    run.live.begun(key)
    run.turn(key, 0)
    run.turn(key, 1)
    run.live.heard(key, ended_event())
    assert run.now().longest is not None and run.now().longest.doing is Doing.VERDICT
    run.live.waits(key, "the server is away", 4.0)
    now = run.now()
    assert now.waiting == 1 and now.warning == "the server is away q0 #0 is tried again in 4 s."
    run.wait(4.0)
    run.turn(key, 0, real=False)
    run.turn(key, 1, real=False)
    assert run.now().waiting == 0 and run.now().turns == 2
    run.turn(key, 2)
    now = run.now()
    assert (now.turns, now.sampled_tokens) == (3, 30)
    assert now.turns_per_s == pytest.approx(3 / 10.0), "what the journal remembered is no speed"
    assert now.tokens_per_s == pytest.approx(30 / 10.0)


def test_an_attempt_that_is_put_off_leaves_nothing() -> None:
    run = Run()
    run.live.begun(("q0", 0))
    run.turn(("q0", 0), 0)
    run.live.freed(("q0", 0))
    run.live.stopping()
    now = run.now()
    assert (now.running, now.done, now.turns, now.sampled_tokens, now.is_stopping) == (0, 0, 0, 0, True)


def test_servers_that_do_not_count() -> None:
    run = Run()
    run.live.begun(("q0", 0))
    run.turn(("q0", 0), 0, sampled=0, prompt=0)
    now = run.now()
    assert (now.sampled_tokens, now.prompt_tokens, now.tokens_per_s, now.some_tokens_untold) == (None, None, None, True)
    run.live.begun(("q1", 0))
    run.turn(("q1", 0), 0)
    assert (run.now().sampled_tokens, run.now().some_tokens_untold) == (10, True)
    run.live.ended(episode("q0", 0, sampled_tokens=None, prompt_tokens=None))
    assert (run.now().sampled_tokens, run.now().turns, run.now().some_tokens_untold) == (10, 3, True)
    run.live.resumed([episode("q0", 0)])
    assert (run.now().sampled_tokens, run.now().some_tokens_untold) == (30, False)


def test_speed_is_that_of_the_last_minute() -> None:
    run = Run()
    run.live.begun(("q0", 0))
    for turn in range(30):
        run.turn(("q0", 0), turn, 1.0)
    assert run.now().turns_per_s == pytest.approx(1.0)
    run.wait(30.0)
    assert run.now().turns_per_s == pytest.approx(0.5, abs=0.02)
    run.wait(31.0)
    assert run.now().turns_per_s == 0.0 and run.now().turns == 30


# -- how long it takes -------------------------------------------------------------------------------------------------


def test_time_left_is_told_after_five_scored_attempts() -> None:
    run = Run(total=10, concurrency=1)
    for number in range(FEWEST_FOR_TIME_LEFT):
        assert run.now().left_s is None
        run.attempt((f"q{number}", 0))
    assert run.now().left_s == pytest.approx(5 * 4.0)
    run.live.begun(("q5", 0))
    run.turn(("q5", 0), 0, 20.0)
    assert run.now().left_s == pytest.approx(5 * (5 * 4.0 + 20.0) / 5), "one that takes long is not forgotten until it ends"


def test_time_left_is_a_sum_so_the_mean_counts_and_not_the_median() -> None:
    run = Run(total=20, concurrency=1)
    for number, turns in enumerate([1] * 9 + [41]):
        run.attempt((f"q{number}", 0), turns=turns)
    assert run.now().left_s == pytest.approx(10 * 2.0 * 50 / 10)


def test_fewer_remain_than_fit_beside_each_other() -> None:
    run = Run(total=8, concurrency=64)
    for number in range(6):
        run.attempt((f"q{number}", 0))
    assert run.now().left_s == pytest.approx(4.0), "the last two run together, and need the time of one"
    for number in (6, 7):
        run.attempt((f"q{number}", 0))
    assert run.now().left_s == 0.0


def test_retries_make_it_longer_and_outages_alone_tell_nothing() -> None:
    smooth, rough = Run(total=12, concurrency=1), Run(total=12, concurrency=1)
    for number in range(6):
        smooth.attempt((f"q{number}", 0))
        key = (f"q{number}", 0)
        rough.live.begun(key)
        rough.turn(key, 0)
        rough.live.waits(key, "away", 30.0)
        rough.wait(30.0)
        rough.turn(key, 1)
        rough.live.ended(episode(*key))
        rough.live.freed(key)
    assert smooth.now().left_s == pytest.approx(6 * 4.0) and rough.now().left_s == pytest.approx(6 * 34.0)
    down = Run(total=12)
    for number in range(11):
        down.attempt((f"q{number}", 0), correct=None)
    now = down.now()
    assert (now.left_s, now.pass_so_far, now.unscored, now.warnings_last_minute) == (None, None, 11, 11)
    assert now.warning == "q10 #0 is left unscored: policy outage."


def test_attempts_that_only_want_their_verdict_say_nothing_of_time() -> None:
    run = Run(total=20, concurrency=1)
    for number in range(6):
        run.live.begun((f"q{number}", 0))
        run.live.ended(episode(f"q{number}"))
        run.live.freed((f"q{number}", 0))
    assert run.now().done == 6 and run.now().left_s is None


# -- what is stuck -----------------------------------------------------------------------------------------------------


def test_the_longest_and_the_stillest_attempt_and_what_they_wait_for() -> None:
    run = Run()
    run.live.begun(("old", 1))
    run.wait(5.0)
    run.live.begun(("stuck", 0))
    assert run.now().stillest is not None and run.now().stillest.doing is Doing.BEGINNING
    run.turn(("stuck", 0), 0)
    calls = tuple(ToolCall(name=name, arguments={}) for name in ("visit", "search"))
    run.live.heard(("stuck", 0), CallsMade(0, calls))
    run.wait(600.0)
    run.turn(("old", 1), 0)
    run.live.heard(("old", 1), Observed(0, "text", (), 1.0))
    run.live.heard(("old", 1), TurnStarted(1, 0, False, 10))
    now = run.now()
    longest, stillest = now.longest, now.stillest
    assert longest is not None and stillest is not None and now.running == 2
    assert (longest.question, longest.attempt, longest.turn, longest.doing, longest.still_s) == ("old", 1, 2, Doing.MODEL, 0.0)
    assert longest.seconds == pytest.approx(609.0) and longest.calls == ()
    assert (stillest.question, stillest.doing, stillest.calls) == ("stuck", Doing.TOOLS, ("visit", "search"))
    assert stillest.still_s == pytest.approx(602.0)


def test_warnings_of_the_last_minute_and_the_last_one() -> None:
    run = Run()
    for number in range(3):
        run.live.warned(f"warning {number}")
        run.wait(25.0)
    now = run.now()
    assert (now.warning, now.warnings_last_minute, now.warning_age_s) == ("warning 2", 2, 25.0)


# -- sums --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([True, False, None])), max_size=60))
def test_pass_so_far_is_what_counting_everything_anew_gives(verdicts: list[tuple[int, int, bool | None]]) -> None:
    moving, standing = PassSoFar(), dict[tuple[int, int], bool | None]()
    for question, attempt, correct in verdicts:
        moving.put(str(question), standing.get((question, attempt)), correct)
        standing[question, attempt] = correct
    scored = [(question, correct) for (question, _), correct in standing.items() if correct is not None]
    shares = [[correct for question, correct in scored if question == one] for one in range(4)]
    means = [sum(of) / len(of) for of in shares if of]
    assert (moving.scored, moving.questions) == (sum(map(len, shares)), len(means))
    assert moving.mean == (pytest.approx(sum(means) / len(means)) if means else None)
    assert (moving.interval is None) == (not means)


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(1, 5)), max_size=40), st.floats(0, 100))
@settings(max_examples=50)
def test_the_last_minute_is_the_last_sixty_seconds(steps: list[tuple[float, int]], after: float) -> None:
    minute, now, came = LastMinute(), 500.0, list[tuple[float, int]]()
    for pause, count in steps:
        now += pause
        minute.add(now, count)
        came.append((now, count))
    now += after
    assert minute.sum(now) == sum(count for at, count in came if int(at) > int(now) - 60)


# -- a real run --------------------------------------------------------------------------------------------------------


def test_a_real_run_with_outages_ends_with_the_figures_of_its_result(tmp_path: Path) -> None:
    live = Live(30, 8, lambda: 0.0)
    made, result = asyncio.run(go(tmp_path / "run", 15, 2, watch=live))
    now = live.snapshot(cost=0.0)
    episodes = list(made.episodes.values())
    assert (now.done, now.running, now.unscored) == (30, 0, result.unscored) and 0 < now.unscored < 30
    assert now.pass_so_far == pytest.approx(result.pass_at_1.value)
    assert now.turns == sum(one.turns for one in episodes) > 30
    assert "away" in now.warning or "unscored" in now.warning
    assert now.judged == 30
    again = Live(30, 8, lambda: 0.0)
    asyncio.run(go(tmp_path / "run", 15, 2, watch=again))
    assert (again.snapshot(0.0).resumed, again.snapshot(0.0).done) == (30 - result.unscored, 30)
    assert again.snapshot(0.0).turns == now.turns


def test_a_run_that_nobody_watches_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_runs, "FLAKY", 0.5)
    asyncio.run(go(tmp_path / "a", 6, 2, watch=Live(12, 8, lambda: 0.0)))
    asyncio.run(go(tmp_path / "b", 6, 2))
    first, second = (sorted(RunLog(tmp_path / name).records(), key=lambda one: one.id) for name in "ab")
    assert first == second
