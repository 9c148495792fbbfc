"""What an agent asks its calls of: a world's directory or the live web, with the options that choose it. Thin."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.policy.contract import Policy
from sanderling.tools.contract import Tool
from sanderling.tools.page_reader import PageReader
from sanderling.tools.world_tools import PacedTool, world_tools
from sanderling.world.contract import World
from sanderling.world.dense.index import SearchMode
from sanderling.world.filters import filtered
from sanderling.world.guard import Guard
from sanderling.world.opening import open_as_met

Done = TypeVar("Done")

Web = Annotated[bool, typer.Option("--web", help="Ask the live web instead of a world, through Serper and Jina Reader.")]
SearchUrl = Annotated[
    str | None, typer.Option("--search-url", help="With --web: another service that answers as Serper does (SERPER_API_KEY).")
]
ReaderUrl = Annotated[
    str | None,
    typer.Option("--reader-url", help="With --web: another service that answers as Jina does (JINA_API_KEY)."),
]


async def _nothing_to_close() -> None:
    """A world holds no connection."""


@dataclass(frozen=True)
class Backend:
    """What an agent's tools ask, and what the record calls it."""

    tools: Callable[[PageReader | None], Mapping[str, Tool]]
    """The tools; with an extractor, a model reads the pages."""
    name: str
    fingerprint: str
    close: Callable[[], Awaitable[None]] = _nothing_to_close


async def closing(work: Awaitable[Done], policy: Policy, backend: Backend) -> Done:
    """What work comes to; the policy's and the tools' connections are closed whatever happens."""
    from sanderling.policy.load import close_policy

    try:
        return await work
    finally:
        await close_policy(policy)
        await backend.close()


def world_backend(world: World, profile: Profile, pace: float | None = None) -> Backend:
    """A world; with a pace, its tools take the time they say."""

    def tools(extractor: PageReader | None) -> Mapping[str, Tool]:
        plain = world_tools(world, profile, extractor)
        return plain if pace is None else {name: PacedTool(tool, pace) for name, tool in plain.items()}

    return Backend(tools, world.name, world.fingerprint)


def web_backend(profile: Profile, search_url: str | None, reader_url: str | None, guard: Guard | None = None) -> Backend:
    """The live web. Raises UserError where a key is missing or an address is none."""
    from sanderling.world.live import READER_URL, SEARCH_URL, LiveWeb, web_settings

    web = LiveWeb(web_settings(search_url or SEARCH_URL, reader_url or READER_URL, env=os.environ))
    world = filtered(web, guard=guard)
    return Backend(lambda extractor: world_tools(world, profile, extractor), world.name, world.fingerprint, web.aclose)


@dataclass(frozen=True)
class Place:
    """What the options name, before anything is opened."""

    world: Path | None
    web: bool = False
    search_url: str | None = None
    reader_url: str | None = None
    dynamics: str | None = None
    world_seed: int = 0
    mode: SearchMode = SearchMode.LEXICAL
    pace: float | None = None
    injected: float = 0.0

    def open(self, profile: Profile, guard: Guard | None = None) -> Backend:
        """Open it, under a guard where one is given. Raises UserError for options that do not go together."""
        if self.web == (self.world is not None):
            raise UserError("Name one place to search: a world with --world DIRECTORY, or the live web with --web.")
        if self.world is None:
            if self.dynamics is not None or self.pace is not None or self.injected or self.mode is not SearchMode.LEXICAL:
                raise UserError("--faults, --prompt-injection, --pace and --search are a world's: leave them out with --web.")
            return web_backend(profile, self.search_url, self.reader_url, guard)
        if self.search_url is not None or self.reader_url is not None:
            raise UserError("--search-url and --reader-url are the live web's: give --web with them, and no --world.")
        world = open_as_met(self.world, self.dynamics, self.world_seed, self.mode, self.injected, guard)
        return world_backend(world, profile, self.pace)
