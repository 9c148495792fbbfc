"""Faults, delays and noise for worlds, drawn from seeds: profiles, pure draws, and a world around a world."""
