"""The recipes of reinforcement learning by name, and how one is found. Importable without torch."""

from collections.abc import Sequence
from pathlib import Path

from sanderling.config import load_config, read_config
from sanderling.errors import UserError
from sanderling.recipes.rl.config import RlRecipe

RECIPES = ("dr-venus-4b", "literesearcher-4b", "agentcpm-explore-4b", "tiny")
"""Each a file beside this one."""


def find_rl_recipe(name: str, overrides: Sequence[str] = ()) -> RlRecipe:
    """The settings of a named recipe or of a TOML file, with overrides laid over them. Raises UserError."""
    if name.endswith(".toml"):
        return read_config(RlRecipe, Path(name), overrides)
    if name not in RECIPES:
        raise UserError(f"There is no recipe of RL {name!r}: choose {', '.join(RECIPES)}, or give a .toml file.")
    text = (Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return load_config(RlRecipe, text, f"{name}.toml", overrides)
