"""Recipes by name: each is a TOML file of settings in the folder of its kind, beside this file. Importable without torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.rl.config import RlRecipe

Config = TypeVar("Config", bound=BaseModel)


def recipe_names(kind: str) -> list[str]:
    """The recipes of a kind (empty: the tiny one). Example: ``recipe_names("sft")``."""
    return sorted(file.stem for file in (Path(__file__).parent / kind).glob("*.toml"))


def find_settings(
    kind: str, model: type[Config], name: str, overrides: Sequence[str] = (), given: Mapping[str, Any] = MappingProxyType({})
) -> Config:
    """The settings of a named recipe, or of a TOML file; overrides and what is given as in `core.config.load_config`.

    Example: ``find_settings("sft", SftConfig, "lora-24gb", ["trainer.lr=2e-5"], {"model": model})``
    """
    if name.endswith(".toml"):
        return read_config(model, Path(name), overrides, given)
    names = recipe_names(kind)
    if name not in names:
        raise UserError(f"There is no recipe {name!r}: choose {', '.join(names)}, or give a .toml file.")
    text = (Path(__file__).parent / kind / f"{name}.toml").read_text(encoding="utf-8")
    return load_config(model, text, f"{name}.toml", overrides, given)


def find_rl_recipe(name: str, overrides: Sequence[str] = (), given: Mapping[str, Any] = MappingProxyType({})) -> RlRecipe:
    """A recipe of `train rl`. Raises UserError."""
    return find_settings("rl", RlRecipe, name, overrides, given)
