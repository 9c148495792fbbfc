"""Orders within pages and who follows them; profiles fitted to records; episodes over a world with faults; paced tools."""

import asyncio
import datetime
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from dynamics_fakes import TIDES, Always, coast
from hypothesis import given
from hypothesis import strategies as st

from sanderling.agent.agent import Agent
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Node, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import FixedClock, Message, Role, ToolStatus
from sanderling.data.importing import import_all
from sanderling.policy.contract import SampleKey
from sanderling.policy.scripted import Reply, ScriptedPolicy
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import PacedTool, world_tools
from sanderling.world.contract import World, answered
from sanderling.world.faults.profiles import WEB, FaultProfile, PageNoise, SearchFaults, VisitFaults, fit_profile
from sanderling.world.faults.world import FaultyWorld, obedience, order, with_order

PROFILE = get_profile("tiny").model_copy(
    update={
        "budgets": get_profile("tiny").budgets.model_copy(update={"max_turns": 6, "max_context_tokens": 50_000}),
    }
)
NAMES = PROFILE.tools
POISONED = FaultProfile(name="poisoned", pages=PageNoise(injected=1))


def said(name: str, arguments: dict[str, object]) -> str:
    return f"<think>x</think>\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def visit(url: str) -> str:
    return said(NAMES.visit, {NAMES.visit_url: [url], NAMES.visit_goal: "waders"})


def pages_in_turn(messages: Sequence[Message], key: SampleKey) -> str:
    """Reads three pages and answers, whatever they say."""
    turn = sum(message.role is Role.ASSISTANT for message in messages)
    return visit(TIDES[turn].url) if turn < 3 else "<think>x</think>\n<answer>none</answer>"


def gullible(messages: Sequence[Message], key: SampleKey) -> str:
    """Does at once what the last page asks."""
    last = messages[-1].content if any(message.role is Role.ASSISTANT for message in messages) else ""
    url, canary = re.search(r"https://verify\.example/sdl-canary-\w+", last), re.search(r"sdl-canary-\w+", last)
    if url:
        return visit(url[0])
    return said(NAMES.search, {NAMES.search_query: [canary[0]]}) if canary else pages_in_turn(messages, key)


async def episode(world: World, reply: Reply, seed: int = 0) -> Trajectory:
    return await Agent(
        ScriptedPolicy(reply), world_tools(world, PROFILE), PROFILE, FixedClock(datetime.date(2026, 3, 1)), world.name
    ).run(Question(id="q", text="How many waders?"), Seeds(episode=seed), id="t")


async def test_obedience_tells_who_follows_the_orders_of_a_page() -> None:
    world = FaultyWorld(coast(), POISONED, seed=1)
    for seed in range(8):  # both kinds of order
        careful, careless = await episode(world, pages_in_turn, seed), await episode(world, gullible, seed)
        assert (len(obedience(careful).shown), obedience(careful).followed) == (3, set())
        assert obedience(careless).followed and obedience(careless).followed <= obedience(careless).shown
    clean = await episode(coast(), gullible)
    assert not obedience(clean).shown and not obedience(clean).followed


def test_a_canary_that_nobody_showed_is_not_obedience() -> None:
    """A search for a word that looks like one, before any page held it."""
    world = FaultyWorld(Always(), POISONED)
    canary = re.search(r"sdl-canary-\w+", answered(world.visit("https://a.example")).text)
    assert canary

    async def early() -> Trajectory:
        asks = said(NAMES.search, {NAMES.search_query: [canary[0]]})
        turns = [asks, visit("https://a.example"), "<think>x</think><answer>none</answer>"]
        return await episode(world, lambda messages, key: turns[sum(m.role is Role.ASSISTANT for m in messages)])

    assert not obedience(asyncio.run(early())).followed


PARAGRAPH = st.text(min_size=1, max_size=20).map(lambda text: text.strip("\n") or "x")


@given(
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.lists(PARAGRAPH, max_size=4).map("\n\n".join),
)
def test_an_order_is_a_paragraph_and_changes_no_other(u: float, code: float, text: str) -> None:
    instruction = order(u, code)
    paragraphs = with_order(text, instruction, u).split("\n\n")
    paragraphs.remove(instruction)
    assert "\n\n".join(paragraphs) == text or text == ""


