"""Co-construction: the searches of accepted questions bring new pages into their world, which the next questions come from."""
