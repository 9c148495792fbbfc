"""Search and visit over a world: argument shapes, several parts in one call, deadlines, masks, provenance, outages."""

import pytest

from sanderling.core.profiles import Profile, ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import NO_OCCASION, Page, SearchHit, SearchReply, VisitReply, World
from sanderling.world.local import LocalWorld

PAGES = [
    Page(url="https://w.example/Anna_Bel_(poet)", title="Anna Bel (poet)", text="Anna Bel was a poet. She was born in Orlo."),
    Page(url="https://w.example/Orlo", title="Orlo", text="Orlo is a town by the sea. It was founded in 1203."),
    Page(url="https://w.example/bin", title="Blob", text="\x01\x02\x03\x04\x05" * 50),
]


def profile(**changes) -> Profile:
    base = {
        "name": "t", "source": "test", "system_prompt": "{tools}", "force_hint": "Answer.", "malformed_hint": "{problem}",
        "results": ResultLayout.COMPACT,
    }  # fmt: skip
    return Profile(**(base | changes))


@pytest.fixture(scope="module")
def world() -> LocalWorld:
    return LocalWorld.in_memory(PAGES, name="test")


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


# -- Misses look like the web's: every way a visit fails reaches the agent in words, and no address break ------------
