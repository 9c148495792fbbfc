"""Worlds on disk: pages, the index over them, near-duplicates, how they are built and opened."""
