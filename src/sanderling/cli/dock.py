"""``sanderling dock``: pools of tool servers behind one address."""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.cli.options import Set, argument, option, settings, show

app = typer.Typer(help="Pools of tool servers behind one address.", no_args_is_help=True)


@app.command("up")
def up(
    file: Annotated[Path, argument("FILE", "The dock's settings in TOML.")],
    host: Annotated[str | None, option("--host", "Where to listen; anything but this machine needs tokens.")] = None,
    port: Annotated[int | None, option("--port", "0: any free one; 8020 by default.", min=0, max=65_535)] = None,
    sets: Set = None,
) -> None:
    """Start the pools of a file and serve their tools, over MCP and as AgentDock does, until stopped.

    The page at the address shows pools, replicas, calls and logs. Agents use it with --dock ADDRESS.
    """
    from sanderling.serve.calls import log_lines
    from sanderling.serve.dock.app import run_dock
    from sanderling.serve.dock.config import DockConfig

    config = settings(DockConfig, file, sets, {"host": host, "port": port})
    log_lines()
    pools = ", ".join(config.pools)
    run_dock(config, lambda url: show(f"{url} has {pools}: a page for browsers, and for agents --dock {url}", error=True))
