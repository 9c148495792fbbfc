"""Named recipes: literal, the source of each value beside it.

Filters stand after the steps that take something away, so that what passes once passes again: cleaning twice is cleaning once.
"""

import difflib

from sanderling.core.errors import UserError
from sanderling.data.cleaning.recipe import CleaningRecipe, StepName
from sanderling.data.cleaning.steps.length import LengthSettings
from sanderling.data.cleaning.steps.repeat_limit import RepeatLimitSettings

DR_VENUS = CleaningRecipe(  # the order of its released cleaner
    steps=(
        StepName.NORMALISE,
        StepName.NAMES,
        StepName.RESULTS,
        StepName.PRUNE,
        StepName.REPEATS,
        StepName.MALFORMED,
        StepName.IDS,
        StepName.VALIDATE,
    ),
)

LITERESEARCHER = CleaningRecipe(  # arXiv 2604.17931, filters and cleaning of SFT data; its numbers are the settings' defaults
    steps=(
        StepName.FORBIDDEN,
        StepName.TRUNCATE,
        StepName.NORMALISE,
        StepName.NAMES,
        StepName.REASONING,
        StepName.SHORT_ANSWER,
        StepName.RESULTS,
        StepName.PRUNE,
        StepName.MALFORMED,
        StepName.REPEAT_LIMIT,
        StepName.MIN_CALLS,
        StepName.TOOL_ERRORS,
        StepName.ARTEFACTS,
        StepName.IDS,
        StepName.VALIDATE,
    ),
    profile="literesearcher-4b",
)

AGENTCPM = CleaningRecipe(  # arXiv 2602.06485: extreme trajectories, noise of the environment, errors of form are filtered out
    steps=(
        StepName.NORMALISE,
        StepName.NAMES,
        StepName.RESULTS,
        StepName.PRUNE,
        StepName.MALFORMED,
        StepName.REPEAT_LIMIT,
        StepName.TOOL_ERRORS,
        StepName.IDS,
        StepName.LENGTH,
        StepName.VALIDATE,
    ),
    profile="agentcpm-explore-4b",
    length=LengthSettings(most_characters=84_000),  # its SFT code drops 21,000 tokens and more; four characters each
    repeat_limit=RepeatLimitSettings(most=4),  # its RL scripts stop an agent after four repeats
)

MINIMAL = CleaningRecipe(steps=(StepName.WHOLE,), profile="tiny")  # for records of our own loop: nothing is rewritten

RECIPES: dict[str, CleaningRecipe] = {
    "dr-venus": DR_VENUS,
    "literesearcher": LITERESEARCHER,
    "agentcpm": AGENTCPM,
    "minimal": MINIMAL,
}


def get_recipe(name: str) -> CleaningRecipe:
    """The recipe of that name. Raises UserError, with the nearest name, when there is none."""
    found = RECIPES.get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RECIPES)}, or give a TOML file."
    raise UserError(f"There is no cleaning recipe {name!r}: {hint}")
