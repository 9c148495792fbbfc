"""Reading a page on: parts hold every passage once, within the budget, links whole, and are asked for by a fragment."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, page_address, part_address
from sanderling.world.contract import Occasion, Page, answered
from sanderling.world.cutting import Prices, find_links, split_page
from sanderling.world.faults.profiles import CALM, FaultProfile, Latency, PageNoise, VisitFaults
from sanderling.world.faults.world import FaultyWorld, Made, made_url
from sanderling.world.filters import MaskedWorld
from sanderling.world.local import LocalWorld
from sanderling.world.passages import extract

URL = "https://w.example/Long_(page)"


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("https://w.example/x#page=2", 2), ("https://w.example/x#page=007", 7), ("x#zoom=50&page=3&view=Fit", 3),
        ("x#page=999999999", 999_999_999), (" x#page=2 ", 2),
        ("x", 0), ("x?page=2", 0), ("x#page=0", 0), ("x#page=-1", 0), ("x#page=two", 0), ("x#page=２", 0), ("x#mypage=2", 0),
        ("x#page=2.5", 0), ("x#page=", 0), ("x#page=99999999999", 0), ("x#page=2#y", 0), ("#page=2", 2), ("", 0),
    ],
)  # fmt: skip
def test_which_part_an_address_asks_for(url: str, part: int) -> None:
    assert asked_part(url) == part
    assert asked_part(page_address(url)) == 0
    assert asked_part(part_address(url, 5)) == 5


def paragraph(number: int) -> str:
    return f"Paragraph {number} has [a link](https://w.example/p_({number})) and ten words or a few more, to be sure."


LONG = "# Long\n\n" + "\n\n".join((f"## Section {n}\n\n" if n % 5 == 0 else "") + paragraph(n) for n in range(60))
WORLD = LocalWorld.in_memory([Page(url=URL, title="Long", text=LONG)], name="t")


def test_parts_end_between_paragraphs_and_headings_go_with_theirs() -> None:
    parts = split_page(LONG, 100)
    assert len(parts) > 10 and "".join(parts) == LONG
    for part in parts:
        assert part.strip().startswith(("#", "Paragraph")) and part.strip().endswith("to be sure.")
        assert not part.strip().splitlines()[-1].startswith("#")


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


def test_a_goal_is_served_by_link_words_not_by_addresses() -> None:
    filler = "The old road runs past fields and farms where nothing happens for many miles. " * 4
    text = f"Top.\n\nSee [this](https://kestrel.example/kestrel).\n\n{filler}\n\nSee [the kestrel](https://w.example/1).\n\n{filler}"
    assert extract(text, "kestrel", 30).text == "Top.\n\nSee [the kestrel](https://w.example/1)."


def test_a_visit_asks_for_a_part_by_its_address() -> None:
    whole = answered(WORLD.visit(URL, max_words=5_000))
    assert (whole.part, whole.parts, whole.text) == (1, 1, LONG)
    first = answered(WORLD.visit(f"{URL}#page=1", "paragraph 50", max_words=200))
    again = answered(WORLD.visit("http://W.example/Long_%28page%29/#page=1", max_words=200))
    assert first.text == again.text and first.url == URL and first.part == 1
    texts = [answered(WORLD.visit(part_address(URL, n), max_words=200)).text for n in range(1, first.parts + 1)]
    assert "\n\n".join(texts) == LONG
    past = answered(WORLD.visit(part_address(URL, first.parts + 1), max_words=200))
    assert (past.status, past.text, past.part, past.parts) == (ToolStatus.NOT_FOUND, "", first.parts + 1, first.parts)


def test_an_extract_says_how_long_the_page_is() -> None:
    parts = answered(WORLD.visit(f"{URL}#page=1", max_words=200)).parts
    chosen, top = (answered(WORLD.visit(URL, goal, max_words=200)) for goal in ("paragraph 50", ""))
    assert (chosen.part, chosen.parts) == (0, parts)
    assert (top.part, top.parts) == (1, parts)
    missing = answered(WORLD.visit("https://w.example/none#page=2"))
    assert (missing.status, missing.part, missing.parts) == (ToolStatus.NOT_FOUND, 1, 1)


def test_parts_of_masked_pages_do_not_exist_and_lose_links_to_masked_ones() -> None:
    masked = Occasion(masked=frozenset({"https://w.example/p_(17)"}))
    for world in (WORLD, MaskedWorld(WORLD)):
        part = answered(world.visit(f"{URL}#page=2", max_words=200, occasion=masked))
        assert part.part == 2 and "p_(17)" not in part.text and "Paragraph 17 has a link and" in part.text
        hidden = answered(world.visit(f"{URL}#page=2", occasion=Occasion(masked=frozenset({URL}))))
        assert (hidden.status, hidden.parts) == (ToolStatus.NOT_FOUND, 1)


def test_parts_pass_through_dynamics() -> None:
    calm = FaultyWorld(WORLD, CALM, seed=3)
    reply = answered(calm.visit(f"{URL}#page=2", max_words=200))
    assert (reply.part, reply.text) == (2, answered(WORLD.visit(f"{URL}#page=2", max_words=200)).text)
    copy = made_url(Made.COPY, URL, 0.1)
    copied = answered(calm.visit(f"{copy}#page=2", max_words=200))
    assert (copied.url, copied.part, copied.text) == (copy, 2, reply.text)
    spam = made_url(Made.SPAM, "tidal flats", 0.1)
    assert answered(calm.visit(spam)).parts == 1
    assert answered(calm.visit(f"{spam}#page=2")).status is ToolStatus.NOT_FOUND


def test_a_lost_page_is_lost_in_every_part_and_each_part_has_delays_of_its_own() -> None:
    lost = FaultyWorld(WORLD, FaultProfile(name="lost", visit=VisitFaults(gone=1.0)))
    for part in (1, 2, 9_999):
        assert answered(lost.visit(part_address(URL, part), max_words=200)).status is ToolStatus.GONE
    slow = FaultyWorld(WORLD, FaultProfile(name="slow", visit_latency=Latency(median_s=1.0, p95_s=9.0)))
    assert len({answered(slow.visit(part_address(URL, part), max_words=200)).latency_s for part in range(1, 6)}) == 5


def test_a_stale_page_is_stale_in_every_part() -> None:
    text = "\n\n".join(f"Paragraph {n} was written in {1990 + n // 30}. Nothing else of note happened here." for n in range(60))
    url = "https://w.example/years"
    world = LocalWorld.in_memory([Page(url=url, title="Years", text=text)], name="t")
    stale = FaultyWorld(world, FaultProfile(name="stale", pages=PageNoise(stale=1.0)))
    parts = [answered(stale.visit(part_address(url, n), max_words=200)).text for n in range(1, 4)]
    assert "1990" in parts[0] and not re.search("1991", "".join(parts))
