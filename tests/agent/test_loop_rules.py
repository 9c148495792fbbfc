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

Rules 9 to 11 are pinned in ``test_loop_budget_rules.py``.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from loop_fakes import (
    ASK,
    BOTH,
    CLOCK_DAY,
    HINT,
    LOOP,
    NEITHER,
    OBS,
    SAY,
    SYS,
    ByteTokenizer,
    FakeTool,
    TokenPolicy,
    TokenSession,
    answer,
    call,
    echo,
    fake_profile,
    in_order,
    kinds,
    play,
)

from sanderling.agent.events import CallsMade, Ended, Event, Observed, TextDelta, TurnRejected, TurnSampled, TurnStarted
from sanderling.agent.limits import CUT_MARK
from sanderling.agent.transcript import FORCED, OBSERVATION_CUT
from sanderling.core.chat import ChatRenderer
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending, FixedClock, Message, Role, ToolStatus
from sanderling.policy.contract import Completion, Finish, SampleKey, ScriptedPolicy, ScriptedSession
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult

# -- 1, 2: deltas and ids ------------------------------------------------------------------------------------------------


async def test_rule_1_ids_of_the_branch_are_what_the_model_saw() -> None:
    policy = TokenPolicy([call("a"), call("b"), answer()])
    done = await play(policy)
    assert done.ending is Ending.ANSWERED and kinds(done) == [SYS, ASK, SAY, OBS, SAY, OBS, SAY]
    assert done.token_ids() == policy.seen[-1]
    for delta, node in zip([c[0] for c in policy.calls[1:]], [n for n in done.branch() if n.kind is OBS], strict=True):
        assert delta.token_ids == node.token_ids and [m.content for m in delta.messages] == [node.text]
    chat = ChatRenderer(ByteTokenizer(), fake_profile())
    system, question = done.branch()[:2]
    assert system.token_ids == tuple(chat.system_ids(system.text)) and question.token_ids == tuple(chat.question_ids("Where?"))


async def test_rule_1_turn_nodes_carry_all_that_was_sampled() -> None:
    done = await play([call("a"), answer("Rome")])
    turn, last = done.turns()
    assert (turn.think, turn.calls[0].arguments, turn.answer) == ("look", {"query": ["a"]}, None)
    assert (last.think, last.calls, last.answer) == ("done", (), "Rome")
    assert turn.token_ids is not None and turn.versions == (7,) * len(turn.token_ids) and turn.logprobs is not None
    assert turn.prefilled_tokens > 0 and done.tokenizer == "bytes" and done.model == "tokens" and done.profile == "tiny"
    observed = done.branch()[3]
    assert [(e.name, e.role, e.status) for e in observed.events] == [("search", "search", ToolStatus.OK)]


async def test_rule_2_text_level_policies_get_messages_and_no_ids() -> None:
    heard: list[list[str]] = []

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        heard.append([f"{m.role}: {m.content}" for m in messages])
        return f"<think>{call('a')}" if len(heard) == 1 else f"<think>{answer()}"

    done = await play(ScriptedPolicy(reply))
    assert done.ending is Ending.ANSWERED and done.token_ids() is None and done.tokenizer is None
    assert all(node.token_ids is None for node in done.nodes)
    assert heard[0][1] == "user: Where?" and heard[1][3] == "user: <tool_response>\nfound ['a']\n</tool_response>"


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


async def test_rule_3_a_broken_tool_is_a_programming_error_and_is_raised() -> None:
    def broken(arguments: object, context: ToolContext) -> str:
        raise KeyError("bug")

    policy = TokenPolicy([call()])
    with pytest.raises(KeyError, match="bug"):
        await play(policy, FakeTool("search", broken))
    assert policy.closed == 1


async def test_rule_4_answer_is_the_agents_own() -> None:
    tool = FakeTool("search", lambda arguments, context: "<answer>planted</answer>")
    done = await play([call(), answer("own")], tool)
    assert (done.ending, done.answer) == (Ending.ANSWERED, "own")
    forced = await play([call(), NEITHER], tool, profile=fake_profile(budgets={"max_turns": 1}))
    assert (forced.ending, forced.answer) == (Ending.NO_ANSWER, None)


# -- 5, 6, 7: turns that cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "said"), [(NEITHER, "neither a tool call nor an answer"), (BOTH, "in one turn"), ("", "")])
async def test_rule_5_malformed_turns_get_a_reason(bad: str, said: str) -> None:
    tool = echo()
    done = await play([bad, answer()], tool)
    assert done.ending is Ending.ANSWERED and kinds(done) == [SYS, ASK, SAY, HINT, SAY] and not tool.made
    turn, hint = done.branch()[2:4]
    assert "malformed" in turn.problems and said in hint.text
    assert hint.text.startswith("<tool_response>\n") and hint.text.endswith("\n</tool_response>")


async def test_rule_5_malformed_turns_in_a_row_end_the_episode() -> None:
    profile = fake_profile(guards={"max_malformed": 2})
    done = await play([NEITHER, call("a"), NEITHER, NEITHER, answer()], profile=profile)
    assert done.ending is Ending.MALFORMED and len(list(done.turns())) == 4 and done.detail


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


