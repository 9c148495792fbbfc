"""Reinforcement learning: `run` tells the story, the other modules are its parts. The settings import without torch."""
