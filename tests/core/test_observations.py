"""What tools returned is read in every layout in which this package writes it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.observations import read_observation
from sanderling.core.profiles import ListedPage, ResultLayout, SearchBlock, results_text
from sanderling.core.types import ToolStatus
from sanderling.tools.world_tools import cited_text, visit_text
from sanderling.world.contract import VisitReply

_WORDS = st.from_regex(r"[A-Za-z0-9'\"(\[][A-Za-z0-9 '\"()\[\],.:-]{0,20}[a-z)]", fullmatch=True)
_DATES = st.sampled_from(["", "2020", "2024-05-01"])
_PAGES = st.builds(ListedPage, _WORDS, st.sampled_from(["https://a.example/x_(y)", "local://notes/k%20.md"]), _WORDS, _DATES)
_LISTS = st.lists(st.builds(SearchBlock, _WORDS, st.lists(_PAGES, max_size=3).map(tuple)), min_size=1, max_size=3)


@given(_LISTS, st.sampled_from(ResultLayout))
def test_lists_of_results_are_read_as_they_were_written(lists: list[SearchBlock], layout: ResultLayout):
    empty = "No results." if layout is ResultLayout.COMPACT else "The search found nothing; try other words."
    reading = read_observation(f"<tool_response>\n{results_text(lists, layout, empty=empty)}\n</tool_response>")
    if layout is ResultLayout.COMPACT:  # which tells neither queries nor dates
        lists = [SearchBlock("", tuple(replace(hit, date="") for hit in found.hits)) for found in lists]
    if lists[0].hits or layout is not ResultLayout.COMPACT:
        assert list(reading.blocks) == lists and not reading.problems
    assert reading.status is ToolStatus.EMPTY or any(found.hits for found in lists) or layout is ResultLayout.COMPACT


REPLIES = [
    VisitReply("https://a.example/kent", "Kent", "# Kent\n\nThe river Kent flows through Kendal, a mill town.", parts=3),
    VisitReply("https://a.example/none", "", "", ToolStatus.NOT_FOUND),
    VisitReply("local://notes/mill.md", "Mill", "See\n\nhttps://a.example/kent\n\nand the letter that Ann wrote of the mill."),
]


@pytest.mark.parametrize("layout", [ResultLayout.JSON, ResultLayout.MARKDOWN, ResultLayout.CITED])
def test_pages_are_read_with_their_addresses(layout: ResultLayout):
    text = cited_text(REPLIES)[0] if layout is ResultLayout.CITED else visit_text(REPLIES, "why", layout, parts=True)
    reading = read_observation(text)
    assert [(page.url, page.dead) for page in reading.extracts] == [(reply.url, not reply.text) for reply in REPLIES]
    for page, reply in zip(reading.extracts, REPLIES, strict=True):
        assert page.dead or "".join(reply.text.split()) in "".join(page.evidence.split())
        assert layout is not ResultLayout.CITED or page.dead or page.title == reply.title
    assert layout is not ResultLayout.CITED or "Part" not in reading.extracts[0].text, "a note for the agent is no page's text"


def test_the_compact_layout_tells_a_page_only_where_its_address_is_known():
    text = visit_text(REPLIES[2:], "why", ResultLayout.COMPACT)
    assert read_observation(text).problems == ("unknown_layout",)
    (page,) = read_observation(text, [REPLIES[2].url]).extracts
    assert (page.url, page.title, page.evidence) == (REPLIES[2].url, "Mill", REPLIES[2].text)
