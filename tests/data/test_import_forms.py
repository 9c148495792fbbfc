"""Layouts of other families, in small, as their files look: who speaks, what is thought, called, returned and answered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.data.importers import import_file
from sanderling.data.importers.forms import units

QUESTION = "Which river runs through Tovrel?"


def save(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def one(tmp_path, entry):
    """The one trajectory of a file with this entry; nothing of it is raw."""
    result = import_file(save(tmp_path / "a.json", [entry]))
    (found,) = result.trajectories
    assert result.report.messages == result.report.kept
    return found


def kinds(t):
    return [node.kind.value for node in t.nodes]


def called(t):
    return [(call.name, call.arguments) for node in t.nodes for call in node.calls]


def part(text, **more):
    """A part of Harmony's content as Parquet writes it: with the fields of all kinds."""
    return {"text": text, "tools": None, "type": "text", **more}


def harmony(role, channel, text, recipient=None, name=None):
    return {"role": role, "channel": channel, "content": [part(text)], "recipient": recipient, "name": name}


def test_harmonys_channels_are_thoughts_calls_and_the_answer(tmp_path):
    system = {
        "role": "system",
        "channel": None,
        "recipient": None,
        "content": [part(None, type="system_content", tools={"b": 1})],
    }
    messages = [
        system,
        harmony("developer", None, "be brief"),
        harmony("user", None, QUESTION),
        harmony("assistant", "analysis", "search it"),
        harmony("assistant", "analysis", '{"query": "Tovrel river"}', recipient="browser.search"),
        harmony("tool", "analysis", "[0] the Ulm", recipient="assistant", name="browser.search"),
        harmony("assistant", "analysis", "found"),
        harmony("assistant", "final", "The Ulm."),
    ]
    t = one(tmp_path, {"qid": 3, "question": QUESTION, "answer": "Ulm", "messages": messages, "status": "success"})
    assert kinds(t) == ["system", "system", "question", "turn", "observation", "turn"]
    assert called(t) == [("browser.search", {"query": "Tovrel river"})]
    assert (t.nodes[3].think, t.nodes[5].think, t.answer) == ("search it", "found", "The Ulm.")
    assert t.question.answers == ("Ulm",)
    assert json.loads(t.nodes[0].text)[0]["tools"] == {"b": 1}
    assert t.nodes[3].raw == {"messages": messages[3:5]}


MCP = """{think}Looking it up.

<use_mcp_tool>
<server_name>tool-google-search</server_name>
<tool_name>google_search</tool_name>
<arguments>
{{"q": "Tovrel river", "num": 3}}
</arguments>
</use_mcp_tool>"""


@pytest.mark.parametrize(("think", "seen"), [("", None), ("<think>\nhm\n</think>\n\n", "hm")])
def test_calls_of_mcp_blocks_are_answered_by_the_next_message_of_the_user(tmp_path, think, seen):
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": MCP.format(think=think)},
        {"role": "user", "content": '{"organic": []}'},
        {"role": "user", "content": "Now give the final answer."},
        {"role": "assistant", "content": "\\boxed{Ulm}"},
    ]
    t = one(tmp_path, {"messages": messages})
    assert kinds(t) == ["question", "turn", "observation", "hint", "turn"]
    assert called(t) == [("google_search", {"q": "Tovrel river", "num": 3})]
    assert t.nodes[1].think == seen
    assert "Looking it up." in t.nodes[1].text
    assert t.nodes[1].raw == messages[1]
    assert t.nodes[2].raw == messages[2]
    assert t.answer == "\\boxed{Ulm}"


def test_an_mcp_block_that_cannot_be_read_stays_in_the_text(tmp_path):
    t = one(tmp_path, {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "<use_mcp_tool>oh"}]})
    assert not called(t)
    assert t.nodes[1].text == "<use_mcp_tool>oh"


STEPS = [
    "Thought: search it\nAction: search[Tovrel river]",
    "Observation: the Ulm",
    "Thought: it says so\nAction: finish[Ulm]",
    "Observation: Episode finished, reward = True",
]


def test_react_messages_become_turns_and_what_follows_the_answer_hangs_off_the_episode(tmp_path):
    messages = [{"role": role, "content": text} for role, text in zip(["assistant", "user"] * 2, STEPS, strict=True)]
    t = one(tmp_path, {"messages": [{"role": "user", "content": QUESTION}, *messages]})
    assert kinds(t) == ["question", "turn", "observation", "turn", "observation"]
    assert called(t) == [("search", {"query": "Tovrel river"})]
    assert t.nodes[1].think == "search it"
    assert "the Ulm" in t.nodes[2].text and "Observation:" not in t.nodes[2].text
    assert (t.answer, t.leaf) == ("Ulm", 3)


