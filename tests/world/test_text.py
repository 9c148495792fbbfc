"""Words of texts: terms, the fast way to them, sentences and what is text at all."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.text import (
    clean,
    index_text,
    query_terms,
    query_words,
    sentences,
)

# Terms


@given(st.text(max_size=80))
def test_query_terms_of_a_text_are_among_its_index_terms(text):
    assert set(query_terms(text, 1000)) <= set(index_text(text).split())
    assert set(query_words(text, 1000)) <= set(index_text(text).split())


@given(st.text(st.characters(codec=None), max_size=200))
def test_clean_text_can_be_written(text):
    assert len(clean(text).encode("utf-8").decode("utf-8")) == len(text)
    assert clean("a\x00\ud800b") == "a\ufffd?b"


def test_sentences():
    assert sentences("Dr. J. Bel left. She came back in 1903. 東京です。大阪です。") == [
        "Dr. J. Bel left.", "She came back in 1903.", "東京です。", "大阪です。",
    ]  # fmt: skip
    assert sentences("") == []
    assert sentences("Prof. Bel wrote vol. III. (A. No, Geo. Mrs. Orr cf. St. Ivo.) 5.5 km.") == [
        "Prof. Bel wrote vol. III.", "(A. No, Geo.", "Mrs. Orr cf. St. Ivo.)", "5.5 km.",
    ]  # fmt: skip


WORDS = ["cities", "CLASSES ", "buses", "Toes", "ies", "xies", "us ", "gas", "s", "es ", "aies", "eies ", "'s", "12s "]
CHARACTERS = ["é", "ß", "’s", "東", "京 ", "½", "⑴", "\ufdfa", "\u037a", "\u0301", "İ", "ſ", "🙂", "_", " ", "\n", "\t", "-"]
MARKDOWN = ["**", "__", "# ", "* ", "> ", "`", "[a](b)", "](", '[x](c "t")', ".", "! ", '?" ', "。", "」", "Dr. ", "A. "]
PIECES = st.one_of(st.text(max_size=4), st.sampled_from([*WORDS, *CHARACTERS, *MARKDOWN]))
TEXTS = st.lists(PIECES, max_size=14).map("".join)

SENTENCE_END = re.compile(r"[.!?][\"')\]»”’]*\s+(?=[^a-z\s])|[。！？]+[」』”’）]*\s*")


@given(TEXTS)
def test_sentences_hold_the_whole_line_and_end_where_the_pattern_says(text):
    parts = sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    ends = {text[: match.end()].rstrip()[-1:] for match in SENTENCE_END.finditer(text)}
    assert {part[-1] for part in parts[:-1]} <= ends
