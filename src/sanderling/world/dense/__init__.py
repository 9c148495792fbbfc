"""Dense search: embedders, a store of vectors beside a world, exact and approximate ranking, fusion with full text."""
