"""A trajectory's main branch as Inspect's messages: nothing lost, nothing made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_runs import answering, calling, episode, node, plain, question_node, seen, system

from sanderling.core.parse import parse_turn
from sanderling.core.record import NodeKind
from sanderling.core.types import Role, ToolStatus
from sanderling.evaluate.inspect_log.messages import messages_of, rest_of


def test_turns_calls_and_results() -> None:
    assert messages_of(plain()) == [
        {"id": "q/1-0#0", "role": "system", "content": "You are a research agent."},
        {"id": "q/1-0#1", "role": "user", "content": "Which town?"},
        {
            "id": "q/1-0#2",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "look"}],
            "source": "generate",
            "tool_calls": [{"id": "2-0", "function": "search", "arguments": {"query": ["town"]}}],
            "model": "made-up",
        },
        {"id": "q/1-0#3", "role": "tool", "content": "[1] Town", "tool_call_id": "2-0", "function": "search"},
        {
            "id": "q/1-0#4",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "so"}, {"type": "text", "text": "<answer>Vumhum</answer>"}],
            "source": "generate",
            "model": "made-up",
        },
    ]


def test_several_results_of_one_observation_each_answer_their_call() -> None:
    turn = calling(1, ("search", {"query": ["a"]}), ("visit", {"url": ["u"]}), ("visit", {"url": ["v"]}))
    results = seen(2, ("found", ToolStatus.OK), ("no such page", ToolStatus.NOT_FOUND), ("late", ToolStatus.TIMEOUT))
    tools = messages_of(episode([system(), question_node(), turn, results, answering(3)]))[3:6]
    assert [(tool["tool_call_id"], tool["function"], tool["content"]) for tool in tools] == [
        ("2-0", "search", "found"),
        ("2-1", "visit", "no such page"),
        ("2-2", "visit", "late"),
    ]
    assert [tool.get("error") for tool in tools] == [
        None,
        {"type": "file_not_found", "message": "no such page"},
        {"type": "timeout", "message": "late"},
    ]
    assert [tool["id"] for tool in tools] == ["q/1-0#3-0", "q/1-0#3-1", "q/1-0#3-2"]
    assert tools[1]["metadata"] == {"status": "not_found"}


@pytest.mark.parametrize("status", list(ToolStatus))
def test_every_status_that_is_no_success_is_an_error(status: ToolStatus) -> None:
    turn = calling(1, ("search", {}))
    tool = messages_of(episode([system(), question_node(), turn, seen(2, ("text", status)), answering(3)]))[3]
    assert ("error" in tool) == (status not in (ToolStatus.OK, ToolStatus.EMPTY))
    assert tool["content"] == "text"


def test_results_that_cannot_be_told_apart_stay_whole() -> None:
    turn = calling(1, ("search", {}), ("visit", {}))
    one = seen(2, ("only one", ToolStatus.OK))
    tools = messages_of(episode([system(), question_node(), turn, one, answering(3)]))[3:-1]
    assert [(tool["tool_call_id"], tool["content"]) for tool in tools] == [("2-0", one.text)]
    odd = seen(2, ("page with </tool_response>", ToolStatus.OK), ("<tool_response> in it", ToolStatus.OK))
    single = calling(1, ("search", {}))
    tools = messages_of(episode([system(), question_node(), single, odd, answering(3)]))[3:-1]
    assert [tool["content"] for tool in tools] == [odd.text]


def test_an_observation_without_a_call_is_shown_without_one() -> None:
    turn = node(NodeKind.TURN, "I only talk.", 1, Role.ASSISTANT)
    found = messages_of(episode([system(), question_node(), turn, seen(2, ("text", ToolStatus.OK)), answering(3)]))
    assert found[2]["content"] == [{"type": "text", "text": "I only talk."}]
    assert found[3] == {"id": "q/1-0#3", "role": "tool", "content": "text"}


def test_hints_and_unknown_messages_say_what_they_are() -> None:
    turn = node(NodeKind.TURN, "", 1, Role.ASSISTANT, problems=("no_action",))
    hint = node(NodeKind.HINT, "Malformed turn.", 2)
    raw = node(NodeKind.RAW, "?", 3, Role.ASSISTANT, problems=("unknown_role",), raw={"role": "oracle"})
    found = messages_of(episode([system(), question_node(), turn, hint, raw]))
    assert found[2]["content"] == [{"type": "text", "text": ""}] and found[2]["metadata"] == {"problems": ["no_action"]}
    assert (found[3]["role"], found[3]["metadata"]) == ("user", {"kind": "hint"})
    assert (found[4]["role"], found[4]["metadata"]) == ("assistant", {"kind": "raw", "problems": ["unknown_role"]})


def test_only_the_main_branch_is_shown() -> None:
    rejected = calling(1, ("search", {}), think="again and again", rejected=True)
    nodes = [system(), question_node(), rejected, answering(1)]
    assert [message["id"] for message in messages_of(episode(nodes))] == ["q/1-0#0", "q/1-0#1", "q/1-0#3"]


def test_an_episode_that_never_began_has_no_messages() -> None:
    assert messages_of(episode()) == []


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>\na\n</think>\n<answer>b</answer>", "<answer>b</answer>"),
        ("a\n</think>\n<answer>b</answer>", "<answer>b</answer>"),  # the prompt held the tag
        ("<answer>b</answer>", "<answer>b</answer>"),
        ("<think>a", "<think>a"),  # never closed: left as it was sampled
        ('<think>a</think>so <tool_call>{"name": "f", "arguments": {}}</tool_call> there', "so  there"),
        ('<think>a</think><tool_call>{"name": "f", "arguments": {}}', ""),  # nothing follows: the end closes it
        ("<think>a</think><tool_call>{broken</tool_call>", "<tool_call>{broken</tool_call>"),
    ],
)
def test_what_stays_of_a_turn(text: str, rest: str) -> None:
    parsed = parse_turn(text, think_open=text.startswith("a\n"))
    assert rest_of(node(NodeKind.TURN, text, 1, Role.ASSISTANT, think=parsed.think, calls=parsed.calls)) == rest


WORDS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<answer>",
        "</answer>",
        '{"name": "f", "arguments": {"a": 1}}',
        "x",
        "\n",
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join), st.booleans())
def test_no_word_of_a_turn_is_lost(text: str, think_open: bool) -> None:
    """Whatever a model writes: its letters stand in the reasoning, in a call's own text, or in what stays."""
    parsed = parse_turn(text, think_open=think_open)
    made = node(NodeKind.TURN, text, 1, Role.ASSISTANT, think=parsed.think, calls=parsed.calls)
    shown = rest_of(made) + (made.think or "") + "".join(call.raw for call in made.calls)
    assert shown.count("x") >= text.count("x")
    assert shown.count('"f"') >= text.count('"f"')
