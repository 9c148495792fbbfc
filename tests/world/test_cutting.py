"""Where pages are cut and what links cost, of ordinary pages and of hostile ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.cutting import Prices, find_links, split_page
from sanderling.world.passages import extract

# Parts


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
