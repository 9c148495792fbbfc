"""The one command, ``sanderling``: it finds the sub-command, runs it, and turns failures into one sentence.

A sub-command's module is imported only when it is called, so ``--help`` is quick and works without torch. Failures a person can
mend (`UserError`, full disks, places without permission, their own files) are printed as one sentence with exit status 2; an
interrupt exits with 130; anything else is a bug, and its traceback is shown.
"""

import errno
import io
import sys
import traceback
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import typer

from sanderling import __version__
from sanderling.cli import INTERRUPTED, USER_ERROR
from sanderling.core.errors import EXTRAS, UserError


@dataclass(frozen=True)
class Command:
    """Where a sub-command lives, and what ``--help`` says of it."""

    module: str
    attribute: str  # a typer.Typer (a group of commands) or a function (one command)
    help: str
    panel: str = "More"  # the group under which ``--help`` lists it


COMMANDS = {
    "ask": Command("sanderling.cli.ask", "ask", "Research one question and watch the turns.", "Ask"),
    "history": Command("sanderling.cli.session", "history", "List the questions that are kept.", "Ask"),
    "show": Command("sanderling.cli.session", "show_record", "Print a session or a trajectory readably.", "Ask"),
    "resume": Command("sanderling.cli.session", "resume", "Go on with a question that was interrupted.", "Ask"),
    "export": Command("sanderling.cli.session", "export", "Write a session to a capsule, Markdown, HTML or JSON lines.", "Ask"),
    "replay": Command("sanderling.cli.session", "replay", "Run a capsule again, or let another model research it.", "Ask"),
    "doctor": Command("sanderling.cli.doctor", "doctor", "Find out what a model's server speaks.", "Ask"),
    "world": Command("sanderling.cli.world", "app", "Build an offline web, search it, visit its pages.", "Make"),
    "tools": Command("sanderling.cli.tools", "app", "Serve an agent's places and tools over MCP.", "Make"),
    "dock": Command("sanderling.cli.dock", "app", "Pools of tool servers behind one address.", "Make"),
    "synth": Command("sanderling.cli.synth", "app", "Questions from a world: make, verify, find out how hard.", "Make"),
    "data": Command("sanderling.cli.data", "app", "Raw trajectories into supervision: import, clean, judge, resample.", "Make"),
    "model": Command("sanderling.cli.train", "models", "Make a randomly initialised model, for tests and benchmarks.", "Make"),
    "train": Command("sanderling.cli.train", "app", "Fine-tune a model: SFT or RL, whole or LoRA, one device or many.", "Make"),
    "rl": Command("sanderling.cli.train", "learning", "Find out whether information gain can teach a policy.", "Make"),
    "merge": Command("sanderling.cli.merge", "app", "Merge models of one base, and sweep the coefficients.", "Make"),
    "recipe": Command("sanderling.cli.train", "recipes", "Run a whole recipe: worlds, data, SFT, RL, evaluation.", "Make"),
    "eval": Command("sanderling.cli.evaluate", "app", "Measure agents on public benchmarks, whose files you bring.", "Measure"),
}

_FULL_OR_CLOSED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}
_PLACES = frozenset({*_FULL_OR_CLOSED, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG})
"""Full disks, closed doors, a folder where a file should be: never a bug, wherever they are met."""


def build_app(chosen: str | None = None) -> typer.Typer:
    """The application with the real sub-command ``chosen``; the others are there by name and help only."""
    app = typer.Typer(
        name="sanderling",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},  # every command below inherits them
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        target = getattr(import_module(command.module), command.attribute) if name == chosen else _placeholder
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name, help=command.help, rich_help_panel=command.panel)
        else:
            app.command(name, help=command.help, rich_help_panel=command.panel)(target)
    return app


def main() -> None:
    """Entry point of the ``sanderling`` command."""
    # Warnings are for the person at the terminal: no file and line of our own code.
    warnings.showwarning = lambda message, *_, **__: _say("warning:", "yellow", str(message))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without some character shows the rest all the same
    try:
        # The sub-command's name is the first argument that is no option: the root has flags only.
        build_app(next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None))()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if not (told := sentence(error)):
            raise
        fail(told)


def sentence(error: Exception) -> str:
    """What a person reads in place of a traceback; empty for a bug of ours."""
    if isinstance(error, ExceptionGroup):
        return sentence((error.subgroup(UserError) or error).exceptions[0])
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if extra := next((extra for extra, packages in EXTRAS.items() if package in packages), None):
            return f"This command needs {error.name}: run pip install '.[{extra}]' in sanderling's own folder."
    if isinstance(error, OSError) and error.errno in _PLACES:
        place = f"use {error.filename2 or error.filename}" if error.filename else "write"
        advice = "free some space, or choose a place that you can read and write"
        return f"Cannot {place} ({error.strerror}): {advice if error.errno in _FULL_OR_CLOSED else 'choose another place'}."
    from sanderling.core.plugins import OUTSIDE  # brings pydantic, which --help does without

    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        if module.startswith(OUTSIDE):
            return f"{frame.f_code.co_filename}:{line} raised {type(error).__name__} ({error}): mend it there."
        if module.startswith("sanderling."):
            break
    return ""


def fail(message: str) -> None:
    """Print one sentence to standard error and exit with status 2."""
    _say("error:", "bold red", message)
    sys.exit(USER_ERROR)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sanderling {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Small models, long research: build, train, measure and run edge-scale deep research agents."""


def _placeholder() -> None:
    """Stands in for a sub-command that was not called."""


def _say(label: str, style: str, message: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from sanderling.core.text import visible

    shown = "\n".join(map(visible, message.split("\n")))
    Console(stderr=True).print(Text.assemble((label, style), " ", shown), soft_wrap=True)