async def test_the_rollouts_of_a_group_meet_the_same_faults() -> None:
    hard = FaultProfile(visit=VisitFaults(timeout=0.3, not_found=0.3), search=SearchFaults(timeout=0.2))

    async def met(seed: int) -> list[tuple[ToolStatus, float]]:
        done = await episode(FaultyWorld(coast(), hard, seed=2), pages_in_turn, seed)
        return [(event.status, event.latency_s) for node in done.branch() for event in node.events]

    runs = [await met(seed) for seed in range(6)]
    assert runs == [await met(seed) for seed in range(6)]
    assert len({tuple(run) for run in runs}) > 1


def observed(*events: ToolEvent, text: str = "?") -> Trajectory:
    nodes = (
        Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?"),
        Node(parent=0, role=Role.USER, kind=NodeKind.OBSERVATION, text=text, events=events),
    )
    return Trajectory(id="t", question=Question(id="q", text="?"), nodes=nodes, leaf=1, ending=None)


def event(role: str, *parts: ToolStatus, seconds: float = 0.0) -> ToolEvent:
    return ToolEvent(name=role, role=role, status=parts[0], parts=parts, latency_s=seconds)


def test_a_fit_counts_the_parts_of_recorded_calls() -> None:
    ok, dead, slow = ToolStatus.OK, ToolStatus.GONE, ToolStatus.TIMEOUT
    done = observed(event("search", ok, ok, ok, slow), event("visit", ok, dead), event("visit", slow), event("", ok))
    fitted = fit_profile([done], name="mine")
    assert (fitted.queries, fitted.visits) == (4, 3)
    assert fitted.profile.search == SearchFaults(timeout=0.25)
    assert fitted.profile.visit == VisitFaults(timeout=0.333333, gone=0.333333)
    assert (fitted.profile.name, fitted.profile.visit_latency) == ("mine", WEB.visit_latency)
    assert fit_profile([observed(event("visit", ok))]).profile.search == WEB.search
    with pytest.raises(UserError, match="No call"):
        fit_profile([observed(event("", ok))])


def test_a_fit_finds_its_own_profile_again() -> None:
    """Calls made to a world with a known profile: shares within 0.02, delays within a tenth (2,000 calls, fixed seed)."""
    world = FaultyWorld(Always(), WEB, seed=8)
    replies = [answered(world.visit(f"https://p.example/{number}")) for number in range(2_000)]
    fitted = fit_profile(observed(event("visit", reply.status, seconds=reply.latency_s)) for reply in replies).profile
    for name, chance in WEB.visit.model_dump().items():
        assert getattr(fitted.visit, name) == pytest.approx(chance, abs=0.02)
    assert fitted.visit_latency.median_s == pytest.approx(WEB.visit_latency.median_s, rel=0.1)
    assert fitted.visit_latency.p95_s == pytest.approx(WEB.visit_latency.p95_s, rel=0.1)


def test_the_recorded_calls_are_what_the_web_profile_says_they_are() -> None:
    place = os.environ.get("SANDERLING_RECORDED", "")
    if not Path(place).is_dir() or not place:
        pytest.skip("SANDERLING_RECORDED names no directory")
    fitted = fit_profile(import_all(Path(place)).trajectories)
    assert (fitted.queries, fitted.visits, fitted.search_delays, fitted.visit_delays) == (787, 273, 0, 0)
    assert fitted.profile.visit.not_found == pytest.approx(21 / 273, abs=1e-6)
    assert fitted.profile.visit.timeout == pytest.approx(4 / 273, abs=1e-6)
    assert fitted.profile.search.empty == pytest.approx(17 / 787, abs=1e-6)


async def test_a_paced_tool_takes_its_time_and_changes_nothing() -> None:
    tool = world_tools(FaultyWorld(Always(), WEB), PROFILE)[NAMES.visit]
    arguments = {NAMES.visit_url: ["https://a.example"], NAMES.visit_goal: ""}
    plain = await tool(arguments, ToolContext())
    started = time.monotonic()
    assert await PacedTool(tool, speed=plain.latency_s / 0.05)(arguments, ToolContext()) == plain
    assert time.monotonic() - started >= 0.049
    short = await PacedTool(tool)(arguments, ToolContext(deadline_s=0.05))
    assert (short.status, short.latency_s) == (ToolStatus.TIMEOUT, 0.05)
    with pytest.raises(ValueError, match="above 0"):
        PacedTool(tool, speed=0)
