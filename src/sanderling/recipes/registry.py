"""The recipes by name, written out, and how one is found. Importable without torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.config import load_config, read_config
from sanderling.errors import UserError
from sanderling.recipes.progress import Report
from sanderling.recipes.tiny.config import TinyConfig

_HERE = Path(__file__).parent

QUICK = (
    "title='tiny, quick'",
    "worlds.train=4",
    "questions.per_world=60",
    "questions.held_out=40",
    "questions.validation=16",
    "sft.max_steps=30",
    "rl.steps=3",
)
"""What `--quick` lays over the recipe: every stage runs, and nothing is learnt well enough to claim."""


@dataclass(frozen=True)
class Recipe:
    """A recipe that can be run."""

    name: str
    run: Callable[[Path, Report, str], None]
    """``run(directory, report, command)``."""


def find_recipe(name: str, *, quick: bool = False, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or the tiny one with the settings of a TOML file. Raises UserError."""
    from sanderling.recipes.tiny.run import run_tiny

    laid_over = [*(QUICK if quick else ()), *overrides]
    if name == "tiny":
        text = (_HERE / "tiny.toml").read_text(encoding="utf-8")
        config = load_config(TinyConfig, text, "tiny.toml", laid_over)
    elif name.endswith(".toml"):
        config = read_config(TinyConfig, Path(name), laid_over)
    else:
        raise UserError(f"There is no recipe {name!r}: choose tiny, or give a .toml file with its settings.")
    return Recipe(
        "tiny" if name == "tiny" else Path(name).stem, lambda out, report, command: run_tiny(config, out, report, command)
    )
