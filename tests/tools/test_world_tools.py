"""Search and visit over a world: argument shapes, several parts in one call, deadlines, masks, provenance, outages."""

import asyncio
import threading

import pytest

from sanderling.core.profiles import PROFILES, Profile, ResultLayout, get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.layouts import status_sentence
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import NO_OCCASION, Page, SearchHit, SearchReply, VisitReply, World
from sanderling.world.faults.profiles import FaultProfile, VisitFaults, get_faults
from sanderling.world.faults.world import FaultyWorld
from sanderling.world.filters import MaskedWorld
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


async def test_several_queries_and_urls_have_a_part_each(world):
    tools = world_tools(world, profile())
    found = await tools["search"]({"query": ["poet Anna", "zzz qqq"]}, ToolContext())
    assert found.parts == (ToolStatus.OK, ToolStatus.EMPTY)
    assert found.status is ToolStatus.OK
    assert found.text.endswith("\n\nNo results.")
    assert found.provenance == ("https://w.example/Anna_Bel_(poet)",)
    urls = ["https://w.example/none", "http://w.example/Anna_Bel_%28poet%29#life", "https://w.example/bin"]
    read = await tools["visit"]({"url": urls, "goal": "birth place"}, ToolContext())
    assert read.parts == (ToolStatus.NOT_FOUND, ToolStatus.OK, ToolStatus.NOT_TEXT)
    assert read.provenance == ("https://w.example/Anna_Bel_(poet)",)
    assert read.text == "Page not found.\n\nAnna Bel (poet)\nAnna Bel was a poet. She was born in Orlo.\n\nPage not readable."


async def test_parts_are_asked_for_only_by_profiles_that_know_them():
    text = "\n\n".join(f"Paragraph {n} has six words." for n in range(30))
    world = LocalWorld.in_memory([Page(url="https://w.example/long", title="Long", text=text)], name="t")
    call = {"url": ["https://w.example/long#page=2"], "goal": "paragraph 20"}
    silent, knowing = (world_tools(world, profile(visit_words=50, visit_parts=parts))["visit"] for parts in (False, True))
    extract = await silent(call, ToolContext())
    assert extract == await silent({**call, "url": "https://w.example/long"}, ToolContext())
    assert "Paragraph 20 has" in extract.text and "page=" not in extract.text
    part = await knowing(call, ToolContext())
    assert part.text.startswith("Long\nParagraph 10 has") and part.text.endswith("Next: https://w.example/long#page=3)")
    assert part.provenance == ("https://w.example/long",)
    past = await knowing({**call, "url": "https://w.example/long#page=9"}, ToolContext())
    assert (past.text, past.status) == ("No part 9 of 3.", ToolStatus.NOT_FOUND)
    assert "#page=2" in knowing.spec.description and "#page" not in silent.spec.description


async def test_lone_surrogates_do_not_reach_the_reply(world):
    search = world_tools(world, profile(results=ResultLayout.MARKDOWN))["search"]
    reply = await search({"query": ["poet \ud800 東京"]}, ToolContext())
    assert reply.text.encode("utf-8") and "東京" in reply.text


async def test_masked_pages_are_hidden_from_both_tools(world):
    tools = world_tools(world, profile())
    context = ToolContext(masked_urls=frozenset({"http://W.example/Anna_Bel_%28poet%29/"}))
    assert (await tools["search"]({"query": "poet Anna"}, context)).status is ToolStatus.EMPTY
    read = await tools["visit"]({"url": "https://w.example/Anna_Bel_(poet)", "goal": "x"}, context)
    assert read.status is ToolStatus.NOT_FOUND


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


class FarWorld(SlowWorld):
    """Answers when the event loop has gone on meanwhile."""

    def __init__(self) -> None:
        self.went_on = threading.Event()

    async def search(self, query, **_):
        assert await asyncio.to_thread(self.went_on.wait, 30)
        return await super().search(query)

    async def visit(self, url, goal="", **_):
        assert await asyncio.to_thread(self.went_on.wait, 30)
        return await super().visit(url)


@pytest.mark.parametrize(("name", "arguments"), [("search", {"query": "a"}), ("visit", {"url": "a", "goal": "b"})])
@pytest.mark.parametrize("covered", [False, True])
async def test_a_world_that_waits_for_a_server_holds_nobody_up(name, arguments, covered):
    far = FarWorld()
    world = FaultyWorld(MaskedWorld(far), get_faults("calm"), 0) if covered else far
    call = asyncio.create_task(world_tools(world, profile())[name](arguments, ToolContext()))
    await asyncio.sleep(0)
    far.went_on.set()
    assert (await call).status is ToolStatus.OK


# -- Misses look like the web's: every way a visit fails reaches the agent in words, and no address break ------------


URL = "https://w.example/page_(1)"
WORLD = LocalWorld.in_memory(
    [
        Page(url=URL, title="Page", text="A page of text about herring."),
        Page(url="https://w.example/blob", title="Blob", text="\x01\x02\x03\x04" * 99),
    ],
    name="t",
)
FAULTS = ("not_found", "gone", "timeout", "blocked", "paywalled", "rate_limited")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("profile", PROFILES)
async def test_faults_of_the_web_reach_the_agent_in_words(fault: str, profile: str) -> None:
    chosen = get_profile(profile)
    faults = VisitFaults.model_validate({fault: 1.0})
    world = MaskedWorld(FaultyWorld(WORLD, FaultProfile(name="broken", visit=faults)))
    tool = world_tools(world, chosen)[chosen.tools.visit]
    result = await tool({chosen.tools.visit_url: [URL], chosen.tools.visit_goal: "herring"}, ToolContext())
    status = ToolStatus(fault)
    assert (result.status, result.parts, result.provenance) == (status, (status,), ())
    assert status_sentence(status, chosen.results) in result.text and "herring" not in result.text.partition("Evidence")[2]
    assert "The call failed" not in result.text
