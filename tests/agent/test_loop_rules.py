"""The loop's semantics. These tests are the specification: change them only together with a decision to change a rule.

 1. A session receives only what is new; the ids of the main branch, concatenated, are what the model saw.
 2. Text-level policies get messages, and their nodes have no ids.
 3. A turn's calls run at the same time; results are one user message, in call order.
 4. A turn with an answer and no call ends ANSWERED; only the agent's own answer is read.
 5. A turn with neither, or with both, is malformed: the agent is told why; too many in a row end MALFORMED.
 6. Malformed, repetitive and repeated-call turns are retried first: rejected attempts stay as leaves, the session is rewound.
 7. Unknown tools and wrong arguments are observations, and the loop goes on.
 8. Turns that only repeat calls are counted, and end REPETITION at the limit; a repetitive text ends REPETITION at once.
 9. At a spent budget the agent is asked once for the answer; the last observation is kept, the hint is in the same message.
10. An observation that leaves no room for hint and answer is cut from its middle; a question never is.
11. With forced answers off, a spent budget is the ending.
12. A turn cut by length is read as it stands, and its end token is supplied by the next message.
13. Outages of tool and policy are endings with a sentence, and what was done stays on record.
14. Cancelling leaves a readable record: by event it is returned, by task cancellation handed to ``on_cancel``.
15. A tool that takes too long is a TIMEOUT observation.
16. Tools learn ordinal, occurrence, mask and episode seed.
17. Same policy, tools, seeds and clock: the same bytes.

Rules without a test here are held by the goldens of ``agent``.
"""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_fakes import PLAIN, Killed, Life, Speaker, live
from loop_fakes import (
    ASK,
    BOTH,
    LOOP,
    NEITHER,
    OBS,
    SAY,
    SYS,
    ByteTokenizer,
    FakeTool,
    TokenPolicy,
    answer,
    call,
    fake_profile,
    in_order,
    kinds,
    play,
)

from sanderling.agent.journal import Journal
from sanderling.agent.loop import Event, TurnRejected, TurnStarted
from sanderling.agent.transcript import FORCED
from sanderling.agent.turns import CUT_MARK, cut_middle
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.runs.run import Run
from sanderling.tools.contract import ToolContext

# -- 3, 4: calls and answers ---------------------------------------------------------------------------------------------


async def test_rule_3_calls_of_a_turn_run_together_and_are_answered_in_order() -> None:
    met = asyncio.Event()

    async def first(arguments: object, context: ToolContext) -> str:
        await met.wait()  # only the second call can set it: run one after the other, this would never end
        return "slow"

    def second(arguments: object, context: ToolContext) -> str:
        met.set()
        return "fast"

    turn = (
        'x\n</think>\n<tool_call>{"name": "search", "arguments": {"query": ["a", "b"]}}</tool_call>\n'
        '<tool_call>{"name": "visit", "arguments": {"url": ["u"], "goal": "g"}}</tool_call>'
    )
    done = await play([turn, answer()], FakeTool("search", first), FakeTool("visit", second))
    observed = done.branch()[3]
    assert observed.text == "<tool_response>\nslow\n</tool_response>\n<tool_response>\nfast\n</tool_response>"
    assert observed.role is Role.USER and [e.role for e in observed.events] == ["search", "visit"]


# -- 5, 6, 7: turns that cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"), [(NEITHER, "malformed"), (BOTH, "malformed"), (LOOP, "repetitive"), (call("a"), "repeated_call")]
)
async def test_rule_6_rejected_attempts_are_leaves_and_the_session_is_rewound(bad: str, reason: str) -> None:
    events: list[Event] = []
    policy = TokenPolicy([call("a"), bad, bad, call("b"), answer()])
    done = await play(policy, profile=fake_profile(guards={"max_retries": 2}), on_event=events.append)
    assert done.ending is Ending.ANSWERED and kinds(done) == [SYS, ASK, SAY, OBS, SAY, OBS, SAY]
    assert done.token_ids() == policy.seen[-1]
    rejected = [index for index, node in enumerate(done.nodes) if node.rejected]
    assert len(rejected) == 2 and set(rejected) <= set(done.leaves()) and len(done.leaves()) == 3
    assert all(reason in done.nodes[index].problems for index in rejected)
    assert [(key.turn, key.retry) for _, _, key in policy.calls] == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert policy.calls[1][0] == policy.calls[2][0] == policy.calls[3][0]  # the rewound session hears the same once more
    assert [(e.retry, e.reason) for e in events if isinstance(e, TurnRejected)] == [(0, reason), (1, reason)]


