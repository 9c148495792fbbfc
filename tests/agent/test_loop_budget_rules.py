"""The loop at a spent budget: rules 9 to 11 of ``test_loop_rules.py``."""

from dataclasses import replace

import pytest
from loop_fakes import (
    ASK,
    BOTH,
    CLOCK_DAY,
    HINT,
    LOOP,
    NEITHER,
    OBS,
    SYS,
    ByteTokenizer,
    FakeTool,
    TokenPolicy,
    answer,
    call,
    fake_profile,
    kinds,
    play,
)

from sanderling.agent.limits import CUT_MARK
from sanderling.agent.transcript import FORCED, OBSERVATION_CUT
from sanderling.core.record import Question
from sanderling.core.types import Ending, FixedClock
from sanderling.policy.contract import SampleKey
from sanderling.policy.scripted import ListPolicy, ScriptedPolicy, ScriptedSession
from sanderling.tools.contract import ToolContext


async def test_rule_9_forced_answer_at_the_turn_limit_keeps_the_observation() -> None:
    policy = TokenPolicy([call("a"), call("b"), answer("late")])
    done = await play(policy, profile=fake_profile(budgets={"max_turns": 2}))
    assert (done.ending, done.answer) == (Ending.ANSWERED_AT_BUDGET, "late") and "2 turns" in done.detail
    last = done.branch()[-2]
    assert last.text == "<tool_response>\nfound ['b']\n\nBudget used up. Answer now.\n</tool_response>"
    assert last.kind is OBS and FORCED in last.problems and last.events and done.token_ids() == policy.seen[-1]
    assert last.token_ids is not None and ByteTokenizer().decode(last.token_ids).count("<|im_start|>user") == 1


async def test_rule_9_the_forced_turn_is_the_only_one() -> None:
    for said in (NEITHER, BOTH, call("c"), LOOP):
        policy = TokenPolicy([call("a"), said, answer()])
        done = await play(policy, profile=fake_profile(budgets={"max_turns": 1}, guards={"max_retries": 3}))
        assert done.ending is Ending.NO_ANSWER and done.answer is None and len(policy.calls) == 2


async def test_rule_9_wall_time_is_a_budget() -> None:
    clock = FixedClock(CLOCK_DAY)

    def slow(arguments: object, context: ToolContext) -> str:
        clock.advance(7.0)
        return "found"

    profile = fake_profile(budgets={"max_seconds": 10.0})
    done = await play([call("a"), call("b"), answer()], FakeTool("search", slow), profile=profile, clock=clock)
    assert done.ending is Ending.ANSWERED_AT_BUDGET and "10 seconds" in done.detail and done.seconds == 14.0
    assert [node.seconds for node in done.branch() if node.kind is OBS] == [7.0, 7.0]


async def test_rule_9_after_a_malformed_turn_the_notice_is_kept_with_the_hint() -> None:
    done = await play([NEITHER, answer()], profile=fake_profile(budgets={"max_turns": 1}))
    last = done.branch()[-2]
    assert last.kind is HINT and "neither" in last.text and last.text.endswith("Answer now.\n</tool_response>")


async def test_rule_10_a_long_observation_is_cut_from_its_middle() -> None:
    page = "HEAD " + "lorem ipsum " * 400 + " TAIL"
    policy = TokenPolicy([call("a"), answer()])
    profile = fake_profile(budgets={"max_context_tokens": 3_000, "answer_reserve_tokens": 100})
    done = await play(policy, FakeTool("search", lambda a, c: page), profile=profile)
    last = done.branch()[-2]
    assert done.ending is Ending.ANSWERED_AT_BUDGET and {FORCED, OBSERVATION_CUT} <= set(last.problems)
    assert last.text.startswith("<tool_response>\nHEAD lorem") and CUT_MARK in last.text
    assert " TAIL\n\nBudget used up. Answer now." in last.text
    prompt = len(policy.seen[-1]) - len(list(done.turns())[-1].token_ids or ())
    assert 2_500 < prompt <= 2_900  # the reserve is free, and no more was cut than was needed
    assert policy.calls[-1][1].max_tokens >= 100


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
    text = await play(ListPolicy([answer()]), question=Question(id="long", text="why? " * 20_000))
    assert text.ending is Ending.CONTEXT_EXHAUSTED and "shorten the question" in text.detail


async def test_rule_10_the_models_own_context_length_counts() -> None:
    policy = TokenPolicy([call("a"), answer()], context_length=900)
    done = await play(policy, FakeTool("search", lambda a, c: "page " * 200))
    assert done.ending is Ending.ANSWERED_AT_BUDGET and len(policy.seen[-1]) <= 900


@pytest.mark.parametrize(
    ("budgets", "ending"),
    [
        ({"max_turns": 2}, Ending.TURN_LIMIT),
        ({"max_context_tokens": 1_500}, Ending.CONTEXT_EXHAUSTED),
        ({"max_seconds": 5.0}, Ending.TIME_LIMIT),
    ],
)
async def test_rule_11_without_forced_answers_the_budget_is_the_ending(budgets: dict[str, float], ending: Ending) -> None:
    clock = FixedClock(CLOCK_DAY)

    def reply(arguments: object, context: ToolContext) -> str:
        clock.advance(3.0)
        return "page " * 80

    profile = fake_profile(budgets={**budgets, "force_answer": False})
    turns = [call(str(turn)) for turn in range(8)]
    done = await play(turns, FakeTool("search", reply), profile=profile, clock=clock)
    assert done.ending is ending and done.detail and kinds(done)[-1] is OBS  # the last observation stays on record


async def test_a_text_level_policys_own_count_of_tokens_is_used() -> None:
    class Counting(ScriptedSession):
        """Counts tokens as a server does."""

        async def generate(self, delta, sampling, key, on_text=None):
            said = await super().generate(delta, sampling, key, on_text)
            return replace(said, prompt_tokens=12_000)

    class CountingPolicy(ScriptedPolicy):
        def open(self, key: SampleKey) -> ScriptedSession:
            return Counting(self._reply)

    turns = iter([call("a"), answer("x")])
    policy = CountingPolicy(lambda messages, key: next(turns))
    done = await play(policy, profile=fake_profile(budgets={"max_context_tokens": 12_350}))
    assert done.ending is Ending.ANSWERED_AT_BUDGET and "context" in done.detail
