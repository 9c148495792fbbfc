"""Layouts: golden texts, whose JSON and Markdown shapes are those of the recorded systems."""

from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.tools.world_tools import status_sentence, summary, visit_text
from sanderling.world.contract import VisitReply

LONG = "https://a.example/l"


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