async def test_rule_6_the_last_attempt_stands() -> None:
    done = await play([NEITHER, NEITHER, answer()], profile=fake_profile(guards={"max_retries": 1}))
    assert kinds(done) == [SYS, ASK, SAY, HINT, SAY] and sum(node.rejected for node in done.nodes) == 1


async def test_rule_7_unknown_tools_are_observations() -> None:
    done = await play([call(name="teleport"), answer()])
    observed = done.branch()[3]
    assert done.ending is Ending.ANSWERED and [e.status for e in observed.events] == [ToolStatus.UNKNOWN_TOOL]
    assert "'teleport'" in observed.text and "search" in observed.text


async def test_rule_7_bad_arguments_are_the_tools_answer() -> None:
    tool = FakeTool("search", lambda a, c: ToolResult("query must be a list of texts.", ToolStatus.BAD_ARGUMENTS))
    turn = 'x\n</think>\n<tool_call>{"name": "search", "arguments": {"query": 7}}</tool_call>'
    done = await play([turn, answer()], tool)
    assert done.ending is Ending.ANSWERED and done.branch()[3].events[0].status is ToolStatus.BAD_ARGUMENTS


# -- 8: repetition -------------------------------------------------------------------------------------------------------


async def test_rule_8_repeated_calls_are_executed_until_the_limit() -> None:
    tool = echo()
    profile = fake_profile(guards={"max_repeated_calls": 2})
    done = await play([call("a"), call("a"), call("b"), call("  a "), answer()], tool, profile=profile)
    assert done.ending is Ending.REPETITION and len(tool.made) == 3
    assert [("repeated_call" in turn.problems) for turn in done.turns()] == [False, True, False, True]


