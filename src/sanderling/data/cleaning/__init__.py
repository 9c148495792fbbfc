"""Cleaning: raw trajectories to what may be imitated, step by step, each with a name, a count and an example."""

from sanderling.data.cleaning.cleaner import Cleaner, CleanReport, Outcome
from sanderling.data.cleaning.draft import Drop, Note, Reason
from sanderling.data.cleaning.recipe import RECIPES, STEPS, CleaningRecipe, get_recipe

__all__ = ["RECIPES", "STEPS", "CleanReport", "Cleaner", "CleaningRecipe", "Drop", "Note", "Outcome", "Reason", "get_recipe"]
