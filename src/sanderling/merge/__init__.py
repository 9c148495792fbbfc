"""Merging of models in the space of their parameters, and the sweep that shows which coefficients keep which skill."""
