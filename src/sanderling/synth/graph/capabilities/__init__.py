"""One generator for each capability; the registry has them all."""
