"""The normal form of questions: what is folded away, and what keeps two questions apart."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sanderling.core.text import folded, normalised
from sanderling.data.dedupe import QA, question_groups

ODD = st.text(
    st.one_of(st.sampled_from("a5cC+#-−–.,'’/*^%$€ &;\u0301\u0327\u0338²½\u200b\u00ad京٥٫٬♯⁄\"(😀\u0345ŉﬁ"), st.characters()),
    max_size=14,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "15"), ("1.5", "1 5"), ("1,5", "15"), (".5", "5"),
        ("-5", "5"), ("−5 °C", "5 °C"), ("-$5", "$5"), ("1.2.3", "123"),
        ("C++", "C"), ("C#", "C"), ("C++", "C#"), ("F♯", "F"),
        ("A+", "A"), ("5%", "5"), ("5‰", "5%"), ("$5", "5"), ("$5", "€5"),
        ("10²", "102"), ("10^2", "102"), ("1½", "11/2"),
        ("2+2", "22"), ("2+2", "2*2"), ("2/3", "2-3"), ("5'11", "511"),
        ("是-5", "是5"), ("20°", "20"), ("==", "==="), ("😀", "😭"),
        ("5 m", "5 km"), ("12:30", "1230"), ("٥", "٦"), ("👍🏽", "👍🏿"),
    ],
)  # fmt: skip
def test_what_makes_another_question(one: str, other: str) -> None:
    asked = [QA(f"What is {text} good for in this case?") for text in (one, other, one.upper())]
    assert normalised(asked[0].text) != normalised(asked[1].text)
    assert normalised(asked[0].text) == normalised(asked[2].text)
    assert question_groups([QA(one), QA(other)]) == [0, 1]


@settings(max_examples=500)
@example("C.\u0327")  # without the full stop the mark stands on its letter
@example("0:^¢")
@given(ODD)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_for_ascii_is_the_general_one(text: str) -> None:
    assert folded(text + "\u200b") == folded(text)


PLAIN = st.text("abcXYZ 0123456789.,-+#%/京", max_size=30)


@given(PLAIN, st.data())
def test_another_digit_is_another_question(text: str, data: st.DataObject) -> None:
    places = [place for place, char in enumerate(text) if char.isdigit()]
    if places:
        place = data.draw(st.sampled_from(places))
        other = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != text[place]]))
        assert normalised(text[:place] + other + text[place + 1 :]) != normalised(text)


@given(PLAIN)
def test_dress_changes_nothing(text: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    for same in (text.upper(), text.lower(), f" “{text}”?! ", text.replace(" ", "\u00a0 \t"), "\u200b".join(text), wide):
        assert normalised(same) == normalised(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("–5", "-5"), ("1,234,567.5", "1234567.5"), (".5", "0.5"),
        ("５ ％", "5%"), ("F♯", "F#"), ("C++17", "C++ 17"), ("٥", "5"),
        ("“Who”", "'who'"), ("AT&amp;T &lt;3", "AT&T <3"),
        ("&#67;&#x2B;+", "c++"), ("it\u00adem\u200b", "item"), ("e\u0301", "é"),
        ("❤️", "❤"), ("what’s", "what's"), ("1914–1918", "1914-1918"),
        ("\u200fשלום", "שלום"), ("H₂O", "H2O"), ("Who?!", "who"),
        ("１０２", "102"), ("A\tb\n c", "a b c"), ("كتـــاب", "كتاب"), ("10⁵", "10^5"),
    ],
)  # fmt: skip
def test_what_is_the_same_question_in_other_dress(one: str, other: str) -> None:
    assert normalised(f"Is it {one} or not") == normalised(f"is it {other} OR NOT")
