"""``sanderling tools``: an agent's places and tools, for other programs."""

from functools import partial
from typing import Annotated

import typer

from sanderling.cli import options as common
from sanderling.cli.options import option, settings, show
from sanderling.core.errors import UserError

app = typer.Typer(no_args_is_help=True, callback=lambda: None)  # a group, though it has one command
_TOKEN = "Ask for a token, which this variable holds; needed to listen on other than 127.0.0.1."


@app.command("serve")
def serve(
    world: common.Worlds = None,
    docs: common.Docs = None,
    web: common.Web = None,
    tool: common.Tools = None,
    port: Annotated[int | None, option("--port", "Listen here instead, at /mcp; 0: any free port.", min=0, max=65_535)] = None,
    host: Annotated[str | None, option("--host", "Where; anything but 127.0.0.1 needs a token.", "HOST")] = None,
    token_env: Annotated[str | None, option("--token-env", _TOKEN, "NAME")] = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Serve what an agent would search, read and call, over MCP: one client over standard input and output, or many at --port.

    Every setting of a place is one here; agents use it with --mcp.
    """
    from sanderling.serve.calls import log_lines
    from sanderling.serve.tools import ToolServerConfig, serve_tools
    from sanderling.tools.mcp.config import secret

    token = secret(f"env:{token_env}") if token_env else None  # on a command line everybody on the machine could read it
    given = {"worlds": world, "docs": docs, "web": web, "tools": tool}
    given |= {"server.port": port, "server.host": host, "server.token": token}
    config = settings(ToolServerConfig, file, sets, given)
    log_lines()
    if port is None and (host is not None or token is not None):
        raise UserError("Without --port one client is served over standard input and output: leave --host and --token-env out.")
    ready = None if port is None else lambda url, what: show(f"Serving {what} at {url}", error=True)
    serve_tools(config, ready, partial(show, error=True))
