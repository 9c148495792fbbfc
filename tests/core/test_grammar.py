"""The strict check: every violation on its own, and agreement with the parser on what is well formed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.parse import explain, normalise_arguments, parse_turn
from sanderling.core.profiles import ToolNames
from sanderling.core.types import ToolCall

CALL = '<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
ANSWER = "<answer>\nLisbon\n</answer>"
THINK = "<think>\nwhy\n</think>\n"


def violations(text: str, *, think_open: bool = False) -> set[Violation]:
    return set(check_turn(text, think_open=think_open))


LOOSE = [
    "{'name': 'a', 'arguments': {}}",
    '{"name": "a", "arguments": {"x": NaN}}',
    '{"name": null, "arguments": {}}',
    '{"name": 3, "arguments": {}}',
    '{name: "a", arguments: {query: ["b",],},} // c',
    '{"name": "PythonInterpreter", "arguments": {}}\n<code>\nprint(1)\n</code>',
]
"""Bodies of calls that the released checker takes, and that are no plain JSON with a text as the name."""


@pytest.mark.parametrize("action", [CALL, ANSWER, f"  {CALL}\n", '<tool_call>{"name":"没有的工具","arguments":{}}</tool_call>'])
def test_well_formed_turns(action: str) -> None:
    assert violations(THINK + action) == set()
    assert violations("\n " + THINK + action) == set()
    assert violations("why\n</think>\n" + action, think_open=True) == set()
    assert violations(f"<think>the <answer> tag, a <tool_call></think>{action}") == set()


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        (CALL, Violation.NO_THINK),
        (f"Well. {THINK}{CALL}", Violation.THINK_NOT_FIRST),
        (f"{CALL}{THINK}", Violation.THINK_NOT_FIRST),
        (f"<think>a{CALL}", Violation.THINK_UNORDERED),
        (f"a</think>{CALL}", Violation.THINK_UNORDERED),
        (f"</think>a<think>{CALL}", Violation.THINK_UNORDERED),
        (f"{THINK}{THINK}{CALL}", Violation.THINK_UNORDERED),
        (f"<think>{THINK}{CALL}", Violation.THINK_UNORDERED),
        (f"<think> \n</think>{CALL}", Violation.THINK_EMPTY),
        (THINK, Violation.NO_ACTION),
        (f"{THINK}Lisbon", Violation.NO_ACTION),
        (THINK + CALL + ANSWER, Violation.BOTH_ACTIONS),
        (THINK + CALL + "<answer>", Violation.BOTH_ACTIONS),
        (THINK + CALL + CALL, Violation.SEVERAL_CALLS),
        (THINK + ANSWER + ANSWER, Violation.SEVERAL_ANSWERS),
        (f"{THINK}<answer>Lisbon", Violation.ACTION_UNORDERED),
        (f"{THINK}</answer>Lisbon<answer>", Violation.ACTION_UNORDERED),
        (f"{THINK}{CALL}</tool_call>", Violation.ACTION_UNORDERED),
        (f"{THINK}So: {CALL}", Violation.STRAY_TEXT),
        (f"{THINK}{CALL} done", Violation.STRAY_TEXT),
        (f"{THINK}{ANSWER}.", Violation.STRAY_TEXT),
        (f"{THINK}<tool_call>{{'name': 'a', 'arguments': {{}}}}</tool_call>", Violation.CALL_NOT_JSON),
        (f'{THINK}<tool_call>{{"name": "a", "arguments": {{"x": NaN}}}}</tool_call>', Violation.CALL_NOT_JSON),
        (f"{THINK}<tool_call>{'[' * 100_000}</tool_call>", Violation.CALL_NOT_JSON),
        (f"{THINK}<tool_call>{CALL[11:-12]}<code>1</code></tool_call>", Violation.CALL_NOT_JSON),
        (f"{THINK}<tool_call>[]</tool_call>", Violation.CALL_NOT_OBJECT),
        (f'{THINK}<tool_call>{{"arguments": {{}}}}</tool_call>', Violation.CALL_NAME),
        (f'{THINK}<tool_call>{{"name": 3, "arguments": {{}}}}</tool_call>', Violation.CALL_NAME),
        (f'{THINK}<tool_call>{{"name": "a"}}</tool_call>', Violation.CALL_ARGUMENTS),
        (f'{THINK}<tool_call>{{"name": "a", "arguments": "{{}}"}}</tool_call>', Violation.CALL_ARGUMENTS),
        (f"{THINK}<answer> \n</answer>", Violation.ANSWER_EMPTY),
        (f"<think>as <tool_response> says</think>{CALL}", Violation.RESPONSE_TAG),
    ],
)
def test_each_violation(text: str, violation: Violation) -> None:
    assert violation in check_turn(text, think_open=False, strict=True)
    loose = violations(text)
    assert (violation in loose) is (text not in {f"{THINK}<tool_call>{body}</tool_call>" for body in LOOSE})


@pytest.mark.parametrize("body", LOOSE)
def test_a_call_that_the_released_checker_takes_is_fined_in_training_data_only(body: str) -> None:
    text = f"{THINK}<tool_call>{body}</tool_call>"
    assert violations(text) == set() and check_turn(text, think_open=False, strict=True) != ()


@pytest.mark.parametrize(
    ("text", "fined"),
    [
        (f"<think></think>{CALL}", True),
        (f"{THINK}{THINK}{CALL}", True),
        (f"<think>a <tool_response></think>{CALL}", True),
        (f"<think>an <answer></think>{CALL}", False),
        (f"<think>a <tool_call></think>{ANSWER}", False),
        (f"{THINK}<tool_call>{{'name': 'a', 'arguments': {{'x': '{'y' * 8000}'}}}}</tool_call>", True),
    ],
)
def test_where_the_check_is_another_than_the_released_one(text: str, fined: bool) -> None:
    """The module's list; ``benchmarks/originals.py`` holds it against the released checker on random turns."""
    assert bool(violations(text)) is fined


TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<code>", "</code>", "<tool_response>"]
PIECES = st.sampled_from([*TAGS, CALL, ANSWER, THINK, "{}", '{"name": "a", "arguments": {}}', "x", " ", "\n"])


@given(st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text()), st.booleans())
@settings(max_examples=1000, deadline=None)
def test_what_is_well_formed_is_read_without_a_problem(text: str, think_open: bool) -> None:
    """Two implementations agree on every turn that is strictly well formed; no text breaks the check."""
    if check_turn(text, think_open=think_open, strict=True):
        return
    assert not check_turn(text, think_open=think_open)
    turn = parse_turn(text, think_open=think_open)
    assert turn.problems == ()
    assert len(turn.calls) + (turn.answer is not None) == 1


NOT_TAGS = st.text(alphabet=st.characters(exclude_characters="<>\x00", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
ARGUMENTS = st.dictionaries(NOT_TAGS, NOT_TAGS | st.integers(-(2**53), 2**53) | st.booleans() | st.lists(NOT_TAGS), max_size=3)


@given(NOT_TAGS, NOT_TAGS, ARGUMENTS, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_turn_of_the_grammar_passes_and_is_read_back(
    think: str, name: str, arguments: dict, think_open: bool, unicode: bool
) -> None:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=not unicode)
    prefix = "" if think_open else "<think>"
    text = f"{prefix}{think}</think>\n<tool_call>\n{body}\n</tool_call>"
    assert check_turn(text, think_open=think_open) == ()
    turn = parse_turn(text, think_open=think_open)
    assert turn.think == think.strip()
    assert [(call.name, call.arguments) for call in turn.calls] == [(name.strip(), arguments)]
    final = f"{prefix}{think}</think><answer>{name}</answer>"
    assert check_final(final, think_open=think_open) == ()
    assert parse_turn(final, think_open=think_open).answer == name.strip()


# -- The tolerant parser: what it reads from untidy turns, what it flags, and that no text breaks it -----------------------

SEARCH = '{"name": "search", "arguments": {"query": ["tidal flats"]}}'
VISIT = '{"name": "visit", "arguments": {"url": ["https://a.example/x"], "goal": "dates"}}'
CODE = '{"name": "PythonInterpreter", "arguments": {}}'
TAGS_IN_IT = '{"name": "search", "arguments": {"query": ["what </tool_call> means", "the <answer> tag", "<think>"]}}'
LENIENT = (
    "{'name': 'search', 'arguments': {'query': ['tidal flats'],},}",
    '{name: "search", arguments: {query: ["tidal flats"]}}',
    SEARCH + "}",
    '{"name": "search", "arguments": "{\\"query\\": [\\"tidal flats\\"]}"}',
    '{"name": "search", "parameters": {"query": ["tidal flats"]}}',
    '{"name": "search", "query": ["tidal flats"]}',
    '{"type": "function", "function": ' + SEARCH + "}",
)
UNREADABLE = ("", "search tidal flats", "[1, 2]", '"search"', '{"name": 3, "arguments": {}}', "{}", "{")


def call(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "think", "names", "answer", "problems"),
    [
        (f"<think>a</think>{call(TAGS_IN_IT)}", "a", "search", None, ""),
        (call(SEARCH), None, "search", None, "missing_think"),
        (f"I look.</think>{call(SEARCH)}", "I look.", "search", None, "missing_think_open"),
        (f"<think><think>I look.</think>{call(SEARCH)}", "I look.", "search", None, "doubled_think"),
        (f"<think>I</think>look.</think>{call(SEARCH)}", "I\nlook.", "search", None, "doubled_think"),
        (f"<think>I</think><think>look.</think>{call(SEARCH)}", "I\nlook.", "search", None, "doubled_think"),
        (f"<think>I look.\n{call(SEARCH)}", "I look.", "search", None, "unclosed_think call_in_think"),
        (f"Well. <think>I look.</think>{call(SEARCH)}", "I look.", "search", None, "stray_text"),
        (f"<think>{call(VISIT)} or <answer>Porto</answer>?</think>{call(SEARCH)}", ..., "search", None, ""),
        ("<think>Is it <answer>Porto</answer>? Let me", ..., "", None, "unclosed_think answer_in_think no_action"),
        *((f"<think>a</think>{call(body)}", "a", "search", None, "lenient_call") for body in LENIENT),
        (f"<think>a</think>{call(SEARCH)}\n{call(VISIT)}", "a", "search visit", None, "several_calls"),
        ("<think>a</think>" + call(SEARCH) * 100, "a", "search " * 32, None, "too_many_calls several_calls"),
        (f"<think>a</think>{call(SEARCH)}<tool_response><answer>Porto</answer>", "a", "search", None, "cut_at_response"),
        ("<think>a</think><answer>Lisbon", "a", "", "Lisbon", "unclosed_answer"),
        ("<think>a</think><answer>draft <answer>Lisbon</answer>", "a", "", "Lisbon", "several_answers"),
        ("<think>a</think><answer>Lisbon</answer> Done.", "a", "", "Lisbon", "trailing_text"),
        ("<think>a</think><answer> \n</answer>", "a", "", None, "empty_answer no_action"),
        ("<think>\ud800</think><answer>\udfff</answer>", "\ufffd", "", "\ufffd", ""),
        ("", None, "", None, "missing_think no_action"),
    ],
)
def test_what_a_turn_means(text: str, think: str | None, names: str, answer: str | None, problems: str) -> None:
    turn = parse_turn(text)
    assert think is ... or turn.think == think
    assert ([found.name for found in turn.calls], turn.answer) == (names.split(), answer)
    assert set(turn.problems) == set(problems.split())
    assert turn.actionable == bool(names or answer)


@pytest.mark.parametrize("body", UNREADABLE)
def test_unreadable_calls_are_left_out_and_flagged(body: str) -> None:
    turn = parse_turn(f"<think>a</think>{call(body)}")
    assert turn.calls == () and {"unreadable_call", "no_action"} <= set(turn.problems) and "JSON" in explain(turn.problems)


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>\n{CODE}\n<code>\nprint("</b>")\n</code>\n</tool_call>',
        f'<tool_call>\n{CODE}\n</tool_call>\n<code>\nprint("</b>")\n</code>',
        f'<tool_call>{CODE}<code>print("</b>")</tool_call>',
        '<tool_call>PythonInterpreter\n<code>\nprint("</b>")\n</code>\n</tool_call>',
    ],
)
def test_code_becomes_an_argument(text: str) -> None:
    turn = parse_turn(f"<think>a</think>{text}")
    assert [(found.name, found.arguments) for found in turn.calls] == [("PythonInterpreter", {"code": 'print("</b>")'})]
    assert "trailing_text" not in turn.problems


