"""The tolerant parser: what it reads from untidy turns, what it flags, and that no text breaks it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.parse import ParseProblem, explain, normalise_arguments, parse_turn
from sanderling.core.profiles import ToolNames
from sanderling.core.types import ToolCall

SEARCH = '{"name": "search", "arguments": {"query": ["tidal flats"]}}'
VISIT = '{"name": "visit", "arguments": {"url": ["https://a.example/x"], "goal": "dates"}}'
QUERY = {"query": ["tidal flats"]}
AGENTCPM = ToolNames(visit="fetch_url", visit_goal="purpose")


def call(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def codes(text: str, *, think_open: bool = False) -> set[str]:
    return set(parse_turn(text, think_open=think_open).problems)


class TestWellFormed:
    def test_tags_within_json_strings_do_not_end_the_call(self) -> None:
        queries = ["what does </tool_call> mean", "the <answer> tag", "<think>"]
        turn = parse_turn(f"<think>a</think>{call(json.dumps({'name': 'search', 'arguments': {'query': queries}}))}")
        assert turn.calls[0].arguments == {"query": queries}
        assert turn.problems == ()


class TestThink:
    @pytest.mark.parametrize(
        ("text", "think", "problem"),
        [
            (call(SEARCH), None, "missing_think"),
            (f"I look.</think>{call(SEARCH)}", "I look.", "missing_think_open"),
            (f"<think><think>I look.</think>{call(SEARCH)}", "I look.", "doubled_think"),
            (f"<think>I</think>look.</think>{call(SEARCH)}", "I\nlook.", "doubled_think"),
            (f"<think>I</think><think>look.</think>{call(SEARCH)}", "I\nlook.", "doubled_think"),
            (f"<think>I look.\n{call(SEARCH)}", "I look.", "unclosed_think"),
            (f"Well. <think>I look.</think>{call(SEARCH)}", "I look.", "stray_text"),
        ],
    )
    def test_untidy_reasoning_still_gives_the_call(self, text: str, think: str | None, problem: str) -> None:
        turn = parse_turn(text)
        assert turn.think == think
        assert [found.arguments for found in turn.calls] == [QUERY]
        assert problem in turn.problems

    def test_a_call_in_unclosed_reasoning_is_taken_and_flagged(self) -> None:
        turn = parse_turn(f"I might use <tool_call> soon. {call(SEARCH)}", think_open=True)
        assert [found.arguments for found in turn.calls] == [QUERY]
        assert {"call_in_think", "unclosed_think"} <= set(turn.problems)

    def test_actions_mentioned_in_closed_reasoning_are_not_actions(self) -> None:
        turn = parse_turn(f"<think>{call(VISIT)} or <answer>Porto</answer>?</think>{call(SEARCH)}")
        assert [found.name for found in turn.calls] == ["search"]
        assert turn.answer is None
        assert turn.problems == ()

    def test_an_answer_in_unclosed_reasoning_is_no_answer(self) -> None:
        turn = parse_turn("I would say <answer>Porto</answer> but let me check", think_open=True)
        assert turn.answer is None
        assert not turn.actionable
        assert {"answer_in_think", "unclosed_think", "no_action"} <= set(turn.problems)
        assert "reasoning" in explain(turn.problems)


class TestCalls:
    @pytest.mark.parametrize(
        "body",
        [
            "{'name': 'search', 'arguments': {'query': ['tidal flats'],},}",
            '{name: "search", arguments: {query: ["tidal flats"]}}',
            SEARCH + "}",
            '{"name": "search", "arguments": "{\\"query\\": [\\"tidal flats\\"]}"}',
            '{"name": "search", "parameters": {"query": ["tidal flats"]}}',
            '{"name": "search", "query": ["tidal flats"]}',
            '{"type": "function", "function": ' + SEARCH + "}",
        ],
    )
    def test_lenient_forms(self, body: str) -> None:
        turn = parse_turn(f"<think>a</think>{call(body)}")
        assert [(found.name, found.arguments) for found in turn.calls] == [("search", QUERY)]
        assert turn.problems == (ParseProblem.LENIENT_CALL,)

    @pytest.mark.parametrize(
        "body", ["", "search tidal flats", "[1, 2]", '"search"', '{"name": 3, "arguments": {}}', "{}", "{"]
    )
    def test_unreadable_calls_are_left_out_and_flagged(self, body: str) -> None:
        turn = parse_turn(f"<think>a</think>{call(body)}")
        assert turn.calls == ()
        assert {"unreadable_call", "no_action"} <= set(turn.problems)
        assert "JSON" in explain(turn.problems)

    def test_several_calls_in_order(self) -> None:
        turn = parse_turn(f"<think>a</think>{call(SEARCH)}\n{call(VISIT)}")
        assert [found.name for found in turn.calls] == ["search", "visit"]
        assert turn.problems == (ParseProblem.SEVERAL_CALLS,)

    def test_too_many_calls(self) -> None:
        turn = parse_turn("<think>a</think>" + call(SEARCH) * 100)
        assert len(turn.calls) == 32
        assert "too_many_calls" in turn.problems
        assert len(parse_turn("<think>a</think>" + call("[" + ",".join([SEARCH] * 100) + "]")).calls) == 32

    def test_an_invented_observation_is_cut(self) -> None:
        text = f"<think>a</think>{call(SEARCH)}\n<tool_response>\nfake\n</tool_response>\n<answer>Porto</answer>"
        turn = parse_turn(text)
        assert turn.answer is None
        assert turn.problems == (ParseProblem.CUT_AT_RESPONSE,)


class TestCode:
    @pytest.mark.parametrize(
        "text",
        [
            '<tool_call>\n{"name": "PythonInterpreter", "arguments": {}}\n<code>\nprint("</b>")\n</code>\n</tool_call>',
            '<tool_call>\n{"name": "PythonInterpreter", "arguments": {}}\n</tool_call>\n<code>\nprint("</b>")\n</code>',
            '<tool_call>{"name": "PythonInterpreter", "arguments": {}}<code>print("</b>")</tool_call>',
            '<tool_call>PythonInterpreter\n<code>\nprint("</b>")\n</code>\n</tool_call>',
            '<tool_call>{"name": "PythonInterpreter", "arguments": {\n<code>\nprint("</b>")\n</code>\n</tool_call>',
        ],
    )
    def test_code_becomes_an_argument(self, text: str) -> None:
        turn = parse_turn(f"<think>a</think>{text}")
        assert [(found.name, found.arguments) for found in turn.calls] == [("PythonInterpreter", {"code": 'print("</b>")'})]
        assert "trailing_text" not in turn.problems


class TestAnswer:
    @pytest.mark.parametrize(
        ("text", "answer", "problem"),
        [
            ("<answer>Lisbon", "Lisbon", "unclosed_answer"),
            ("<answer>draft <answer>Lisbon</answer>", "Lisbon", "several_answers"),
            ("<answer>Porto</answer> no: <answer>Lisbon</answer>", "Lisbon", "several_answers"),
            ("So: <answer>Lisbon</answer>", "Lisbon", "stray_text"),
            ("<answer>Lisbon</answer> Done.", "Lisbon", "trailing_text"),
            ("<answer> \n</answer>", None, "empty_answer"),
        ],
    )
    def test_untidy_answers(self, text: str, answer: str | None, problem: str) -> None:
        turn = parse_turn(f"<think>a</think>{text}")
        assert turn.answer == answer
        assert problem in turn.problems

    def test_nothing_at_all(self) -> None:
        turn = parse_turn("")
        assert (turn.think, turn.calls, turn.answer) == (None, (), None)
        assert set(turn.problems) == {"missing_think", "no_action"}


class TestArguments:
    @pytest.mark.parametrize(
        ("name", "given_", "names", "wanted"),
        [
            ("search", {"queries": "a"}, ToolNames(), {"query": ["a"]}),
            ("search", {"query": '["a", "b"]'}, ToolNames(), {"query": ["a", "b"]}),
            ("search", {"query": '["a" b'}, ToolNames(), {"query": ['["a" b']}),
            ("search", {"query": ["a"], "queries": ["b"]}, ToolNames(), {"query": ["a"], "queries": ["b"]}),
            ("search", {"query": 7}, ToolNames(), {"query": 7}),
            ("visit", {"urls": "u", "goal": ["g", "h"]}, ToolNames(), {"url": ["u"], "goal": "g"}),
            ("visit", {"url": ["u"], "purpose": "g"}, ToolNames(), {"url": ["u"], "goal": "g"}),
            ("fetch_url", {"url": "u", "goal": []}, AGENTCPM, {"url": ["u"], "purpose": ""}),
            ("visit", {"urls": "u"}, AGENTCPM, {"urls": "u"}),
        ],
    )
    def test_canonical_form(self, name: str, given_: dict, names: ToolNames, wanted: dict) -> None:
        before = ToolCall(name=name, arguments=given_, raw="r")
        after = normalise_arguments(before, names)
        assert after == ToolCall(name=name, arguments=wanted, raw="r")
        assert normalise_arguments(after, names) == after


class TestHostile:
    def test_values_that_nothing_downstream_could_take(self) -> None:
        body = '{"name": "a\\u0000b", "arguments": {"s": "x\\u0000\\ud800", "n": NaN, "f": 1e999, "i": ' + "9" * 400 + "}}"
        arguments = parse_turn(f"<think>\x00</think>{call(body)}").calls[0].arguments
        assert arguments["s"] == "x\ufffd"
        assert arguments["n"] == "NaN"
        assert arguments["f"] == "inf"
        assert isinstance(arguments["i"], str)
        assert json.loads(json.dumps(arguments, allow_nan=False).encode()) == arguments

    def test_lone_surrogates_in_the_text(self) -> None:
        turn = parse_turn(f"<think>\ud800</think>{call(SEARCH)}<answer>\udfff</answer>")
        assert turn.think == "\ufffd"
        assert turn.answer == "\ufffd"

    @pytest.mark.parametrize(
        "unit",
        [
            "<tool_call>",
            '<tool_call>{"',
            "<tool_call>{a:'b',",
            "<tool_call>{}<code>",
            '<tool_call>[{"a":',
            "<tool_call>[{",
            "<answer>",
            "<answer></answer>",
            "<think>",
            "</think>",
            "<think>a</think>",
            '{"a":[',
            '<tool_call>"name":',
            " ",
            "\x00",
            "a",
        ],
    )
    @pytest.mark.parametrize("think_open", [True, False])
    def test_a_megabyte_of_anything_is_read_in_one_pass(self, unit: str, think_open: bool) -> None:
        # A quadratic step would take minutes here, so it would be noticed without a stop watch.
        size = 1_000_000 // len(unit)
        assert not parse_turn(unit * size, think_open=think_open).calls
        assert not parse_turn("<tool_call>" + unit * size, think_open=think_open).calls

    def test_deep_nesting(self) -> None:
        deep = '{"name": "a", "arguments": {"x": ' + "[" * 500 + "]" * 500 + "}}"
        assert "unreadable_call" in codes(f"<think>a</think>{call(deep)}")


TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<code>", "</code>", "<tool_response>"]
BITS = [
    SEARCH,
    VISIT,
    "{",
    "}",
    "[",
    '"',
    "'",
    "\\",
    "Lisbon",
    "\n",
    "\x00",
    "，",
    "{'name': 'a'}",
    "{name:'a',arguments:'{}'}",
]
FRAGMENTS = st.sampled_from(TAGS + BITS)


@given(st.one_of(st.text(), st.lists(FRAGMENTS | st.text(max_size=5), max_size=25).map("".join)), st.booleans())
@settings(max_examples=600, deadline=None)
def test_no_text_breaks_the_parser(text: str, think_open: bool) -> None:
    turn = parse_turn(text, think_open=think_open, names=ToolNames())
    assert turn.actionable == ("no_action" not in turn.problems)
    assert ("both" in turn.problems) == (bool(turn.calls) and turn.answer is not None)
    assert len(set(turn.problems)) == len(turn.problems)
    assert all(found.raw in text for found in turn.calls)
    if turn.answer is not None:
        assert turn.answer.strip() == turn.answer != ""
        assert turn.answer in text
    for found in turn.calls:
        json.dumps(found.arguments, allow_nan=False).encode("utf-8")
