"""What all commands share: settings from a file, ``--set`` and options; groups of options in their help; tables.

A command reads a config model, calls one function of its room, and prints; docs/contributing.md shows one. It has at most about
twelve options of its own, and everything else is a field of the model.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

from sanderling.cli import exits
from sanderling.core.config import Frozen, describe, load_config, read_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES
from sanderling.core.text import visible

if TYPE_CHECKING:
    from sanderling.runs.progress import Report

Config = TypeVar("Config", bound=Frozen)
_LAST_WORDS_S = 5
"""torchrun ends all processes as soon as one has failed: the first gets so long to say why."""

AGENT, PLACE, JUDGING, BUDGET, RUN = "Who researches", "Where", "Who judges", "What it may cost", "The run"
MORE = "Every other setting"
"""Groups of options, as ``rich_help_panel``; what belongs to one command alone stays without."""

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings in TOML; --set and options override it.", rich_help_panel=MORE),
]


def _let_help_alone(context: typer.Context, sets: list[str] | None) -> list[str] | None:
    """``--set help`` needs no other argument: what is missing is not asked for."""
    context.resilient_parsing = context.resilient_parsing or "help" in (sets or ())
    return sets


Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One setting; repeatable. --set help prints all of them.",
        rich_help_panel=MORE,
        is_eager=True,
        callback=_let_help_alone,
    ),
]

_PROFILES = ", ".join(PROFILES)


def _option(name: str, panel: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(name, metavar=metavar, help=help, rich_help_panel=panel, **more)


# Options that several commands have. As everywhere, None is "not given".
Model = Annotated[
    str | None, _option("--model", AGENT, "MODEL", "A model's directory, http://host:port/v1#model, or file.py:name.")
]
ProfileName = Annotated[
    str | None,
    _option(
        "--profile", AGENT, "NAME", f"What it was trained with: {_PROFILES} or a file; tiny by default, but not of an endpoint."
    ),
]
MaxTurns = Annotated[int | None, _option("--max-turns", AGENT, "N", "Most turns; the profile's by default.", min=1)]
Worlds = Annotated[
    list[Path] | None, _option("--world", PLACE, "DIR", "A world's directory; several for questions that name theirs.")
]
Web = Annotated[
    bool | None, typer.Option("--web", help="The live web instead, through Serper and Jina.", rich_help_panel=PLACE)
]
Faults = Annotated[
    str | None, _option("--faults", PLACE, "NAME", "Delays and failures: a profile's name or a file; none by default.")
]
Seed = Annotated[int | None, _option("--seed", RUN, "N", "Equal seeds give equal episodes; 0 by default.")]
Concurrency = Annotated[int | None, _option("--concurrency", RUN, "N", "Episodes at the same time; 8 by default.", min=1)]
Judges = Annotated[
    list[str] | None,
    _option("--judge", JUDGING, "JUDGE", "exact, f1:0.8, … or a model; of several the first to find it right settles it."),
]
MaxTokens = Annotated[int | None, _option("--max-tokens", BUDGET, "N", "Most tokens of all models together.", min=1)]
MaxCost = Annotated[float | None, _option("--max-cost", BUDGET, "N", "Most money; needs prices.", min=0.0)]


def settings(
    model: type[Config], file: Path | None = None, sets: Sequence[str] | None = None, given: Mapping[str, Any] | None = None
) -> Config:
    """The model's settings: its defaults, a TOML file over them, then ``--set``, then the options that were given.

    ``given``: options by the dotted key of their setting; None was not given. ``--set help``: see :func:`or_help`. Raises
    UserError, which tells all wrong settings at once.
    """
    if file is not None:
        return or_help(lambda sets: read_config(model, file, sets, given or {}), sets)
    return or_help(lambda sets: load_config(model, "", "the command", sets, given or {}), sets, model)


def or_help(read: Callable[[Sequence[str]], Config], sets: Sequence[str] | None, model: type[Config] | None = None) -> Config:
    """The settings that ``read`` makes of ``--set``.

    ``--set help`` prints them instead, with what file, recipe, options and the other ``--set`` make of them, and ends the
    command; where nothing else is set and settings are missing still, the defaults of ``model``.
    """
    others = [one for one in sets or () if one != "help"]
    if len(others) == len(sets or ()):
        return read(others)
    shown: Frozen | type[Frozen]
    try:
        shown = read(others)
    except UserError:
        if others or model is None:
            raise
        shown = model
    typer.echo(describe(shown), nl=False)
    raise typer.Exit


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


@contextmanager
def one_voice() -> "Iterator[Report]":
    """A run in one process, or as one of torchrun's, of which the first alone speaks: through the report, and in errors."""
    from sanderling.runs.progress import Report
    from sanderling.train.parallel.launch import speaks

    first = speaks()
    if not first:
        warnings.simplefilter("ignore")
    try:
        yield Report(Console(quiet=not first))
    except UserError:
        if first:
            raise
        time.sleep(_LAST_WORDS_S)
        raise typer.Exit(exits.USER_ERROR) from None
    except KeyboardInterrupt:
        if first:
            show("Interrupted: the same command without --fresh goes on where it stopped.", error=True)
        raise typer.Exit(exits.INTERRUPTED) from None
