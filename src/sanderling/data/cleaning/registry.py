"""The steps by name: literal, nothing is discovered."""

from collections.abc import Callable
from functools import partial

from sanderling.data.cleaning.contract import Step, Target
from sanderling.data.cleaning.recipe import CleaningRecipe, StepName
from sanderling.data.cleaning.steps.artefacts import limit_artefacts
from sanderling.data.cleaning.steps.forbidden import forbid_tools
from sanderling.data.cleaning.steps.ids import whole_ids
from sanderling.data.cleaning.steps.length import limit_length
from sanderling.data.cleaning.steps.malformed import mend_turns
from sanderling.data.cleaning.steps.min_calls import demand_calls
from sanderling.data.cleaning.steps.names import canonical_names
from sanderling.data.cleaning.steps.normalise import normalise
from sanderling.data.cleaning.steps.prune import prune_tools
from sanderling.data.cleaning.steps.reasoning import demand_reasoning
from sanderling.data.cleaning.steps.repeat_limit import limit_repeats
from sanderling.data.cleaning.steps.repeats import drop_repeats
from sanderling.data.cleaning.steps.results import structured_results
from sanderling.data.cleaning.steps.short_answer import shorten_answer
from sanderling.data.cleaning.steps.tool_errors import limit_errors
from sanderling.data.cleaning.steps.truncate import truncate
from sanderling.data.cleaning.steps.validate import validate
from sanderling.data.cleaning.steps.whole import keep_whole

STEPS: dict[StepName, Callable[[CleaningRecipe, Target], Step]] = {
    StepName.WHOLE: lambda recipe, target: keep_whole,
    StepName.FORBIDDEN: lambda recipe, target: partial(forbid_tools, settings=recipe.forbidden),
    StepName.TRUNCATE: lambda recipe, target: partial(truncate, target=target),
    StepName.NORMALISE: lambda recipe, target: partial(normalise, settings=recipe.normalise, target=target),
    StepName.NAMES: lambda recipe, target: partial(canonical_names, settings=recipe.names, target=target),
    StepName.RESULTS: lambda recipe, target: partial(structured_results, settings=recipe.results, target=target),
    StepName.PRUNE: lambda recipe, target: partial(prune_tools, settings=recipe.prune, target=target),
    StepName.REPEATS: lambda recipe, target: partial(drop_repeats, settings=recipe.repeats, target=target),
    StepName.MALFORMED: lambda recipe, target: partial(mend_turns, settings=recipe.malformed, target=target),
    StepName.REPEAT_LIMIT: lambda recipe, target: partial(limit_repeats, settings=recipe.repeat_limit, target=target),
    StepName.MIN_CALLS: lambda recipe, target: partial(demand_calls, settings=recipe.min_calls),
    StepName.TOOL_ERRORS: lambda recipe, target: partial(limit_errors, settings=recipe.tool_errors),
    StepName.ARTEFACTS: lambda recipe, target: partial(limit_artefacts, settings=recipe.artefacts),
    StepName.REASONING: lambda recipe, target: partial(demand_reasoning, settings=recipe.reasoning, target=target),
    StepName.SHORT_ANSWER: lambda recipe, target: partial(shorten_answer, settings=recipe.short_answer, target=target),
    StepName.LENGTH: lambda recipe, target: partial(limit_length, settings=recipe.length),
    StepName.IDS: lambda recipe, target: partial(whole_ids, target=target),
    StepName.VALIDATE: lambda recipe, target: partial(validate, target=target),
}
"""Each step's name, and how it is made for a recipe and a target."""


def steps_of(recipe: CleaningRecipe, target: Target) -> list[tuple[StepName, Step]]:
    """A recipe's steps, ready to be taken."""
    return [(name, STEPS[name](recipe, target)) for name in recipe.steps]
