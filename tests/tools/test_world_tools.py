"""Search and visit over a world: argument shapes, several parts in one call, deadlines, masks, provenance, outages."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sanderling.core.profiles import Profile, ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.world_tools import search_text, status_sentence, summary, visit_text, world_tools
from sanderling.world.contract import NO_OCCASION, SearchHit, SearchReply, VisitReply, World


def profile(**changes) -> Profile:
    base = {
        "name": "t", "source": "test", "system_prompt": "{tools}", "force_hint": "Answer.", "malformed_hint": "{problem}",
        "results": ResultLayout.COMPACT,
    }  # fmt: skip
    return Profile(**(base | changes))


class SlowWorld(World):
    """Each call takes two virtual seconds."""

    name, fingerprint, page_count = "slow", "0", 1

    async def search(self, query, *, limit=10, snippet_words=30, occasion=NO_OCCASION):
        return SearchReply(query, (SearchHit("T", "https://t.example", "s"),), latency_s=2.0)

    async def visit(self, url, goal="", *, max_words=2000, occasion=NO_OCCASION):
        return VisitReply(url, "T", "text", latency_s=2.0)


async def test_the_deadline_counts_the_worlds_own_time():
    tools = world_tools(SlowWorld(), profile())
    context = ToolContext(deadline_s=5.0)
    found = await tools["search"]({"query": ["a", "b", "c", "d"]}, context)
    assert found.parts == (ToolStatus.OK, ToolStatus.OK, ToolStatus.TIMEOUT, ToolStatus.TIMEOUT)
    assert found.latency_s == 5.0
    assert found.text.endswith("Timed out.\n\nTimed out.")
    read = await tools["visit"]({"url": ["a", "b", "c"], "goal": ""}, context)
    assert read.parts == (ToolStatus.OK, ToolStatus.OK, ToolStatus.TIMEOUT)
    assert (await tools["visit"]({"url": "a"}, ToolContext(deadline_s=0.0))).status is ToolStatus.TIMEOUT


class BrokenWorld(SlowWorld):
    async def search(self, query, *, limit=10, snippet_words=30, occasion=NO_OCCASION):
        raise OSError("disk gone")

    async def visit(self, url, goal="", *, max_words=2000, occasion=NO_OCCASION):
        raise OSError("disk gone")


async def test_a_broken_store_is_an_outage_not_a_reply():
    tools = world_tools(BrokenWorld(), profile())
    with pytest.raises(ToolOutageError, match="disk gone"):
        await tools["search"]({"query": "a"}, ToolContext())
    with pytest.raises(ToolOutageError, match="disk gone"):
        await tools["visit"]({"url": "a"}, ToolContext())


# -- Layouts: golden texts, whose JSON and Markdown shapes are those of the recorded systems -------------------------------

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


# -- Layouts against recorded live systems: their own results, laid out by us, are their observations byte for byte --------

RECORDED = Path(os.environ.get("SANDERLING_RECORDED", ""))
recorded = pytest.mark.skipif(
    not os.environ.get("SANDERLING_RECORDED") or not RECORDED.is_dir(), reason="SANDERLING_RECORDED names no directory"
)
ENTRY = re.compile(r"\d+\. \[(.*)\]\((\S+)\)(?:\nDate published: (.*))?\n\n(.*)", re.DOTALL)


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def observations() -> Iterator[str]:
    for file in sorted(RECORDED.rglob("*.json*")):
        text = file.read_text(encoding="utf-8")
        for record in [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]:
            for found in strings(record):
                if found.startswith("<tool_response>\n") and found.endswith("\n</tool_response>"):
                    yield found.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")


def reply(query: str, hits: tuple[SearchHit, ...]) -> SearchReply:
    return SearchReply(query, hits, status=ToolStatus.OK if hits else ToolStatus.EMPTY)


@recorded
def test_json_results_are_reproduced():
    checked = 0
    for text in observations():
        if not text.startswith('[{"query"') or (' "snippet": ' in text and '"date": ' not in text):
            continue
        blocks = json.loads(text)
        if any(hit["title"] != " ".join(hit["title"].split()) for block in blocks for hit in block["web_page_info_list"]):
            continue
        replies = [reply(b["query"], tuple(SearchHit(**hit) for hit in b["web_page_info_list"])) for b in blocks]
        assert search_text(replies, ResultLayout.JSON) == text
        checked += 1
    assert checked > 200


@recorded
def test_markdown_results_are_reproduced():
    checked = 0
    for text in observations():
        if not text.startswith("A Google search for '"):
            continue
        replies = []
        for block in text.split("\n=======\n"):
            head, _, rest = block.partition("\n\n## Web Results\n")
            query = re.fullmatch(r"A Google search for '(.*)' found \d+ results:", head, re.DOTALL)
            entries = (
                [ENTRY.fullmatch(entry) for entry in re.split(r"\n\n(?=\d+\. \[)", rest.rstrip("\n"))] if rest.strip() else []
            )
            if (
                query is None
                or not all(entries)
                or any("Source:" in e[0] or e[1] != " ".join(e[1].split()) for e in entries if e)
            ):
                break
            hits = tuple(SearchHit(title=e[1], url=e[2], snippet=e[4], date=e[3] or "") for e in entries if e)
            replies.append(reply(query[1], hits))
        else:
            assert search_text(replies, ResultLayout.MARKDOWN).rstrip("\n") == text.rstrip("\n")
            checked += 1
    assert checked > 100
