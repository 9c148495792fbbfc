"""``sanderling world serve``: a world behind HTTP or MCP, for others' clients. Thin: the work is done in ``serve/``."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.world_dynamics import Dynamics, Inject, Pace, WorldSeed
from sanderling.cli.world_embed import Search
from sanderling.core.errors import UserError
from sanderling.world.dense.index import SearchMode
from sanderling.world.opening import open_as_met


def serve(
    directory: Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")],
    host: Annotated[str, typer.Option(help="Where to listen; anything but this machine needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8018,
    token_env: Annotated[
        str | None,
        typer.Option("--token-env", metavar="NAME", help="Environment variable that holds the token clients must send."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate in PEM: speak HTTPS, for clients whose https:// cannot be changed.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's key in PEM, if it is in a file of its own.")] = None,
    dialect: Annotated[
        list[str] | None,
        typer.Option(
            help="What to speak: native, serper, jina, literesearcher, search_r1, asearcher, mcp; repeatable; default: all."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Calls to the world at a time.")] = 4,
    concurrent: Annotated[int, typer.Option(min=1, help="Requests at a time; more are answered 429.")] = 256,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a request may take.")] = 30.0,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    inject: Inject = 0.0,
    pace: Pace = None,
    mode: Search = SearchMode.LEXICAL,
    mcp_stdio: Annotated[bool, typer.Option("--mcp-stdio", help="Speak MCP over standard input and output instead.")] = False,
) -> None:
    """Serve a world: a native API, the routes of Serper, Jina Reader, LiteResearcher, Search-R1 and ASearcher, and MCP."""
    from sanderling.serve.settings import ServerSettings, check_binding

    if mcp_stdio:
        from sanderling.serve.mcp import serve_stdio

        serve_stdio(open_as_met(directory, dynamics, world_seed, mode, inject), threads, pace)
        return
    settings = ServerSettings(
        host=host,
        port=port,
        token=_token(token_env),
        certificate=certificate,
        key=key,
        dialects=tuple(dialect or ()),
        threads=threads,
        max_concurrent=concurrent,
        timeout_s=timeout,
        pace=pace,
    )
    check_binding(settings)
    from sanderling.serve.server import serve as run

    world = open_as_met(directory, dynamics, world_seed, mode, inject)

    def ready(url: str) -> None:
        Console(stderr=True).print(
            f"Serving {world.name} ({world.page_count:,} pages) at {url}", highlight=False, soft_wrap=True
        )

    run(world, settings, ready)


def _token(variable: str | None) -> str | None:
    """The token from the environment: on a command line everybody on the machine could read it."""
    if variable is None:
        return None
    token = os.environ.get(variable, "")
    if not token:
        raise UserError(f"The environment variable {variable} is not set: put the token there.")
    return token
