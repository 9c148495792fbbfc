"""The recipes of supervised fine-tuning by name, and how one is found. Importable without torch."""

from collections.abc import Sequence
from pathlib import Path

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.train.sft_config import SftConfig

RECIPES = ("lora-24gb", "dr-venus-4b", "literesearcher-4b", "agentcpm-explore-4b")
"""Each a file beside this one."""


def find_sft_recipe(name: str, overrides: Sequence[str] = ()) -> SftConfig:
    """The settings of a named recipe or of a TOML file, with overrides laid over them. Raises UserError."""
    if name.endswith(".toml"):
        return read_config(SftConfig, Path(name), overrides)
    if name not in RECIPES:
        raise UserError(f"There is no training recipe {name!r}: choose {', '.join(RECIPES)}, or give a .toml file.")
    text = (Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return load_config(SftConfig, text, f"{name}.toml", overrides)
