"""What becomes the protocol's text, what is kept raw, and that nothing is left out; golden cases hold each layout."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_files import SEARCH, SEEN, TALK, called, codes, kinds, read

from sanderling.core.record import NodeKind
from sanderling.data.messages import read_message

# -- messages -------------------------------------------------------------------------------------------------------------


ODD_MESSAGES = [
    None, "text", 3, [], {}, {"role": "user"}, {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]},
    {"role": "narrator", "content": "be nice"}, {"role": ["user"], "content": "x"},
    {"role": "user", "content": [{"type": "image", "url": "x"}]}, {"type": "assistant", "think": 3},
    {"type": "assistant", "tool_calls": [{"queries": []}]}, {"type": "memory", "content": "x"},
]  # fmt: skip
STEPS = [
    {"type": "question", "content": "Question:why?"},
    {"type": "assistant", "think": "hm", "tool_calls": [{"name": "search", "queries": ["a", 'b"']}], "answer": None},
    {"type": "tool_response", "content": SEEN},
    {"type": "assistant", "think": "", "tool_calls": [{"name": "visit", "urls": ["u"], "goal": "g"}], "answer": None},
    {"type": "tool_response", "content": SEEN},
    {"type": "assistant", "think": "ok", "tool_calls": [], "answer": "42"},
]


@pytest.mark.parametrize("odd", ODD_MESSAGES)
@pytest.mark.parametrize("field", ["messages", "steps"])
def test_what_is_not_understood_is_kept_raw(tmp_path: Path, odd: Any, field: str) -> None:
    before: list[Any] = TALK if field == "messages" else STEPS
    (t,), report = read(tmp_path, {"cases": [{field: [*before, odd]}]})
    last = t.nodes[-1]
    assert len(t.nodes) == len(before) + 1 == report.messages
    assert last.kind is NodeKind.RAW and last.raw == (odd if isinstance(odd, dict) else {"message": odd})
    assert report.raw == 1 and all(report.examples[code] for code in report.odd)


KEYS = ["type", "role", "content", "text", "value", "id", "tool_calls", "output", "from"]
WORDS = st.sampled_from(["human", "assistant", "user", "tool", "tool_result", "tool_use", "reasoning", "text"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner | WORDS, max_size=5),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_is_one_message(value: Any) -> None:
    assert read_message(value).original == value


def test_sharegpt_with_calls_of_their_own(tmp_path: Path) -> None:
    bare = '{"name": "search", "arguments": {"query": ["b"]}}'
    says = [("human", "why?"), ("gpt", SEARCH), ("observation", SEEN), ("function_call", bare), ("observation", "x")]
    says += [("function_call", "no json"), ("stranger", "who?"), ("gpt", "42")]
    (t,), report = read(tmp_path, {"conversations": [{"from": who, "value": text} for who, text in says], "system": "sys"})
    assert kinds(t) == ["system", "question", "turn", "observation", "turn", "observation", "turn", "raw", "turn"]
    assert called(t) == [("search", {"query": ["a"]}), ("search", {"query": ["b"]})] and t.answer == "42"
    assert {"odd_tool_calls": 1, "answer_without_tags": 1, "unknown_role": 1}.items() <= codes(report).items()


def test_content_in_parts_is_joined_and_what_is_no_text_left_out(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "why"}, {"type": "image_url", "image_url": "u"}, "?"]
    (t,), report = read(tmp_path, {"messages": [{"role": "user", "content": parts}, *TALK[1:]]})
    assert t.question.text == "why?" and t.nodes[0].raw == {"role": "user", "content": parts}
    assert codes(report) == {"content_in_parts": 1, "parts_left_out": 1}