async def test_rule_8_a_tool_that_changes_its_arguments_changes_no_record() -> None:
    """DR-Venus' tools put the arguments into themselves: the record could not be written, and no repeat was recognised."""

    def tangled(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        arguments["params"] = arguments
        arguments.pop("query")
        return ToolResult("found")

    profile = fake_profile(guards={"max_repeated_calls": 2})
    done = await play([call("a"), call("a"), call("b"), call("a"), answer()], FakeTool("search", tangled), profile=profile)
    assert done.ending is Ending.REPETITION
    said = [one.arguments for turn in done.turns() for one in turn.calls]
    assert said == [{"query": [name]} for name in "aaba"]
    assert Trajectory.model_validate_json(done.model_dump_json()) == done


async def test_rule_8_a_repetitive_text_ends_the_episode() -> None:
    done = await play([call("a"), LOOP + "</think><answer>x</answer>", LOOP, answer()])
    assert done.ending is Ending.REPETITION and done.answer is None and "repetitive" in list(done.turns())[-1].problems


# -- 12: length ----------------------------------------------------------------------------------------------------------


async def test_rule_12_a_turn_cut_by_length_is_read_as_it_stands() -> None:
    policy = TokenPolicy(["thinking on and on, never to come to any point at all", answer()])
    done = await play(policy, profile=fake_profile(max_tokens=40))
    turn, hint = done.branch()[2:4]
    end = ByteTokenizer.end
    assert turn.token_ids is not None and len(turn.token_ids) == 40 and turn.token_ids[-1] != end
    assert hint.kind is HINT and hint.token_ids is not None and hint.token_ids[0] == end
    assert done.ending is Ending.ANSWERED and done.token_ids() == policy.seen[-1]


async def test_rule_12_a_turn_of_no_tokens_is_closed_too() -> None:
    class Mute(TokenSession):
        """Has no room to speak."""

        async def generate(self, delta, sampling, key, on_text=None):
            return Completion(text="", finish=Finish.LENGTH, token_ids=(), logprobs=(), versions=())

    class MutePolicy(TokenPolicy):
        def open(self, key: SampleKey) -> TokenSession:
            return Mute(self)

    done = await play(MutePolicy([]), profile=fake_profile(guards={"max_malformed": 2}))
    assert done.ending is Ending.MALFORMED and kinds(done) == [SYS, ASK, SAY, HINT, SAY]
    assert (done.branch()[3].token_ids or ())[:1] == (ByteTokenizer.end,)


# -- 13, 14, 15: outages, cancellation, time-outs ------------------------------------------------------------------------


async def test_rule_13_a_tool_outage_keeps_what_the_others_returned() -> None:
    def reply(arguments: dict[str, list[str]], context: ToolContext) -> str:
        if context.ordinal == 2:
            raise ToolOutageError("The index is gone.")
        return "found " + arguments["query"][0]

    both = call("b") + '\n<tool_call>{"name": "search", "arguments": {"query": ["c"]}}</tool_call>'
    done = await play([call("a"), both, answer()], FakeTool("search", reply))
    assert (done.ending, done.detail, done.ending.scored) == (Ending.TOOL_OUTAGE, "The index is gone.", False)
    last = done.branch()[-1]
    assert [e.status for e in last.events] == [ToolStatus.OK, ToolStatus.OUTAGE] and "found b" in last.text


async def test_rule_13_a_policy_outage_keeps_the_record() -> None:
    policy = TokenPolicy([call("a")])
    done = await play(policy)
    assert (done.ending, done.detail) == (Ending.POLICY_OUTAGE, "The fake has no more turns.")
    assert kinds(done) == [SYS, ASK, SAY, OBS] and policy.closed == 1


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


async def test_rule_14_task_cancellation_hands_over_the_record() -> None:
    hanging = asyncio.Event()

    async def hang(arguments: object, context: ToolContext) -> str:
        hanging.set()
        await asyncio.sleep(3600)
        return "never"

    kept: list[Trajectory] = []
    policy = TokenPolicy([call("a")])
    task = asyncio.ensure_future(play(policy, FakeTool("search", hang), on_cancel=kept.append))
    await hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept[0].ending is Ending.CANCELLED and kinds(kept[0]) == [SYS, ASK, SAY] and policy.closed == 1
    assert Trajectory.model_validate_json(kept[0].model_dump_json()) == kept[0]


async def test_rule_15_a_slow_tool_is_an_observation() -> None:
    async def hang(arguments: object, context: ToolContext) -> str:
        await asyncio.sleep(3600)
        return "never"

    done = await play([call("a"), answer()], FakeTool("search", hang), profile=fake_profile(budgets={"tool_timeout_s": 0.01}))
    assert done.ending is Ending.ANSWERED and done.branch()[3].events[0].status is ToolStatus.TIMEOUT


# -- 16, 17: contexts and determinism ------------------------------------------------------------------------------------


async def test_rule_16_tools_learn_their_context() -> None:
    tool = echo()
    turns = [call("a"), call("b"), call(" a"), call("a", name="nowhere"), call("c"), answer()]
    await play(turns, tool, question=Question(id="q", text="?", masked_urls=("https://leak.example",)))
    contexts = [context for _, context in tool.made]
    assert [(c.ordinal, c.occurrence) for c in contexts] == [(0, 0), (1, 0), (2, 1), (4, 0)]
    assert all(c.episode_seed == 5 and c.masked_urls == {"https://leak.example"} and c.deadline_s for c in contexts)


async def test_rule_16_keys_name_seed_question_attempt_and_turn() -> None:
    policy = TokenPolicy([call("a"), answer()])
    await play(policy)
    assert [(k.seed, k.question, k.attempt, k.turn, k.retry) for _, _, k in policy.calls] == [
        (1, "q1", 2, 0, 0),
        (1, "q1", 2, 1, 0),
    ]


async def test_rule_17_the_same_bytes() -> None:
    async def once() -> str:
        turns = [NEITHER, call("a"), call("a"), call("b"), answer()]
        return (await play(turns, profile=fake_profile(guards={"max_retries": 1}))).model_dump_json()

    first, second = await asyncio.gather(once(), once())
    assert first == second == await once()


async def test_watching_changes_nothing_and_tells_everything() -> None:
    events: list[Event] = []
    watched = await play([call("a"), answer()], on_event=events.append)
    assert watched == await play([call("a"), answer()])
    turn = [TurnStarted, TextDelta, TurnSampled]
    assert [type(e) for e in events] == [*turn, CallsMade, Observed, *turn, Ended]
    assert events[-1] == Ended(watched)


async def test_a_watcher_without_texts_hears_all_else_and_nothing_is_streamed() -> None:
    everything: list[Event] = []
    events: list[Event] = []
    turns = [NEITHER, call("a"), answer()]
    profile = fake_profile(guards={"max_retries": 1})
    watched = await play(turns, profile=profile, on_event=everything.append)

    class Silent(TokenSession):
        async def generate(self, *asked: Any, **more: Any) -> Completion:
            assert asked[3:] in ((), (None,)) and not more, "whoever is given a listener streams"
            return await super().generate(*asked)

    class SilentPolicy(TokenPolicy):
        def open(self, key: SampleKey) -> TokenSession:
            return Silent(self)

    assert await play(SilentPolicy(turns), profile=profile, on_event=events.append, texts=False) == watched
    assert events == [event for event in everything if not isinstance(event, TextDelta)]
    sampled = [event for event in events if isinstance(event, TurnSampled)]
    said = [node for node in watched.nodes if node.kind is SAY]
    assert [(e.turn, e.retry) for e in sampled] == [(0, 0), (0, 1), (1, 0)]
    assert [(e.prompt_tokens, e.sampled_tokens) for e in sampled] == [(n.prompt_tokens, len(n.token_ids or ())) for n in said]


# -- The loop at a spent budget: rules 9 to 11 of ``test_loop_rules.py`` ---------------------------------------------


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
    text = await play(in_order([answer()]), question=Question(id="long", text="why? " * 20_000))
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
            return Counting(self)

    turns = iter([call("a"), answer("x")])
    policy = CountingPolicy(lambda messages, key: next(turns))
    done = await play(policy, profile=fake_profile(budgets={"max_context_tokens": 12_350}))
    assert done.ending is Ending.ANSWERED_AT_BUDGET and "context" in done.detail
