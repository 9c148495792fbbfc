"""The data pipeline: raw files to supervised rows, step by step, with one report."""
