"""Asked for the answer early: the forced answer of a spent budget, at the next turn, the same after a kill."""

import asyncio
from pathlib import Path
from typing import Any

from journal_fakes import PLAIN, PROFILE, Killed, Life, Speaker, live
from loop_fakes import OBS, FakeTool, TokenPolicy, answer, call, fake_profile, play

from sanderling.agent.events import Event, TurnStarted
from sanderling.agent.journal import Journal
from sanderling.agent.transcript import FORCED
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.runs.run import Run


def setting(early: asyncio.Event, after: int) -> FakeTool:
    """A search during whose call number ``after`` somebody loses patience."""

    def reply(arguments: Any, context: Any) -> str:
        if context.ordinal == after:
            early.set()
        return f"found {arguments['query']}"

    return FakeTool("search", reply)


async def test_it_is_the_forced_answer_of_a_spent_budget() -> None:
    """But for its detail, the very record of an episode whose budget ended at that turn."""
    early = asyncio.Event()
    turns = [call("a"), call("b"), answer("early")]
    policy = TokenPolicy(list(turns))
    done = await play(policy, setting(early, 1), finish_early=early)
    assert (done.ending, done.answer) == (Ending.ANSWERED_AT_BUDGET, "early") and "early" in done.detail
    last = done.branch()[-2]
    assert last.text == "<tool_response>\nfound ['b']\n\nBudget used up. Answer now.\n</tool_response>"
    assert last.kind is OBS and FORCED in last.problems and last.events and done.token_ids() == policy.seen[-1]
    spent = await play(TokenPolicy(turns), profile=fake_profile(budgets={"max_turns": 2}))
    assert repr(done.model_copy(update={"detail": spent.detail})) == repr(spent)


class Early(Life):
    """A life that is hurried once so many turns have begun."""

    def __init__(self, length: int | None, after: int | None) -> None:
        super().__init__(length)
        self.early, self.until = asyncio.Event(), after

    def on_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted) and self.until is not None:
            self.until -= 1
            if self.until == 0:
                self.early.set()
        super().on_event(event)


async def finished(directory: Path, length: int | None, after: int | None) -> tuple[Trajectory | None, Life]:
    """One life of the episode ``PLAIN``."""
    life = Early(length, after)
    with Journal(directory) as journal:
        try:
            done = await live(Speaker(PLAIN, life), journal, finish_early=life.early)
        except Killed:
            return None, life
        journal.stored(done)
        return done, life


async def test_killed_anywhere_it_was_hurried_where_it_was_hurried(tmp_path: Path) -> None:
    """A second life that nobody hurries makes the first one's requests, and does nothing finished again."""
    whole, first = await finished(tmp_path / "whole", None, 2)
    assert whole is not None and len(first.said) == 3 and "early" in whole.detail
    early_again = length = 0
    for length in range(100):
        directory = tmp_path / str(length)
        done, killed = await finished(directory, length, 2)
        if done is not None:
            break
        with Run(directory) as run:
            entered = "finish early 2" in run.table("episode e/1")
        early_again += entered
        done, again = await finished(directory, None, None if entered else 2)
        assert done is not None and repr(done) == repr(whole)
        assert [*killed.said, *again.said] == first.said and sorted([*killed.called, *again.called]) == first.called
    assert length > 8 and early_again


async def test_hurried_only_after_a_kill_it_first_comes_to_where_it_stood(tmp_path: Path) -> None:
    """Set from the second life's start, it forces no turn that had been sampled already."""
    killed, _ = await finished(tmp_path / "j", 15, None)
    assert killed is None
    life, early = Life(), asyncio.Event()
    early.set()
    with Journal(tmp_path / "j") as journal:
        done = await live(Speaker(PLAIN, life), journal, finish_early=early)
    assert "early" in done.detail and life.said == [(2, 0)] and PROFILE.budgets.max_turns == 5
