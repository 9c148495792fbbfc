"""What tools returned is read in every layout in which this package writes it, and what others wrote is not taken for ours."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.observations import read_observation, read_result
from sanderling.core.profiles import ListedPage, ResultLayout, SearchBlock, results_text
from sanderling.core.record import Passage, ToolEvent
from sanderling.core.types import ToolStatus
from sanderling.tools.world_tools import cited_text, visit_text
from sanderling.world.contract import VisitReply

_WORDS = st.from_regex(r"[A-Za-z0-9'\"(\[\\é\t\ud800][A-Za-z0-9 '\"()\[\],.:\\-]{0,20}[a-z)]", fullmatch=True)
_TITLES = _WORDS.map(lambda words: " ".join(words.split()))
_SNIPPETS = st.lists(_WORDS.map(str.strip), min_size=1, max_size=3).map("\n\n".join)
_PAGES = st.builds(
    ListedPage, _TITLES, st.sampled_from(["https://a.example/x_(y)", "local://notes/k%20.md"]), _SNIPPETS,
    st.sampled_from(["", "2024-05-01"]),
)  # fmt: skip
_ERRORS = st.sampled_from(["", "The service is unreachable."])  # of one place of several
_LISTS = st.lists(st.builds(SearchBlock, _WORDS, st.lists(_PAGES, max_size=3).map(tuple), _ERRORS), min_size=1, max_size=3)


@given(_LISTS, st.sampled_from(ResultLayout))
def test_lists_of_results_are_read_as_they_were_written(lists: list[SearchBlock], layout: ResultLayout):
    if layout is not ResultLayout.JSON and layout is not ResultLayout.CITED:  # which do not tell of it beside results
        lists = [replace(found, error="") for found in lists]
    empty = "No results." if layout is ResultLayout.COMPACT else "The search found nothing; try other words."
    reading = read_observation(f"<tool_response>\n{results_text(lists, layout, empty=empty)}\n</tool_response>")
    if layout is ResultLayout.COMPACT:  # which tells neither queries nor dates
        lists = [SearchBlock("", tuple(replace(hit, date="") for hit in found.hits)) for found in lists]
    is_told = layout is not ResultLayout.COMPACT or any(found.hits for found in lists)
    assert list(reading.blocks) == (lists if is_told else [])
    assert reading.status is (ToolStatus.OK if any(found.hits for found in lists) or not is_told else ToolStatus.EMPTY)


BOOKS = "Smith, J.: A long survey of the river Kent and of all its mills, 2019.\nhttps://doi.example/10.1/kent"
REPLIES = [
    VisitReply("https://a.example/kent", "Kent", f"# Kent\n\nThe river Kent flows through Kendal.\n\n{BOOKS}", parts=3),
    VisitReply("https://a.example/none", "", "", ToolStatus.NOT_FOUND),
    VisitReply("local://notes/mill.md", "Mill", "The site of the mill, which Ann wrote of, lies at Kendal on the Kent."),
]
READ = [reply.url for reply in REPLIES if reply.text]


@pytest.mark.parametrize("layout", [ResultLayout.JSON, ResultLayout.MARKDOWN, ResultLayout.CITED])
def test_pages_are_read_with_their_addresses(layout: ResultLayout):
    text = cited_text(REPLIES)[0] if layout is ResultLayout.CITED else visit_text(REPLIES, "why", layout, parts=True)
    reading = read_observation(text, READ)
    assert [(page.url, page.dead) for page in reading.extracts] == [(reply.url, not reply.text) for reply in REPLIES]
    for page, reply in zip(reading.extracts, REPLIES, strict=True):
        assert page.dead or "".join(reply.text.split()) in "".join(page.evidence.split())
        assert layout is not ResultLayout.CITED or page.dead or page.title == reply.title
    assert layout is not ResultLayout.CITED or "(Passages" not in reading.extracts[0].text, "a note for the agent"


def test_passages_that_tools_told_are_the_page():
    passage = Passage(number=7, url=READ[0], title="Kent", text=REPLIES[0].text)
    event = ToolEvent(name="visit", role="visit", status=ToolStatus.OK, provenance=(READ[0],), passages=(passage,))
    text = f"<tool_response>\nKent\n{READ[0]}\n\n[7] {REPLIES[0].text}\n</tool_response>"
    (page,) = read_result(text, [event]).extracts
    assert (page.url, page.title, page.evidence) == (READ[0], "Kent", REPLIES[0].text)


@pytest.mark.parametrize("around", ["{}", "Page not found.\n\n{}", "{}\n\nPage blocked."])
def test_the_compact_layout_tells_a_page_only_where_its_address_is_known(around: str):
    text = around.format(visit_text(REPLIES[2:], "why", ResultLayout.COMPACT))
    assert read_observation(text).problems == ("unknown_layout",)
    (page,) = read_observation(text, READ[1:]).extracts
    assert (page.url, page.title, page.evidence) == (READ[1], "Mill", REPLIES[2].text)


@pytest.mark.parametrize(
    "text",
    [
        "Results for 'cats':\n1. Cats - https://cats.example/a\n   All about cats",
        "Results for 'C:\\Users\\ada':\nnone of ours",
        "Kendal Museum\nhttps://kendal.example/\nThe site of the museum holds 85 maps and is open all year.",
        f"Kent\nhttps://a.example/kent\n\nOf Kent:\n\n{BOOKS}\n\nmore",
        "[1] Kent\nDate:2020-01-01\nhttps://a.example/kent",
        "[2] Kent\nhttps://a.example/kent\nThe river.",
    ],
)
def test_what_others_wrote_is_not_taken_for_ours(text: str):
    reading = read_observation(text)
    assert not reading.extracts and not any(block.hits for block in reading.blocks)
    assert ("unknown_layout" in reading.problems and reading.status is ToolStatus.OK) or text.startswith("[")


@given(st.text(alphabet="Results for'\"\\xuU0:\n[]1- ahtps/.\ud800\r\0"), st.booleans())
def test_no_text_raises(text: str, begun: bool):
    for one in (text, f"Results for '{text}':\n", f"[1] {text}", f"T\nhttps://a.example/\n{text}"):
        read_observation(one, ["https://a.example/"] * begun)
