"""Where pages are cut and what links cost, of ordinary pages and of hostile ones."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.contract import Page
from sanderling.world.cutting import Prices, affordable, find_links, split_page
from sanderling.world.local import LocalWorld
from sanderling.world.passages import extract
from sanderling.world.text import word_count

# Parts


URL = "https://w.example/Long_(page)"


def paragraph(number: int) -> str:
    return f"Paragraph {number} has [a link](https://w.example/p_({number})) and ten words or a few more, to be sure."


LONG = "# Long\n\n" + "\n\n".join((f"## Section {n}\n\n" if n % 5 == 0 else "") + paragraph(n) for n in range(60))
WORLD = LocalWorld.in_memory([Page(url=URL, title="Long", text=LONG)], name="t")


def test_what_is_longer_than_the_budget_is_cut_between_sentences_then_words() -> None:
    text = (
        "One two three four. Five six seven eight. Nine [ten](https://w.example/a.b) eleven twelve thirteen fourteen fifteen."
    )
    assert [part.strip() for part in split_page(text, 8)] == [
        "One two three four. Five six seven eight.",
        "Nine [ten](https://w.example/a.b)",
        "eleven twelve thirteen fourteen fifteen.",
    ]
    assert [part.strip() for part in split_page("word " * 10, 4)] == ["word word word word"] * 2 + ["word word"]
    assert split_page("", 5) == ("",)


WORDS = ["alpha", "Beta.", "(gamma)", "東京。", "\n", "\n\n", "\n\n## Head\n\n", "- ", "| a | b |\n", "[", "](", "!", "x y z"]
LINKS = [
    "[one](https://w.example/One_(disambiguation))",
    "[two [2]](https://w.example/a_(b_(c))?q=[1]&r=2)",
    "![three. Three](<i (1).png>)",
    "[Four. Five six seven](https://w.example/four#five)",
    "https://bare.example/a,b;c_(d).",
]
MESSY = st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(LINKS)), max_size=60).map(" ".join)


@given(MESSY, st.integers(1, 60))
def test_parts_hold_every_passage_once_within_the_budget(text: str, most: int) -> None:
    parts = split_page(text, most)
    prices = [Prices(part) for part in parts]
    assert all(price.whole <= most for price in prices)
    dear = [link for link in find_links(text) if Prices(text).of(link.start, link.end) > most]
    if not dear:
        assert "".join(parts) == text
        shown = [price.text[link.start : link.end] for price in prices for link in price.links]
        assert shown == [text[link.start : link.end] for link in find_links(text)]


@given(MESSY, st.integers(1, 60), st.sampled_from(["", "alpha", "three", "bare example https", "東京 gamma"]))
def test_extracts_keep_links_whole_and_their_budget(text: str, most: int, goal: str) -> None:
    found = extract(text, goal, most)
    shown = Prices(found.text)
    assert shown.whole <= most
    original = {text[link.start : link.end] for link in find_links(text)}
    assert {found.text[link.start : link.end] for link in shown.links} <= original
    assert found.parts == (1 if found.text == text.strip() else len(split_page(text.strip(), most)))


def test_what_is_too_dear_loses_its_address() -> None:
    text = f"before ![a graph](data:image/png;base64,{'A' * 4_000}) and [w](https://w.example/x) after"
    assert affordable(Prices(text), 50).text == "before a graph and [w](https://w.example/x) after"
    cheap = Prices("a [w](https://w.example/x)")
    assert affordable(cheap, 50) is cheap


BITS = ["word", *"[]()<>.東 \\\n", "](", "![", "https://w.example/a_(b)", "\n\n", "# H\n", '"t"']
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


MANY = 100_000
BEGIN = "The first paragraph. " * 40 + "\n\n"


@pytest.mark.parametrize(
    "body",
    [
        "a|b\n" + " " * MANY + "x|\nc|d\n",
        "head | " * 20_000 + "\n|-|\n" + "a | b\n" * 20_000,
        "[ http://b.example " * 20_000 + "a" + "](c)" * 20_000,
    ],
    ids=["rule", "long head", "nested links"],
)
def test_extracts_and_parts_of_hostile_pages(body: str) -> None:
    found = extract(BEGIN + body, "paragraph", 100)
    assert found.text.startswith("The first paragraph.") and found.parts > 1
    parts = split_page((BEGIN + body).strip(), 100)
    assert len(parts) > 1 and parts[0].startswith("The first paragraph.")
