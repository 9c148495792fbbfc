"""Packed lines of tokens: how rows share one forward pass, what attends to what, log-probabilities and the scorer."""