@pytest.mark.parametrize("other", [3, 4])
async def test_rule_6_a_call_is_known_by_all_that_it_asks_also_by_numbers(other: int) -> None:
    turns = [call("a").replace("]}", f'], "page": {page}}}') for page in (3, other)]
    done = await play([call("a"), *turns, answer()], profile=fake_profile(guards={"max_retries": 1}))
    assert done.answer == "Paris" and [node.rejected for node in done.nodes if node.rejected] == [True] * (other == 3)


# -- 13, 14, 15: outages, cancellation, time-outs ------------------------------------------------------------------------


async def test_rule_14_the_cancel_event_returns_a_record() -> None:
    cancel = asyncio.Event()
    cleaned: list[str] = []

    async def hang(arguments: object, context: ToolContext) -> str:
        cancel.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append("yes")
        return "never"

    policy = TokenPolicy([call("a"), answer()])
    done = await play(policy, FakeTool("search", hang), cancel=cancel)
    assert done.ending is Ending.CANCELLED and kinds(done) == [SYS, ASK, SAY] and cleaned == ["yes"] and policy.closed == 1
    early = await play([answer()], cancel=cancel)
    assert early.ending is Ending.CANCELLED and kinds(early) == [SYS, ASK]


async def test_rule_15_a_slow_tool_is_an_observation() -> None:
    async def hang(arguments: object, context: ToolContext) -> str:
        await asyncio.sleep(3600)
        return "never"

    done = await play([call("a"), answer()], FakeTool("search", hang), profile=fake_profile(budgets={"tool_timeout_s": 0.01}))
    assert done.ending is Ending.ANSWERED and done.branch()[3].events[0].status is ToolStatus.TIMEOUT


# -- The loop at a spent budget: rules 9 to 11 of ``test_loop_rules.py`` ---------------------------------------------


async def test_rule_9_forced_answer_at_the_turn_limit_keeps_the_observation() -> None:
    policy = TokenPolicy([call("a"), call("b"), answer("late")])
    done = await play(policy, profile=fake_profile(budgets={"max_turns": 2}))
    assert (done.ending, done.answer) == (Ending.ANSWERED_AT_BUDGET, "late") and "2 turns" in done.detail
    last = done.branch()[-2]
    assert last.text == "<tool_response>\nfound ['b']\n\nBudget used up. Answer now.\n</tool_response>"
    assert last.kind is OBS and FORCED in last.problems and last.events and done.token_ids() == policy.seen[-1]
    assert last.token_ids is not None and ByteTokenizer().decode(last.token_ids).count("<|im_start|>user") == 1


async def test_rule_10_the_context_is_never_exceeded() -> None:
    for limit in range(700, 1500, 37):
        profile = fake_profile(budgets={"max_context_tokens": limit, "answer_reserve_tokens": 80}, max_tokens=160)
        policy = TokenPolicy([call(str(turn), think="t" * 40 * turn) for turn in range(9)])
        done = await play(policy, FakeTool("search", lambda a, c: "page " * 30), profile=profile)
        assert done.ending is Ending.NO_ANSWER and all(len(seen) <= limit for seen in policy.seen)
        assert all(c[1].max_tokens >= 80 for c in policy.calls)


async def test_rule_10_a_question_that_does_not_fit_is_one_clear_ending() -> None:
    policy = TokenPolicy([answer()])
    done = await play(policy, question=Question(id="long", text="why? " * 20_000))
    assert done.ending is Ending.CONTEXT_EXHAUSTED and not policy.calls and kinds(done) == [SYS, ASK]
    assert "shorten the question" in done.detail and "20000" in done.detail
    text = await play(in_order([answer()]), question=Question(id="long", text="why? " * 20_000))
    assert text.ending is Ending.CONTEXT_EXHAUSTED and "shorten the question" in text.detail


@given(st.text(max_size=400), st.integers(0, 420))
def test_cutting_keeps_both_ends_and_fits(text: str, most: int) -> None:
    cut = cut_middle(text, len, most)
    if len(text) <= most:
        assert cut == text
    elif most < len(CUT_MARK):
        assert cut is None
    else:
        assert cut is not None and len(cut) <= most
        head, _, tail = cut.partition(CUT_MARK)
        assert text.startswith(head) and text.endswith(tail) and 0 <= len(head) - len(tail) <= 1


# -- Asked for the answer early: the forced answer of a spent budget, at the next turn, the same after a kill --------------


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
