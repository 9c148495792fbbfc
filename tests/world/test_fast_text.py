"""The fast forms of tokenisation and layout say exactly what their plain definitions say, for any text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.text import WORD, index_terms, normal, pairs, plain, sentences, spans, spoken, word_count, words

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


def test_every_character_is_a_word_or_none_in_both_forms():
    for first in range(0, 0x3100, 8):
        text = " a".join(map(chr, range(first, first + 8)))
        assert len(spans(text)[0]) == len(words(text)) == len(WORD.findall(text)), hex(first)


@given(TEXTS)
def test_plain_text_is_markdown_without_addresses_and_marks(text):
    read = MARK.sub("", LINK.sub(r"\1", IMAGE.sub(r"\1", text)))
    assert plain(text) == read
    assert words(spoken(text)) == words(read)


@given(TEXTS)
def test_sentences_hold_the_whole_line_and_end_where_the_pattern_says(text):
    parts = sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    ends = {text[: match.end()].rstrip()[-1:] for match in SENTENCE_END.finditer(text)}
    assert {part[-1] for part in parts[:-1]} <= ends


@given(TEXTS)
def test_what_is_indexed_is_words_and_pairs(text):
    found = words(text)
    assert index_terms(text) == found + pairs(found)
