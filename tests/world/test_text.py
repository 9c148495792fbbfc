"""Words of texts: terms, the fast way to them, sentences and what is text at all."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.text import (
    WORD,
    clean,
    flow,
    index_text,
    is_cjk,
    normal,
    plain,
    query_terms,
    sentences,
    spans,
    word_count,
    words,
)

# Terms


@given(st.text(max_size=80))
def test_query_terms_of_a_text_are_among_its_index_terms(text):
    assert set(query_terms(text, 1000)) <= set(index_text(text).split())


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


@given(st.text(max_size=300))
def test_flow_places_every_word(text):
    laid_out = flow("T", text)
    for term, start, end in zip(laid_out.terms.split(), laid_out.starts, laid_out.ends, strict=True):
        assert words(laid_out.text[start:end]) == [term]


WORDS = ["cities", "CLASSES ", "buses", "Toes", "ies", "xies", "us ", "gas", "s", "es ", "aies", "eies ", "'s", "12s "]
CHARACTERS = ["é", "ß", "’s", "東", "京 ", "½", "⑴", "\ufdfa", "\u037a", "\u0301", "İ", "ſ", "🙂", "_", " ", "\n", "\t", "-"]
MARKDOWN = ["**", "__", "# ", "* ", "> ", "`", "[a](b)", "](", '[x](c "t")', ".", "! ", '?" ', "。", "」", "Dr. ", "A. "]
PIECES = st.one_of(st.text(max_size=4), st.sampled_from([*WORDS, *CHARACTERS, *MARKDOWN]))
TEXTS = st.lists(PIECES, max_size=14).map("".join)

LINK = re.compile(r"\[([^\[\]]*)\]\(((?:[^()\s]|\([^()\s]*\))*)(?:\s+\"[^\"]*\")?\)")
IMAGE = re.compile("!" + LINK.pattern)
MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|[*+\-][ \t]+|>[ \t]?)|[*_]{2,3}|`+", re.MULTILINE)
SENTENCE_END = re.compile(r"[.!?][\"')\]»”’]*\s+(?=[^a-z\s])|[。！？]+[」』”’）]*\s*")


@given(TEXTS)
def test_words_are_the_normal_forms_of_what_the_pattern_finds(text):
    assert words(text) == [normal(word) for word in WORD.findall(text)]
    assert words("plain words " * 20 + text) == ["plain", "word"] * 20 + words(" " + text)
    assert word_count(text) == len(words(text))


@given(TEXTS)
def test_spans_are_the_places_of_the_words(text):
    found = list(WORD.finditer(text))
    starts, ends = spans(text)
    assert list(zip(starts, ends, strict=True)) == [match.span() for match in found]


@given(TEXTS)
def test_plain_text_is_markdown_without_addresses_and_marks(text):
    read = MARK.sub("", LINK.sub(r"\1", IMAGE.sub(r"\1", text)))
    assert plain(text) == read
    assert words(plain(text, lines=False)) == words(read)


@given(TEXTS)
def test_sentences_hold_the_whole_line_and_end_where_the_pattern_says(text):
    parts = sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    ends = {text[: match.end()].rstrip()[-1:] for match in SENTENCE_END.finditer(text)}
    assert {part[-1] for part in parts[:-1]} <= ends


@given(TEXTS)
def test_what_is_indexed_is_words_and_pairs(text):
    found = words(text)
    pairs = [a + b for a, b in pairwise(found) if is_cjk(a) and is_cjk(b)]
    assert index_text(text).split() == found + pairs
