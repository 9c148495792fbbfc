"""How far a world resembles recorded calls: pure measures over lists, snippets, domains and visits. Knows no live web."""
