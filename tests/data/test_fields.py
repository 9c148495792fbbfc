"""Cells, lists written as text, and columns by role."""

import math
from typing import Any

import pytest

from sanderling.core.errors import UserError
from sanderling.data.questions import Fields, answer_list, named_columns, text_list


@pytest.mark.parametrize("value", ["['a' 'b']", "['a'\n 'b']", "['a', ", "['a', __import__('os')]"])
def test_what_is_no_list_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        answer_list(value)


def test_lists_are_flattened_once() -> None:
    assert text_list([["a", "b"], ["a"], "c", None, math.nan]) == ("a", "b", "c")
    with pytest.raises(ValueError):
        text_list([[["a"]]])
    with pytest.raises(ValueError):
        text_list({"a": 1})
    assert answer_list("['a', \"b\"]") == ("a", "b") == answer_list('["a", "b"]') and answer_list("[1, 5]") == ("[1, 5]",)


def fields(values: dict[str, Any], columns: str = "") -> Fields:
    return Fields(1, values, named_columns(columns))


def test_names_are_found_in_any_case_and_depth() -> None:
    found = fields(
        {"Question": "q", "Info": {"Level": [{"name": "hard"}]}, "text": '{"inner": {"Deep": 7}}', "a.b": "dotted", "": "5"}
    )
    assert found.text("question", "question") == "q" and found.text("x", "info.level.0.name") == "hard"
    assert found.text("x", "text.inner.deep") == "7" and found.text("x", "a.b") == "dotted" and found.text("x", "") == "5"
    assert found.get("info.level.3.name", "info.none", "nowhere") is None and not found.has("nowhere")
    assert fields({"Answer": "1", "ANSWER": "2"}).get("answer") is None, "two of them: neither is meant"
    assert fields({"Answer": "1", "answer": "2"}).get("answer") == "2"


@pytest.mark.parametrize("text", ["question", "question=", "=a", "questoin=a", "question=a,question=b", "zzz=a"])
def test_bad_columns_are_one_sentence(text: str) -> None:
    with pytest.raises(UserError):
        named_columns(text)
