"""Cleaning recipes: which steps are taken in which order, with which settings.

A step is a function of a draft, whose keyword arguments are its settings: it changes the draft, or says that the trajectory is
dropped. It never raises for any trajectory, and taking it twice is taking it once.
"""

import difflib
import tomllib
from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

from pydantic import AfterValidator, create_model, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside
from sanderling.data.cleaning import calls, filters, rewrites
from sanderling.data.cleaning.draft import Drop

STEPS: dict[str, Callable[..., Drop | None]] = {
    "whole": filters.keep_whole,
    "forbidden": filters.forbid_tools,
    "truncate": rewrites.truncate,
    "normalise": rewrites.normalise,
    "names": rewrites.canonical_names,
    "results": rewrites.structured_results,
    "prune": calls.prune_tools,
    "repeats": calls.drop_repeats,
    "malformed": calls.mend_turns,
    "repeat_limit": filters.limit_repeats,
    "min_calls": filters.demand_calls,
    "tool_errors": filters.limit_errors,
    "artefacts": filters.limit_artefacts,
    "reasoning": filters.demand_reasoning,
    "short_answer": rewrites.shorten_answer,
    "length": filters.limit_length,
    "ids": rewrites.whole_ids,
    "validate": filters.validate,
}
"""What each step does. A recipe may name others' own as well, ``file.py:name`` or ``package.module:name``: functions of a draft
whose keyword arguments have defaults."""


def _is_step(name: str) -> str:
    if name in STEPS or is_outside(name):
        return name
    *others, last = map(repr, STEPS)
    raise ValueError(f"input should be {', '.join(others)} or {last}")


class _Order(Frozen):
    """What is done, in which order, and for whom."""

    steps: tuple[Annotated[str, AfterValidator(_is_step)], ...]
    profile: str = "dr-venus-4b"  # what is cleaned for, where nothing else is asked for

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        twice = [step for step in self.steps if self.steps.count(step) > 1]
        if twice:
            raise ValueError(f"the step {twice[0]} is named twice: a second time would change nothing")
        return self


def _sections() -> dict[str, Any]:
    """For each step that has settings a section of that name: a model of the function's keyword arguments."""
    sections: dict[str, Any] = {}
    for name, step in STEPS.items():
        kinds = get_type_hints(step, include_extras=True)
        given = [one for one in signature(step).parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
        if given:
            fields: dict[str, Any] = {one.name: (kinds[one.name], one.default) for one in given}
            section = create_model(name, __base__=Frozen, **fields)
            sections[name] = (section, section())
    return sections


class CleaningRecipe(create_model("_Sections", __base__=_Order, **_sections())):
    """What is done, in which order, and how: a section for each step's settings."""


_NAMED = tomllib.loads((Path(__file__).parent / "recipes.toml").read_text(encoding="utf-8"))
RECIPES = {name: CleaningRecipe.model_validate(values) for name, values in _NAMED.items()}


def get_recipe(name: str) -> CleaningRecipe:
    """The recipe of that name. Raises UserError, with the nearest name, when there is none."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RECIPES)}, or give a TOML file."
    raise UserError(f"There is no cleaning recipe {name!r}: {hint}")
