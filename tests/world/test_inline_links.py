"""Links in a page's text: found whole, priced with their addresses, read by their words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.cutting import Prices, affordable, as_read, find_links
from sanderling.world.text import word_count


@pytest.mark.parametrize(
    ("text", "links", "read"),
    [
        ("see [a town](https://w.example/Orlo_(town)) now", ["[a town](https://w.example/Orlo_(town))"], "see a town now"),
        ("[x](https://w.example/a_(b_(c)_d)[1])!", ["[x](https://w.example/a_(b_(c)_d)[1])"], "x!"),
        ("[a [b] c](u) [d](<v w>)", ["[a [b] c](u)", "[d](<v w>)"], "a [b] c d"),
        ('![alt](i.png "The (title)") t', ['![alt](i.png "The (title)")'], "alt t"),
        ("[![logo](https://w.example/i.png)](https://w.example/)", None, "logo"),
        ("[https://w.example/x](https://w.example/x) is", None, " is"),
        ("go to https://w.example/a?b=(c) or www.x.example.", ["https://w.example/a?b=(c)", "www.x.example."], "go to  or "),
        ("見https://w.example/a東京", ["https://w.example/a"], "見東京"),
        (r"[a\]b](u\)v) c", [r"[a\]b](u\)v)"], r"a\]b c"),
        ("[two\nlines](u)", ["[two\nlines](u)"], "two\nlines"),
        ("[no\n\nlink](u)", [], "[no\n\nlink](u)"),
        ("[no](a b) [1] (x) ](u) [open(u)", [], "[no](a b) [1] (x) ](u) [open(u)"),
        ("[](u)", ["[](u)"], ""),
    ],
)
def test_what_is_a_link_and_what_is_read_of_it(text: str, links: list[str] | None, read: str) -> None:
    found = [text[link.start : link.end] for link in find_links(text)]
    if links is None:
        assert len(found) == 1 and text.startswith(found[0])
    else:
        assert found == links
    assert as_read(text) == read


def test_an_address_costs_a_word_for_four_characters_and_never_less_than_its_words() -> None:
    hexes = "https://w.example/0123456789abcdef0123456789abcdef"  # 50 characters, 4 words
    assert Prices(f"[two words]({hexes}) and").whole == 2 + 13 + 1
    assert Prices(hexes).whole == 13
    letters = "https://w.ex/a/b/c/d/e/f"  # 24 characters, 9 words
    assert Prices(f"[x]({letters})").whole == 1 + 9
    assert Prices("plain words only").whole == 3


def test_what_is_too_dear_loses_its_address() -> None:
    text = f"before ![a graph](data:image/png;base64,{'A' * 4_000}) and [w](https://w.example/x) after"
    assert affordable(Prices(text), 50).text == "before a graph and [w](https://w.example/x) after"
    cheap = Prices("a [w](https://w.example/x)")
    assert affordable(cheap, 50) is cheap


BITS = [
    "word",
    "[",
    "]",
    "(",
    ")",
    "](",
    "![",
    "https://w.example/a_(b)",
    "\\",
    "\n",
    "\n\n",
    "# H\n",
    " ",
    '"t"',
    "<",
    ">",
    "東",
    ".",
]
NOISE = st.lists(st.sampled_from(BITS), max_size=60).map("".join)


@given(NOISE)
def test_links_are_in_order_apart_and_have_a_price(text: str) -> None:
    prices = Prices(text)
    ends = [0, *(link.end for link in prices.links)]
    assert all(end <= link.start < link.end for end, link in zip(ends, prices.links, strict=False))
    assert prices.whole >= word_count(text)
    for link in prices.links:
        inside = range(link.start + 1, link.end)
        assert prices.may_cut(link.start) and not any(prices.may_cut(place) for place in inside)
        assert not re.search(r"\n\s*\n", text[link.start : link.end])


@pytest.mark.parametrize(
    "bit", ["[", "](", "[](", "[a](b", "https://", "\n", "[[a](b)", "\\", "![", "[a](((", "(((", "[a]( ", "[\n"]
)
def test_noise_takes_time_in_line_with_its_length(bit: str) -> None:
    """Not a matter of seconds: a search that goes back and forth over this would take hours."""
    noise = bit * (400_000 // len(bit))
    assert all(0 <= link.start < link.end <= len(noise) for link in Prices(noise).links)