@pytest.mark.parametrize(
    ("name", "given_", "names", "wanted"),
    [
        ("search", {"queries": "a"}, ToolNames(), {"query": ["a"]}),
        ("search", {"query": '["a", "b"]'}, ToolNames(), {"query": ["a", "b"]}),
        ("search", {"query": 7}, ToolNames(), {"query": 7}),
        ("visit", {"urls": "u", "goal": ["g", "h"]}, ToolNames(), {"url": ["u"], "goal": "g"}),
        (
            "fetch_url",
            {"url": "u", "goal": []},
            ToolNames(visit="fetch_url", visit_goal="purpose"),
            {"url": ["u"], "purpose": ""},
        ),
    ],
)
def test_arguments_in_canonical_form(name: str, given_: dict, names: ToolNames, wanted: dict) -> None:
    after = normalise_arguments(ToolCall(name=name, arguments=given_, raw="r"), names)
    assert after == ToolCall(name=name, arguments=wanted, raw="r") == normalise_arguments(after, names)


def test_values_that_nothing_downstream_could_take() -> None:
    body = '{"name": "a\\u0000b", "arguments": {"s": "x\\u0000\\ud800", "n": NaN, "f": 1e999, "i": ' + "9" * 400 + "}}"
    arguments = parse_turn(f"<think>\x00</think>{call(body)}").calls[0].arguments
    assert (arguments["s"], arguments["n"], arguments["f"]) == ("x\ufffd", "NaN", "inf")
    assert json.loads(json.dumps(arguments, allow_nan=False).encode()) == arguments
    deep = '{"name": "a", "arguments": {"x": ' + "[" * 500 + "]" * 500 + "}}"
    assert "unreadable_call" in parse_turn(f"<think>a</think>{call(deep)}").problems


UNITS = (
    *(
        "<tool_call>", '<tool_call>{"', "<tool_call>{a:'b',", "<tool_call>{}<code>", '<tool_call>[{"a":', "<tool_call>[{",
        "<answer>",
    ),
    *("<answer></answer>", "<think>", "</think>", "<think>a</think>", '{"a":[', '<tool_call>"name":', " ", "\x00", "a"),
)  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("think_open", [True, False])
def test_a_megabyte_of_anything_is_read_in_one_pass(unit: str, think_open: bool) -> None:
    # A quadratic step would take minutes here, so it would be noticed without a stop watch.
    size = 1_000_000 // len(unit)
    assert not parse_turn(unit * size, think_open=think_open).calls
    assert not parse_turn("<tool_call>" + unit * size, think_open=think_open).calls


BITS = [SEARCH, VISIT, *'{}["\\', "'", "Lisbon", "\n", "\x00", "，", "{'name': 'a'}", "{name:'a',arguments:'{}'}"]


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(TAGS + BITS) | st.text(max_size=5), max_size=25).map("".join)), st.booleans()
)
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
