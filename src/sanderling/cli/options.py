"""What all commands share: settings from a file, ``--set`` and options; options that several of them have; tables.

A command reads a config model, calls one function of its room, and prints; docs/contributing.md shows one. It has at most
twelve options of its own, and everything else is a field of the model.
"""

import re
import shlex
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table

from sanderling.cli import INTERRUPTED, USER_ERROR
from sanderling.core.config import Frozen, describe, load_config, read_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES
from sanderling.core.text import visible

if TYPE_CHECKING:
    from sanderling.runs.progress import Report

Config = TypeVar("Config", bound=Frozen)
_INTERPRETER = re.compile(r"python[\d.]*|node|npx|uvx?|bunx?|deno")
_SCRIPT = re.compile(r"[^\s()\"';]+")  # and no program in one line
_LAST_WORDS_S = 5  # torchrun ends all processes as soon as one has failed: the first gets so long to say why

AGENT, PLACE, JUDGING, BUDGET, RUN = "Who researches", "Where", "Who judges", "What it may cost", "The run"
MORE = "Every other setting"  # groups of options in a command's help; what belongs to one command alone stays without


def option(name: str, help: str, metavar: str | None = None, panel: str | None = None, **more: Any) -> Any:
    """An option with its help, in one of the groups above."""
    return typer.Option(name, help=help, metavar=metavar, rich_help_panel=panel, **more)


def argument(metavar: str, help: str) -> Any:
    """An argument, by the name that help calls it."""
    return typer.Argument(metavar=metavar, help=help)


def _let_help_alone(context: typer.Context, sets: list[str] | None) -> list[str] | None:
    """``--set help`` needs no other argument: what is missing is not asked for."""
    context.resilient_parsing = context.resilient_parsing or "help" in (sets or ())
    return sets


_SET = "Override one setting; repeatable. --set help lists them."
_PROFILE = f"The profile the model was trained with: {', '.join(PROFILES)} or a file; of an endpoint general."
_JUDGES = "exact, f1:0.8, … or a model; repeatable: the first that accepts an answer decides."

# Options that several commands have. As everywhere, None is "not given".
ConfigFile = Annotated[Path | None, option("--config", "Settings in TOML; --set and options override it.", "FILE", MORE)]
Set = Annotated[list[str] | None, option("--set", _SET, "KEY=VALUE", MORE, is_eager=True, callback=_let_help_alone)]
Model = Annotated[
    str | None, option("--model", "A model's directory, http://host:port/v1#model, or file.py:name.", "MODEL", AGENT)
]
ProfileName = Annotated[str | None, option("--profile", _PROFILE, "NAME", AGENT)]
Device = Annotated[str | None, option("--device", "Where a model's directory runs: cpu, cuda, cuda:1, mps.", "DEVICE", AGENT)]
Dtype = Annotated[str | None, option("--dtype", "Its precision: float32 or bfloat16.", "DTYPE", AGENT)]
Worlds = Annotated[list[Path] | None, option("--world", "Directory of a world; repeatable.", "DIR", PLACE)]
Docs = Annotated[list[Path] | None, option("--docs", "A folder of documents; repeatable.", "FOLDER", PLACE)]
Web = Annotated[bool | None, option("--web", "The live web.", panel=PLACE)]
Mcp = Annotated[
    list[str] | None,
    option("--mcp", "A tool server that speaks MCP: its URL, or its command in quotes; repeatable.", "SERVER", PLACE),
]
Dock = Annotated[str | None, option("--dock", "A dock of tool servers (sanderling dock up): its address.", "URL", PLACE)]
Tools = Annotated[list[str] | None, option("--tool", "A tool of your own, file.py:name; repeatable.", "TOOL", PLACE)]
Faults = Annotated[
    str | None, option("--faults", "Simulated delays and failures: a name or a TOML file; none by default.", "NAME", PLACE)
]
Seed = Annotated[int | None, option("--seed", "The same seed gives the same episodes; 0 by default.", "N", RUN)]
Concurrency = Annotated[int | None, option("--concurrency", "In flight at the same time; 8 by default.", "N", RUN, min=1)]
Judges = Annotated[list[str] | None, option("--judge", _JUDGES, "JUDGE", JUDGING)]
MaxTokens = Annotated[int | None, option("--max-tokens", "Token limit of all models together.", "N", BUDGET, min=1)]
MaxCost = Annotated[float | None, option("--max-cost", "Cost limit; needs prices.", "N", BUDGET, min=0.0)]
Attempts = Annotated[int | None, option("--attempts", "Attempts per question.", "N", RUN, min=1)]
Progress = Annotated[bool, option("--progress/--no-progress", "Show progress on standard error.", panel=RUN)]
Fresh = Annotated[bool, option("--fresh", "Delete the run in this directory and start over.", panel=RUN)]


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


