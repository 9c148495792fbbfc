"""The live web as a world."""
