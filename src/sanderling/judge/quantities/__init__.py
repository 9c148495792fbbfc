"""Numbers as people write them: read, with their units, and compared. Knows no judge and no trajectory."""
