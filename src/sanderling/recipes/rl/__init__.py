"""Reinforcement learning as a command: settings, stages, who samples, the run and its result."""
