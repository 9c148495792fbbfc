"""How far a world resembles calls that were recorded elsewhere, and whether agents rank alike in both."""
