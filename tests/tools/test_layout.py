"""Layouts: golden texts, whose JSON and Markdown shapes are those of the recorded systems."""

import json

import pytest

from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.tools.layouts import search_text, status_sentence, summary, visit_text
from sanderling.world.contract import SearchHit, SearchReply, VisitReply

HITS = (
    SearchHit(
        "Alien (film) [1979]", "https://en.wikipedia.org/wiki/Alien_(film)", "A film by Ridley Scott …", date="May 25, 1979"
    ),
    SearchHit("異形\nwiki", "https://zh.example/異形", "一部電影。"),
)
FOUND = SearchReply("alien 'film'", HITS)
NOTHING = SearchReply("zz", (), status=ToolStatus.EMPTY)
LATE = SearchReply("late", (), status=ToolStatus.TIMEOUT)
PAGE = VisitReply("https://a.example/p", "P", "# P\n\nDr. Ann founded P in 1901. It grew.\n\n## Later\n\nMore.")
MISS = VisitReply("https://a.example/x", "", "", status=ToolStatus.NOT_FOUND)


def test_search_as_json():
    text = search_text([FOUND, NOTHING], ResultLayout.JSON)
    assert text == (
        '[{"query": "alien \'film\'", "web_page_info_list": [{"title": "Alien (film) [1979]", '
        '"url": "https://en.wikipedia.org/wiki/Alien_(film)", "snippet": "A film by Ridley Scott …", "date": "May 25, 1979"}, '
        '{"title": "異形 wiki", "url": "https://zh.example/異形", "snippet": "一部電影。", "date": ""}]}, '
        '{"query": "zz", "web_page_info_list": []}]'
    )
    assert json.loads(search_text([LATE], ResultLayout.JSON))[0]["error"].startswith("The request timed out")


@pytest.mark.parametrize("layout", ResultLayout)
def test_long_queries_are_not_echoed_whole(layout: ResultLayout):
    for status in (ToolStatus.EMPTY, ToolStatus.TIMEOUT, ToolStatus.OK):
        hits = HITS if status is ToolStatus.OK else ()
        assert len(search_text([SearchReply("query " * 20_000, hits, status=status)], layout)) < 3_000


def test_search_as_markdown():
    assert search_text([FOUND, NOTHING], ResultLayout.MARKDOWN) == (
        "A Google search for 'alien 'film'' found 2 results:\n\n## Web Results\n"
        "1. [Alien (film) [1979]](https://en.wikipedia.org/wiki/Alien_(film))\nDate published: May 25, 1979\n\n"
        "A film by Ridley Scott …\n\n"
        "2. [異形 wiki](https://zh.example/異形)\n\n一部電影。\n"
        "=======\n"
        "A Google search for 'zz' found 0 results:\n\n## Web Results\n"
    )
    assert search_text([LATE], ResultLayout.MARKDOWN) == (
        "A Google search for 'late' failed. The request timed out; try again or try something else."
    )


def test_search_compact():
    assert search_text([FOUND, NOTHING, LATE], ResultLayout.COMPACT) == (
        "[1] Alien (film) [1979]\nhttps://en.wikipedia.org/wiki/Alien_(film)\nA film by Ridley Scott …\n"
        "[2] 異形 wiki\nhttps://zh.example/異形\n一部電影。\n\nNo results.\n\nTimed out."
    )


def test_visit_as_evidence_and_summary():
    expected = (
        "The useful information in https://a.example/p for user goal founder as follows: \n\nEvidence in page: \n"
        "# P\n\nDr. Ann founded P in 1901. It grew.\n\n## Later\n\nMore.\n\n"
        "Summary: \nDr. Ann founded P in 1901. It grew. More."
        "\n=======\n"
        "The useful information in https://a.example/x for user goal founder as follows: \n\nEvidence in page: \n"
        "No page was found at this address; check the URL or try another page.\n\n"
        "Summary: \nNo information from this page is available."
    )
    assert visit_text([PAGE, MISS], "founder", ResultLayout.JSON) == expected
    assert visit_text([PAGE, MISS], "founder", ResultLayout.MARKDOWN) == expected


def test_visit_compact():
    assert visit_text([MISS, PAGE], "founder", ResultLayout.COMPACT) == (
        "Page not found.\n\nP\n# P\n\nDr. Ann founded P in 1901. It grew.\n\n## Later\n\nMore."
    )


LONG = "https://a.example/l"


@pytest.mark.parametrize("layout", ResultLayout)
def test_notes_on_parts_are_there_only_when_asked_for(layout: ResultLayout):
    for part, note in (
        (0, f"(Passages of a long page. The whole page in 5 parts: {LONG}#page=1 and on.)"),
        (1, f"(Part 1 of 5. Next: {LONG}#page=2)"),
        (5, "(Part 5 of 5, the last.)"),
    ):
        reply = VisitReply(LONG, "L", "Text.", part=part, parts=5)
        silent = visit_text([reply, PAGE], "g", layout)
        assert silent == visit_text([VisitReply(LONG, "L", "Text."), PAGE], "g", layout)
        told = visit_text([reply, PAGE], "g", layout, parts=True)
        assert told.replace(f"\n\n{note}", "") == silent and told.count(note) == 1
    assert visit_text([PAGE, MISS], "g", layout, parts=True) == visit_text([PAGE, MISS], "g", layout)


def test_a_part_that_there_is_not_is_told():
    past = VisitReply(LONG, "L", "", status=ToolStatus.NOT_FOUND, part=7, parts=5)
    assert visit_text([past], "g", ResultLayout.COMPACT) == "No part 7 of 5."
    for layout in (ResultLayout.JSON, ResultLayout.MARKDOWN):
        assert f"This page has no part 7; the last is {LONG}#page=5." in visit_text([past], "g", layout)


def test_every_failure_has_one_sentence():
    for status in ToolStatus:
        for layout in ResultLayout:
            text = status_sentence(status, layout)
            assert text.endswith(".") and "\n" not in text and text.count(". ") == 0


def test_summary_is_whole_sentences_within_its_words():
    text = "# Head\n\n" + " ".join(f"Sentence {i} has exactly six words." for i in range(20))
    assert summary(text, 13) == "Sentence 0 has exactly six words. Sentence 1 has exactly six words."
    assert summary("word " * 5_000) == "word " * 120 + "…"
    assert len(summary("x" * 50_000)) < 1_000
    assert summary("One very long sentence without end", 2) == "One very long sentence without end"
    assert summary("") == ""
