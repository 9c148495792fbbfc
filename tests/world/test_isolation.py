"""Answering opens no socket: with sockets forbidden in the process, every call of every world and tool still answers."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sanderling.core.profiles import Profile, ResultLayout, get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Occasion, Page, World, answered
from sanderling.world.disk.building import build_world
from sanderling.world.disk.dense import embed_world, settings_for
from sanderling.world.disk.embedders import HashedEmbedder
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import load_groups, open_as_met, open_world
from sanderling.world.faults import PROFILES, FaultyWorld, PageNoise
from sanderling.world.filters import MaskedWorld
from sanderling.world.guard import Blocklist
from sanderling.world.local import LocalWorld

PAGES = [
    Page(
        url=f"https://w.example/{number}",
        title=f"Flat {number}",
        text=f"Flat {number} was mapped in 19{number:02}. See [the next](https://w.example/{number + 1}) and https://live.example/.",
    )
    for number in range(40)
]
URLS = ["https://w.example/3", "http://live.example:80/", "https://[::1]/x", "ftp://w.example", "127.0.0.1:80", ""]
MASKS = (frozenset[str](), frozenset({"https://w.example/4"}))


class SocketOpenedError(BaseException):
    """Not an Exception: nothing that answers calls may swallow it."""


def forbid_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on to the end of the test."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise SocketOpenedError(str(args))

    for name in ("socket", "create_connection", "socketpair", "getaddrinfo", "gethostbyname", "fromfd"):
        monkeypatch.setattr(socket, name, refuse)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_sockets(monkeypatch)


def worlds(directory: Path) -> Iterator[World]:
    """Every kind of world that runs in the process."""
    info = build_world(directory / "w", PAGES, name="stored", source="test")
    local = LocalWorld.in_memory(PAGES, name="memory")
    masked = MaskedWorld(local, load_groups(directory / "w", info.fingerprint), Blocklist.parse("w.example/7"))
    embedder, stored = HashedEmbedder(64), open_world(directory / "w")
    embed_world(directory / "w", stored, embedder, settings_for(embedder), spec="hashed:64")
    harsh = PROFILES["hostile"].model_copy(update={"pages": PageNoise(stale=0.5, injected=0.5)})
    yield from (local, stored, masked)
    yield from (open_as_met(directory / "w", search=mode) for mode in SearchMode)
    yield from (FaultyWorld(masked, profile, seed=1) for profile in (*PROFILES.values(), harsh))


def test_worlds_answer_without_sockets(no_sockets: None, tmp_path: Path) -> None:
    for world in worlds(tmp_path):
        assert world.page_count == 40 and world.name and world.fingerprint
        for occurrence, masked in enumerate(MASKS):
            searches = [
                answered(world.search(query, occasion=Occasion(masked=masked, episode_seed=seed, occurrence=occurrence)))
                for query in ("flat mapped", "https://live.example/", "")
                for seed in range(5)
            ]
            visits = [
                answered(world.visit(url, goal, occasion=Occasion(masked=masked, episode_seed=seed, occurrence=occurrence)))
                for url in URLS
                for goal in ("", "mapped")
                for seed in range(5)
            ]
            listed = {hit.url for reply in searches for hit in reply.hits}
            visits += [
                answered(world.visit(url, occasion=Occasion(masked=masked, occurrence=occurrence))) for url in sorted(listed)
            ]
            assert listed and ToolStatus.OK in {reply.status for reply in visits}


async def test_tools_answer_without_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loop of asyncio has a pair of sockets of its own, made before the guard."""
    forbid_sockets(monkeypatch)
    profile: Profile = get_profile("tiny")
    arguments = {
        profile.tools.search: {profile.tools.search_query: ["flat mapped", "zzz"]},
        profile.tools.visit: {profile.tools.visit_url: URLS, profile.tools.visit_goal: "mapped"},
    }
    for layout in ResultLayout:
        chosen = profile.model_copy(update={"results": layout})
        for world in worlds(tmp_path / layout):
            tools = world_tools(world, chosen)
            for name, tool in tools.items():
                assert (await tool(arguments[name], ToolContext(episode_seed=2, masked_urls=MASKS[1]))).text
