"""Terms as Milvus is sent them: ASCII words that every tokenizer leaves whole, one for each of ours, cut where a field ends."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.milvus.client import encoded, in_parts
from sanderling.world.text import index_terms


@given(st.text(max_size=80))
def test_each_term_is_one_word_and_different_terms_stay_different(text: str) -> None:
    terms = index_terms(text)
    field, whole = encoded(" ".join(terms))
    assert whole and re.findall(r"[a-z0-9]+", field) == field.split()
    assert len(field.split()) == len(terms)
    assert len(set(field.split())) == len(set(terms))


def test_what_does_not_fit_is_cut_between_words_and_told() -> None:
    field, whole = encoded(" ".join(f"word{number}" for number in range(20_000)))
    assert not whole and len(field) <= 65_535 and field.endswith(" word7404")
    assert encoded("x" * 70_000) == ("x" * 65_535, False)


def test_parts_make_the_text_again() -> None:
    text = "字a" * 20_000
    parts = in_parts(text)
    assert "".join(parts) == text and all(len(part.encode()) <= 65_535 for part in parts)
    assert in_parts("") == []
    with pytest.raises(UserError, match="too long for Milvus"):
        in_parts("a" * 17_000_000)
