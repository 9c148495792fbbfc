"""From raw files to supervised rows in one command."""
