"""Supervised fine-tuning, whole: settings, rows, the loop, the run as a command."""
