"""Sanderling: build, train, measure and run edge-scale deep research agents."""

__version__ = "0.1.0"
