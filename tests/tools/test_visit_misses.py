"""Misses look like the web's: every way a visit fails reaches the agent in words, and no address breaks anything."""

import pytest

from sanderling.core.profiles import PROFILES, ResultLayout, get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.layouts import status_sentence, visit_text
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page, VisitReply, answered
from sanderling.world.faults.profiles import FaultProfile, VisitFaults
from sanderling.world.faults.world import FaultyWorld
from sanderling.world.filters import MaskedWorld
from sanderling.world.local import LocalWorld

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


@pytest.mark.parametrize("layout", ResultLayout)
async def test_what_is_stored_but_no_text_is_told_so(layout: ResultLayout) -> None:
    tool = world_tools(WORLD, get_profile("dr-venus-4b").model_copy(update={"results": layout}))["visit"]
    result = await tool({"url": ["https://w.example/blob", "w.example/blob#page=2"], "goal": "x"}, ToolContext())
    assert result.parts == (ToolStatus.NOT_TEXT, ToolStatus.NOT_TEXT)
    assert result.text.count(status_sentence(ToolStatus.NOT_TEXT, layout)) == 2


NO_PAGES = [
    "who founded Orlo?",
    "https://w.example/page (1)",
    "mailto:someone@w.example",
    "javascript:alert(1)",
    "data:text/html,<b>x</b>",
    "ftp://w.example/page_(1)",
    "file:///page_(1)",
    "https://",
    "https://[::1/x",
    "//w.example/none",
    "#page=2",
    "?#",
    "\x00",
    "https://w.example/" + "a" * 100_000,
    "x" * 100_000,
]


@pytest.mark.parametrize("url", NO_PAGES, ids=range(len(NO_PAGES)))
async def test_what_is_no_address_of_a_page_is_not_found(url: str) -> None:
    for world in (WORLD, MaskedWorld(WORLD), FaultyWorld(WORLD, FaultProfile(name="calm"), seed=1)):
        for part in ("", "#page=2"):
            assert (await world.visit(url + part, "goal")).status is ToolStatus.NOT_FOUND
    for layout in ResultLayout:
        tool = world_tools(WORLD, get_profile("dr-venus-4b").model_copy(update={"results": layout}))["visit"]
        result = await tool({"url": [url, URL], "goal": "herring"}, ToolContext())
        assert result.parts == (ToolStatus.NOT_FOUND, ToolStatus.OK) and "about herring" in result.text
        assert len(result.text) < 6_000


@pytest.mark.parametrize("url", ["", "  ", "\n"])
async def test_no_address_at_all_is_a_mistake_in_the_call(url: str) -> None:
    assert (await WORLD.visit(url)).status is ToolStatus.NOT_FOUND
    result = await world_tools(WORLD, get_profile("dr-venus-4b"))["visit"]({"url": [url], "goal": "x"}, ToolContext())
    assert result.status is ToolStatus.BAD_ARGUMENTS


@pytest.mark.parametrize(
    "url",
    [
        " https://w.example/page_(1) ",
        "HTTP://W.EXAMPLE:80/page_%281%29/",
        "w.example/page_(1)",
        "https://w.example/./page_(1)#s",
    ],
)
def test_other_spellings_of_an_address_are_no_misses(url: str) -> None:
    assert answered(WORLD.visit(url)).status is ToolStatus.OK


def test_a_goal_of_any_length_leaves_room_for_the_reply() -> None:
    text = visit_text([VisitReply(URL, "Page", "Text.")], "goal " * 20_000, ResultLayout.JSON)
    assert text.endswith("Summary: \nText.") and len(text) < 3_000
