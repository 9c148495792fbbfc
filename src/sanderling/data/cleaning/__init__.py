"""Cleaning: raw trajectories to what may be imitated, step by step, each with a name, a count and an example."""

from sanderling.data.cleaning.draft import Drop, Note, Reason
from sanderling.data.cleaning.recipe import RECIPES, STEPS, Cleaner, CleaningRecipe, Dropped, Outcome, get_recipe
from sanderling.data.cleaning.report import CleanReport

__all__ = [
    "RECIPES",
    "STEPS",
    "CleanReport",
    "Cleaner",
    "CleaningRecipe",
    "Drop",
    "Dropped",
    "Note",
    "Outcome",
    "Reason",
    "get_recipe",
]
