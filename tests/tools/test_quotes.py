"""Quotes stand in the page or are dropped: what makes a difference and what does not; what is shown is the page's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_page_reader import TEXT

from sanderling.tools.page_reader import PageText
from sanderling.world.cutting import find_links

PAGE = PageText(TEXT)


@pytest.mark.parametrize(
    ("quote", "own"),
    [
        ("Orlo is a town by the sea.", "Orlo is a town by the sea."),
        ("“Orlo is a  town\nby the sea”", "Orlo is a town by the sea"),
        ("founded the town hall in 1903 with Ivo Kern.", None),
        ("founded the town hall in 1903 with [Ivo Kern](https://w.example/Ivo_(mason))", None),
        ('It burnt down in 1911 - and was "rebuilt" by 1920.', "It burnt down in 1911 — and was “rebuilt” by 1920."),
        ("Herring is sold at the cafe\u0301", "Herring   is\nsold at the café"),
        ("1911 7", "1911 | 7"),
        ("| 1911 | 7 |", "1911 | 7"),
        ("**Orlo** is a town", "Orlo is a town"),
    ],
)
def test_a_quote_is_given_back_as_it_stands(quote: str, own: str | None) -> None:
    stretches, missed = PAGE.stretches(quote)
    (passage,) = PAGE.passages(stretches)
    assert missed == 0
    if own is None:
        assert passage.startswith("founded the town hall") and "[Ivo Kern](https://w.example/Ivo_(mason))" in passage
    else:
        assert passage == own


@pytest.mark.parametrize("quote", ["Orlo ... was founded ... 1911", "Orlo\nsea\n1911", "Orlo. 1911. Herring."])
def test_nothing_is_put_together_of_single_words(quote: str) -> None:
    stretches, missed = PAGE.stretches(quote)
    assert not stretches and missed == 3


BITS = st.lists(
    st.sampled_from(
        ["alpha", "Beta.", "“x”", "é", "e\u0301", "—", "\n\n", " ", "[w](https://w.example/a_(b))", "|", "東京", "ﬁ", "*b*"]
    ),
    max_size=30,
).map("".join)


@given(BITS, st.data())
def test_any_stretch_between_words_is_found_and_is_the_pages_own(text: str, data: st.DataObject) -> None:
    borders = [0, *(i for i in range(1, len(text)) if text[i - 1].isspace() or text[i].isspace()), len(text)]
    borders = [b for b in borders if not any(link.start < b < link.end for link in find_links(text))]
    start, end = sorted((data.draw(st.sampled_from(borders)), data.draw(st.sampled_from(borders))))
    page = PageText(text)
    stretches, missed = page.stretches(text[start:end])
    if any(char.isalnum() for char in text[start:end]):
        assert stretches and not missed
    assert all(passage in text for passage in page.passages(stretches))
