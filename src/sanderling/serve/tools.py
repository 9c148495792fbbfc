"""An agent's places and tools behind MCP: what ``ask`` would use with the same settings, for any client."""

import asyncio
from collections.abc import Callable

from sanderling.agent.places import NO_PLACE, Notice, PlaceConfig, opened_worlds
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES
from sanderling.serve.app import create_app, serving
from sanderling.serve.limits import ServerSettings, check_binding
from sanderling.serve.mcp import serve_stdio

_TAKEN = ("search", "visit")  # what a world's tools are called here


class Settings(ServerSettings):
    """Of a server whose calls may be long, and which speaks MCP alone unless it is told to."""

    timeout_s: float = 3_600.0
    max_body_bytes: int = 16 << 20
    dialects: tuple[str, ...] = ("mcp",)


class ToolServerConfig(PlaceConfig):
    """What ``sanderling tools serve`` serves, and how."""

    server: Settings = Settings()


def serve_tools(config: ToolServerConfig, ready: Callable[[str, str], None] | None, notice: Notice) -> None:
    """Serve until stopped: at an address, of which ``ready`` hears with what is served, or without it one client over stdio.

    Raises UserError.
    """
    if ready is not None:
        check_binding(config.server)
    asyncio.run(_serve(config, ready, notice))


async def _serve(config: ToolServerConfig, ready: Callable[[str, str], None] | None, notice: Notice) -> None:
    async with opened_worlds(config, PROFILES["general"], notice=notice) as (worlds, tools):
        world = worlds.get("")
        if world is None and not tools:
            raise UserError(NO_PLACE)
        for name in {*_TAKEN} & {*tools} if world is not None else ():
            raise UserError(f"A tool cannot be called {name} beside a world, which has one: give it another name.")
        if ready is not None:
            app = create_app(world, config.server, list(tools.values()))
            named = ", ".join([*([f"the world {world.name}"] if world is not None else []), *tools])
            await serving(app, config.server, lambda url: ready(f"{url}/mcp", named))
            return
        await serve_stdio(world, list(tools.values()), config.server)
