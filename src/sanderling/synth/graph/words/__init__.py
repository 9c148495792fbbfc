"""How relations are put into words: one file for each maker's relations, and a fallback for those that none knows."""