def _server_name(command: Sequence[str]) -> str:
    """The name of a command's program, or of the script, module or package that an interpreter runs."""
    script = next((word for word in command[1:] if not word.startswith("-") and word != "run"), "")
    if not (_INTERPRETER.fullmatch(Path(command[0]).name) and _SCRIPT.fullmatch(script)):
        return Path(command[0]).name
    return re.sub(r"\.(?:py|[cm]?[jt]s)$|[@=<>].*", "", Path(script).name) or Path(command[0]).name


def servers(given: Sequence[str] | None, section: str) -> dict[str, Any]:
    """What ``--mcp`` sets, for servers that are named by their host, script or program. Raises UserError."""
    found: dict[str, Any] = {}
    for words in given or ():
        is_url = words.startswith(("http://", "https://"))
        try:
            command = [] if is_url else shlex.split(words)
            name = (urlsplit(words).hostname or "") if is_url else _server_name(command)
        except (ValueError, IndexError):
            raise UserError(
                f"--mcp {words!r} is neither a URL nor a command: write http://host:port/mcp, or 'program arguments'."
            ) from None
        key = f"{section}.{re.sub('[^A-Za-z0-9_-]+', '-', name)}"
        names = chain([key], (f"{key}-{number}" for number in count(2)))
        free = next(name for name in names if f"{name}.url" not in found and f"{name}.command" not in found)
        found |= {f"{free}.url": words} if is_url else {f"{free}.command": command}
    return found


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
    """A table that fits 80 columns: long text folds, columns whose name begins with ``>`` hold figures and never do."""
    made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        is_figure = name.startswith(">")
        made.add_column(name.lstrip(">"), justify="right" if is_figure else "left", no_wrap=is_figure, overflow="fold")
    return made


def counted(counts: Mapping[Any, int]) -> str:
    """Counts in words, the largest first: ``2 empty, 1 at an address that has a page``."""
    return ", ".join(f"{count:,} {name}" for name, count in Counter(counts).most_common() if count) or "none"


_WIDEST = 400  # characters of a table in a file


def show(*things: RenderableType, error: bool = False) -> None:
    """Print texts as they are, never wrapped, and tables; ``error``: to standard error, as all that is no result."""
    console = Console(stderr=error, highlight=False, emoji=False)
    for thing in things:
        if isinstance(thing, str):
            console.print(visible(thing), markup=False, soft_wrap=True)
            continue
        for column in thing.columns if isinstance(thing, Table) else ():
            column.overflow = "fold"  # no figure is cut
        whole = Measurement.get(console, console.options.update(max_width=_WIDEST), thing).maximum
        (console if console.is_terminal else Console(stderr=error, width=max(whole, console.width))).print(thing)


@contextmanager
def one_voice() -> "Iterator[Report]":
    """A run in one process, or as one of torchrun's, of which the first alone speaks: through the report, and in errors."""
    from sanderling.runs.progress import Report
    from sanderling.train.launch import speaks

    first = speaks()
    if not first:
        warnings.simplefilter("ignore")
    try:
        yield Report(Console(quiet=not first))
    except UserError:
        if first:
            raise
        time.sleep(_LAST_WORDS_S)
        raise typer.Exit(USER_ERROR) from None
    except KeyboardInterrupt:
        if first:
            show("Interrupted: run the same command again to resume, without --fresh if it has it.", error=True)
        raise typer.Exit(INTERRUPTED) from None
