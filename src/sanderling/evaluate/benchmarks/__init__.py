"""Public benchmarks: a table of specifications, the rows of their files, and what a file holds."""