def test_a_graphs_state_of_langchain_messages(tmp_path):
    call = {"name": "web_search", "args": {"query": "Tovrel"}, "id": "c1", "type": "tool_call"}
    thought = {"reasoning_content": "search it"}
    messages = [
        {"type": "human", "content": [{"type": "text", "text": QUESTION}], "id": "1"},
        {"type": "ai", "content": "", "additional_kwargs": thought, "tool_calls": [call], "id": "2"},
        {"type": "tool", "content": "the Ulm", "tool_call_id": "c1", "name": "web_search", "id": "3"},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "AIMessage"], "kwargs": {"content": "The Ulm."}},
    ]
    t = one(tmp_path, {"values": {"messages": messages, "title": "rivers"}, "next": []})
    assert kinds(t) == ["question", "turn", "observation", "turn"]
    assert called(t) == [("web_search", {"query": "Tovrel"})]
    assert (t.question.text, t.nodes[1].think, t.answer) == (QUESTION, "search it", "The Ulm.")
    assert t.nodes[1].raw == messages[1]
    assert t.meta["fields"] == {"values": {"title": "rivers"}, "next": []}


def test_parts_hold_thoughts_calls_and_several_results(tmp_path):
    uses = [{"type": "tool_use", "id": id, "name": "search", "input": {"query": id}} for id in ("a", "b")]
    results = [
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "of b"}]},
        {"type": "tool_result", "tool_use_id": "a", "content": "of a"},
    ]
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "two", "signature": "s"}, *uses]},
        {"role": "user", "content": [*results, {"type": "text", "text": "go on"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "The Ulm."}]},
    ]
    t = one(tmp_path, {"messages": messages})
    assert kinds(t) == ["question", "turn", "observation", "hint", "turn"]
    assert (t.nodes[1].think, t.answer) == ("two", "The Ulm.")
    assert called(t) == [("search", {"query": "a"}), ("search", {"query": "b"})]
    assert t.nodes[2].text.index("of a") < t.nodes[2].text.index("of b")


def test_parts_with_values_and_calls_as_text(tmp_path):
    def says(role, *parts):
        return {"role": role, "content": [{"type": kind, "value": value} for kind, value in parts], "loss_weight": 0.0}

    messages = [
        says("system", ("text", "sys")),
        says("user", ("text", QUESTION)),
        says("assistant", ("reasoning", "search it"), ("tool_call", '{"name": "search", "arguments": {"query": "x"}}')),
        says("tool", ("text", "the Ulm")),
        says("assistant", ("reasoning", "found"), ("text", "The Ulm.")),
    ]
    t = one(tmp_path, {"messages": messages, "tools": "[]"})
    assert kinds(t) == ["system", "question", "turn", "observation", "turn"]
    assert called(t) == [("search", {"query": "x"})]
    assert (t.nodes[4].think, t.answer) == ("found", "The Ulm.")


def test_an_image_beside_a_text_leaves_the_text_and_stays_in_the_node(tmp_path):
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "who?"}]}
    t = one(tmp_path, {"messages": [message]})
    assert (t.question.text, t.nodes[0].raw) == ("who?", message)


def test_items_of_the_responses_api_are_joined_into_turns(tmp_path):
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "search it"}], "encrypted_content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]},
        {"type": "function_call", "name": "search", "arguments": '{"query": "x"}', "call_id": "1"},
        {"type": "function_call", "name": "search", "arguments": '{"query": "y"}', "call_id": "2"},
        {"type": "function_call_output", "call_id": "2", "output": "of y"},
        {"type": "function_call_output", "call_id": "1", "output": "of x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "The Ulm."}]},
    ]
    sent = {"input": [{"role": "user", "content": QUESTION}], "instructions": "be brief", "tools": []}
    entry = {"responses_create_params": sent, "response": {"id": "r", "output": items}, "expected_answer": "Ulm", "reward": 1.0}
    result = import_file(save(tmp_path / "a.jsonl", json.dumps(entry)))
    (t,) = result.trajectories
    assert kinds(t) == ["system", "question", "turn", "observation", "turn"]
    assert called(t) == [("search", {"query": "x"}), ("search", {"query": "y"})]
    assert t.nodes[2].think == "search it" and "One moment." in t.nodes[2].text
    assert t.nodes[2].raw == {"messages": items[:4]}
    assert t.nodes[3].text.index("of x") < t.nodes[3].text.index("of y")
    assert (t.answer, t.question.answers) == ("The Ulm.", ("Ulm",))
    assert result.report.messages == 9
    assert t.meta["fields"]["response"] == {"id": "r"}


