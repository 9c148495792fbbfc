"""The strict check: every violation on its own, and agreement with the parser on what is well formed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.parse import parse_turn

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


TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<tool_response>", "<code>"]
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
