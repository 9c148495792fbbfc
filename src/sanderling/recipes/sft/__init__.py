"""Supervised fine-tuning as a command: settings, rows, processes, the run and its result."""
