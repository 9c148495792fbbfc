"""The recipes of reinforcement learning by name, and how one is found. Importable without torch."""

from collections.abc import Sequence
from pathlib import Path

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.recipes.rl.config import RlRecipe, StageConfig

RECIPES = ("dr-venus-4b", "literesearcher-4b", "agentcpm-explore-4b", "tiny")
"""Each a file beside this one."""


def find_rl_recipe(name: str, overrides: Sequence[str] = ()) -> RlRecipe:
    """The settings of a named recipe or of a TOML file, with overrides laid over them. Raises UserError."""
    if name.endswith(".toml"):
        return _checked(read_config(RlRecipe, Path(name), overrides), overrides)
    if name not in RECIPES:
        raise UserError(f"There is no recipe of RL {name!r}: choose {', '.join(RECIPES)}, or give a .toml file.")
    text = (Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return _checked(load_config(RlRecipe, text, f"{name}.toml", overrides), overrides)


def _checked(recipe: RlRecipe, overrides: Sequence[str]) -> RlRecipe:
    """The recipe; raises UserError for what is set for the run while every stage has its own."""
    for key in (override.partition("=")[0].strip() for override in overrides):
        section, _, name = key.rpartition(".")
        if section not in ("rl", "rollout") or name not in StageConfig.model_fields or not recipe.stages:
            continue
        if all(getattr(stage, name) is not None for stage in recipe.stages.values()):
            ways = " and ".join(f"stages.{stage}.{name}" for stage in recipe.stages)
            raise UserError(f"Each stage has its own {name}, so {key} would change nothing: set {ways}.")
    return recipe
