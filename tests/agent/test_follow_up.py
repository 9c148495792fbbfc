"""A further question in a conversation: the record begins with the earlier main branch, and the model is told all of it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from journal_fakes import GUARDS, Killed, Life, Speaker, live
from loop_fakes import (
    ASK,
    BOTH,
    NEITHER,
    OBS,
    SAY,
    SYS,
    ByteTokenizer,
    TokenPolicy,
    answer,
    call,
    echo,
    fake_profile,
    in_order,
    kinds,
    play,
)

from sanderling.agent.journal import Journal
from sanderling.agent.transcript import ANEW
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.policy.contract import Delta

FURTHER = {"question": Question(id="q2", text="And when?"), "id": "t2"}


async def test_a_token_level_conversation_goes_on_id_by_id() -> None:
    first = await play([NEITHER, call("a"), answer("x")], profile=fake_profile(guards={"max_retries": 1}))
    policy, tool = TokenPolicy([call("a"), call("b"), answer("y")]), echo()
    second = await play(policy, tool, before=first, **FURTHER)
    branch = first.branch()
    assert len(branch) < len(first.nodes)  # an attempt that was rejected is no part of the conversation
    same = [node.model_copy(update={"parent": place - 1 if place else None}) for place, node in enumerate(branch)]
    assert list(second.nodes[: len(branch)]) == same
    assert kinds(second) == [SYS, ASK, SAY, OBS, SAY, ASK, SAY, OBS, SAY, OBS, SAY]
    delta: Delta = policy.calls[0][0]
    before = first.token_ids()
    assert before is not None and delta.token_ids is not None and list(delta.token_ids[: len(before)]) == before
    asked = ByteTokenizer().decode(delta.token_ids[len(before) :])
    assert asked == "\n<|im_start|>user\nAnd when?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert policy.seen[-1] == second.token_ids()
    assert [context.ordinal for _, context in tool.made] == [1, 2]  # calls are counted through the conversation
    assert [context.occurrence for _, context in tool.made] == [1, 0]
    assert second.own() == second.nodes[len(branch) :] and first.own() == first.nodes


async def test_a_text_level_conversation_is_told_whole() -> None:
    heard: list[Any] = []

    def remember(messages: Any, key: Any) -> str:
        heard.append(messages)
        return "<think>" + answer("y")

    first = await play(in_order(["<think>" + call("a"), "<think>" + answer("x")]))
    policy = in_order([])
    policy.reply = remember
    second = await play(policy, before=first, **FURTHER)
    told = [(message.role, message.content) for message in heard[0]]
    assert told[:-1] == [(node.role, node.text) for node in first.branch()] and told[-1][1] == "And when?"
    assert second.answer == "y" and second.nodes[: len(first.nodes)] == first.nodes


async def test_after_a_spent_budget_the_model_reads_that_it_may_call_again() -> None:
    first = await play([call("a"), answer("x")], profile=fake_profile(budgets={"max_turns": 1}))
    assert first.ending is Ending.ANSWERED_AT_BUDGET
    second = await play([answer("y")], before=first, **FURTHER)
    assert second.own()[0].text == f"And when?{ANEW}"


async def test_a_turn_that_was_cut_is_closed_first() -> None:
    first = await play([" ".join(map(str, range(300)))], profile=fake_profile(guards={"max_malformed": 1, "max_retries": 0}))
    assert first.ending is Ending.MALFORMED and len(first.nodes[-1].token_ids or ()) == 400
    policy = TokenPolicy([answer("y")])
    second = await play(policy, before=first, **FURTHER)
    before = first.token_ids()
    assert before is not None and policy.seen[0][len(before)] == ByteTokenizer.end and second.answer == "y"


async def test_what_cannot_be_gone_on_with_is_told() -> None:
    tokens, texts = await play([answer("x")]), await play(in_order(["<think>" + answer("x")]))
    with pytest.raises(UserError, match="other tokens"):
        await play([answer("y")], before=texts, **FURTHER)
    with pytest.raises(UserError, match="other tokens"):
        await play(in_order(["<think>" + answer("y")]), before=tokens, **FURTHER)
    with pytest.raises(UserError, match="under the profile tiny"):
        await play([answer("y")], before=tokens, profile=fake_profile(name="other"), **FURTHER)
    silent = await play([])
    assert silent.ending is Ending.POLICY_OUTAGE
    with pytest.raises(UserError, match="before the model had spoken"):
        await play([answer("y")], before=silent, **FURTHER)


@pytest.mark.parametrize("tokens", [True, False])
@pytest.mark.parametrize("length", range(1, 16, 2))
async def test_a_killed_further_question_goes_on(tmp_path: Path, tokens: bool, length: int) -> None:
    script = [[call("a")], [BOTH, call("c")], [answer("x")]]
    first = await live(Speaker(script, Life(), tokens=tokens), profile=fake_profile(guards=GUARDS))
    again = [[call("a")], [call("d")], [answer("y")]]

    async def further(life: Life, journal: Journal | None) -> Trajectory:
        speaker = Speaker(again, life, tokens=tokens)
        return await live(speaker, journal, question="And?", before=first, id="e/2", profile=fake_profile(guards=GUARDS))

    whole = await further(Life(), None)
    with Journal(tmp_path / "j") as journal, suppress(Killed):
        await further(Life(length), journal)
    with Journal(tmp_path / "j") as journal:
        done = await further(Life(), journal)
    assert repr(done) == repr(whole) and list(done.nodes[: len(first.branch())]) == [
        node.model_copy(update={"parent": place - 1 if place else None}) for place, node in enumerate(first.branch())
    ]
