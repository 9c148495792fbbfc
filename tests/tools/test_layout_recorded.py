"""Layouts against recorded live systems: their own results, laid out by us, are their observations byte for byte."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.tools.world_tools import search_text
from sanderling.world.contract import SearchHit, SearchReply

RECORDED = Path(os.environ.get("SANDERLING_RECORDED", ""))
pytestmark = pytest.mark.skipif(
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