def test_cases_whose_turns_hold_the_call_and_its_result(tmp_path):
    tool = {"name": "search", "args": {"queries": ["x"]}, "args_str": "", "queries": ["x"], "result": "the Ulm"}
    case = {"benchmark": "B", "question": QUESTION, "reference_answer": "Ulm", "final_answer": "The Ulm."}
    case |= {"turns": [{"think": "search it", "tool": tool}, {"think": "found", "tool": None}]}
    result = import_file(save(tmp_path / "a.json", {"cases": [case]}))
    (t,) = result.trajectories
    assert t.meta["layout"] == "literesearcher-cases"
    assert kinds(t) == ["question", "turn", "observation", "turn"]
    assert called(t) == [("search", {"query": ["x"]})]
    assert (t.nodes[1].think, t.answer, t.question.answers) == ("search it", "The Ulm.", ("Ulm",))
    assert not result.questions


@pytest.mark.parametrize("key", ["traj", "trajectory", "history", "chat_history"])
def test_conversations_under_other_names(tmp_path, key):
    t = one(tmp_path, {"task_id": 1, key: [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    assert kinds(t) == ["question", "turn"]
    assert t.meta["fields"] == {"task_id": 1}


def test_conversations_of_sub_agents_follow_the_one_they_stand_in(tmp_path):
    talk = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "ask another"}]
    inner = [{"question": "Where is Tovrel?", "messages": [{"role": "user", "content": "Where is Tovrel?"}]}]
    entry = {"question": QUESTION, "answer": "Ulm", "messages": talk, "subagents": inner, "num_subagents": 1}
    main, sub = import_file(save(tmp_path / "a.json", [entry, entry | {"subagents": []}])).trajectories[:2]
    assert (main.question.text, sub.question.text) == (QUESTION, "Where is Tovrel?")
    assert (main.question.answers, sub.question.answers) == (("Ulm",), ())
    assert "subagents" not in main.meta["fields"]


def test_pairs_of_a_question_and_its_answer(tmp_path):
    t = one(tmp_path, {"conversation": [{"human": "a", "assistant": "b"}, {"human": "c", "assistant": "d"}]})
    assert [node.text for node in t.nodes] == ["a", "b", "c", "d"]


def test_entries_by_their_ids_and_lists_under_any_name(tmp_path):
    entry = {"question": QUESTION, "answer": "Ulm"}
    by_id = import_file(save(tmp_path / "a.json", {"7": entry, "9": entry}))
    assert [question.meta for question in by_id.questions] == [{"id": "7"}, {"id": "9"}]
    listed = import_file(save(tmp_path / "b.json", {"info": {"n": 1}, "qa_pairs": [entry]}))
    assert [question.text for question in listed.questions] == [QUESTION]


def test_tools_arguments_without_an_address_are_no_masks(tmp_path):
    row = {"prompt": [{"role": "user", "content": QUESTION}], "reward_model": {"ground_truth": "Ulm"}}
    plain = row | {"extra_info": {"tools_kwargs": {"search": {"create_kwargs": {"ground_truth": "Ulm"}}}}}
    masked = row | {"extra_info": {"tools_kwargs": {"search": {"create_kwargs": {"url": "u"}}}}}
    report = import_file(save(tmp_path / "a.json", [plain, masked])).report
    assert [(one.layout, one.questions) for one in report.layouts] == [("literesearcher-rl", 1), ("verl", 1)]


def test_a_page_that_looks_like_a_list_is_not_an_empty_result_of_a_tool_that_is_no_search(tmp_path):
    call = {"id": "1", "function": "browser_go", "arguments": {"url": "u"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": '[132] link "About"', "tool_call_id": "1", "function": "browser_go"},
    ]
    t = one(tmp_path, {"messages": messages, "input": "x", "target": "y"})
    assert called(t) == [("browser_go", {"url": "u"})]
    assert [event.status for event in t.nodes[2].events] == ["ok"]


_PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "role",
                    "content",
                    "text",
                    "value",
                    "channel",
                    "recipient",
                    "kwargs",
                    "id",
                    "tool_calls",
                    "human",
                    "output",
                ]
            ),
            inner | st.sampled_from(["human", "ai", "assistant", "user", "tool_result", "tool_use", "reasoning", "text"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(_PARTS)
def test_any_value_has_units_that_count_as_one_message(value):
    found = units(value)
    assert sum(unit.size for unit in found) == 1
