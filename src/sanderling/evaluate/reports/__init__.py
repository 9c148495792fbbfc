"""Runs compared, and what is written down of them for people: tables, pages, trajectories to read."""
