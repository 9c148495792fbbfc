"""Cleaning: raw trajectories to what may be imitated, step by step, each with a name, a count and an example.

Contract: a step is a pure function that keeps, changes or drops a trajectory and says so in codes; a recipe is an order of
steps with their settings; what came in is what was kept and what was dropped. Judges no answer and knows no model.
"""

from sanderling.data.cleaning.contract import Dropped, Outcome, Reason, Target
from sanderling.data.cleaning.named import RECIPES, get_recipe
from sanderling.data.cleaning.recipe import CleaningRecipe, StepName
from sanderling.data.cleaning.report import CleanReport
from sanderling.data.cleaning.run import CleanStream, clean_stream

__all__ = [
    "RECIPES",
    "CleanReport",
    "CleanStream",
    "CleaningRecipe",
    "Dropped",
    "Outcome",
    "Reason",
    "StepName",
    "Target",
    "clean_stream",
    "get_recipe",
]
