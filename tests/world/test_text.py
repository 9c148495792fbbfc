"""Words of texts: terms, the fast way to them, sentences and what is text at all."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.text import (
    WORD,
    clean,
    content_terms,
    flow,
    index_text,
    is_cjk,
    is_text,
    normal,
    plain,
    query_terms,
    sentences,
    spans,
    word_count,
    words,
)

# Terms


def test_words_are_folded_alike_in_texts_and_queries():
    assert words("Kroměříž ＡＢＣ Cities' cafés") == ["kromeriz", "abc", "city", "cafe"]
    assert words("cafe\u0301s") == ["cafe"]
    assert content_terms("Who was the founder of the city of Orlo?", 10) == ("founder", "city", "orlo")
    assert content_terms("who was the", 10) == ("who", "was", "the")
    assert content_terms("a1 a2 a3 a2", 2) == ("a1", "a2")


def test_scripts_without_spaces_are_characters_and_pairs():
    assert index_text("東京tower").split() == ["東", "京", "tower", "東京"]
    assert query_terms("東京都 tower", 9) == ("東京", "京都", "tower")
    assert query_terms("水", 9) == ("水",)


@given(st.text(max_size=80))
def test_query_terms_of_a_text_are_among_its_index_terms(text):
    assert set(query_terms(text, 1000)) <= set(index_text(text).split())


@given(st.text(st.characters(codec=None), max_size=200))
def test_clean_text_can_be_written(text):
    assert len(clean(text).encode("utf-8").decode("utf-8")) == len(text)
    assert clean("a\x00\ud800b") == "a\ufffd?b"


def test_noise_is_not_text():
    assert is_text("Plain text.\n\tWith tabs, 東京, emoji 🙂 and e\u0301.")
    assert is_text("")
    assert is_text("教授 副教授 师资队伍".encode().decode("latin-1"))
    assert not is_text("%PDF-1.4 \x00\x01\x02" * 20)
    assert not is_text("\ufffd\ufffd abc \ufffd")
    assert not is_text(bytes(range(256)).decode("latin-1") * 4)


def test_plain_drops_marks_and_keeps_words():
    assert plain("## Life\n* **Born** in [Orlo](https://a.example/Orlo_(town)) `x`") == "Life\nBorn in Orlo x"
    assert plain("[![a *map*](m.png)](https://a.example/m) ![b](c)") == "a *map* b"


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


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f", "\u0645\u062d\u0645\u062f"),
        ("\u0623\u062d\u0645\u062f", "\u0627\u062d\u0645\u062f"),
        ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
        ("\u0434\u0435\u043d\u044c\u0433\u0438\u0301", "\u0434\u0435\u043d\u044c\u0433\u0438"),
    ],
)
def test_points_that_a_writer_may_leave_out_make_no_difference(written, found):
    assert words(written) == words(found) and len(words(written)) == 1


def test_vowel_signs_are_part_of_their_word():
    hindi = "\u0939\u093f\u0928\u094d\u0926\u0940"
    assert words(f"{hindi} bread") == [hindi, "bread"]
    assert words(hindi) != words("\u0939\u0928\u0926")
    starts, ends = spans(f"a {hindi} b")
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [
        (0, 1),
        (2, 2 + len(hindi)),
        (3 + len(hindi), 4 + len(hindi)),
    ]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\u0301\u064b\u05b8\u093f\u0b3e水a \u0640"), max_size=60))
def test_every_word_has_its_place(text):
    starts, ends = spans(text)
    assert len(starts) == len(words(text))
    assert [words(text[start:end]) for start, end in zip(starts, ends, strict=True)] == [[word] for word in words(text)]


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
