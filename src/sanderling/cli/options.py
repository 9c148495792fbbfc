"""What all commands share: settings from a file, ``--set`` and options; groups of options in their help; tables.

A command reads a config model, calls one function of its room, and prints; docs/contributing.md shows one. It has at most about
twelve options of its own, and everything else is a field of the model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

from sanderling.core.config import Frozen, describe, load_config, read_config
from sanderling.core.text import visible

Config = TypeVar("Config", bound=Frozen)

AGENT, PLACE, JUDGING, BUDGET, RUN = "Who researches", "Where", "Who judges", "What it may cost", "The run"
MORE = "Every other setting"
"""Groups of options, as ``rich_help_panel``; what belongs to one command alone stays without."""

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings in TOML; --set and options go before.", rich_help_panel=MORE),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="One setting; repeatable. --set help prints all of them.", rich_help_panel=MORE
    ),
]


def settings(
    model: type[Config], file: Path | None = None, sets: Sequence[str] | None = None, given: Mapping[str, Any] | None = None
) -> Config:
    """The model's settings: its defaults, a TOML file over them, then ``--set``, then the options that were given.

    ``given``: options by the dotted key of their setting; None was not given. ``--set help`` prints a file of all settings and
    ends the command. Raises UserError, which tells all wrong settings at once.
    """
    if sets and "help" in sets:
        typer.echo(describe(model), nl=False)
        raise typer.Exit
    if file is not None:
        return read_config(model, file, sets or (), given or {})
    return load_config(model, "", "the command", sets or (), given or {})


def table(*columns: str, title: str | None = None) -> Table:
    """A table that fits 80 columns: long text folds, columns whose name begins with ``>`` hold figures and never do.

    Example: ``found = table("benchmark", ">questions", "licence")``
    """
    made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        is_figure = name.startswith(">")
        made.add_column(name.lstrip(">"), justify="right" if is_figure else "left", no_wrap=is_figure, overflow="fold")
    return made


def show(*things: RenderableType, error: bool = False) -> None:
    """Print texts as they are, never wrapped, and tables; ``error``: to standard error, as what is no result."""
    console = Console(stderr=error, highlight=False)
    for thing in things:
        if isinstance(thing, str):
            console.print(visible(thing), markup=False, soft_wrap=True)
        else:
            console.print(thing)
