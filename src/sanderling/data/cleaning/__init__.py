"""Cleaning: raw trajectories to what may be imitated, step by step, each with a name, a count and an example."""
