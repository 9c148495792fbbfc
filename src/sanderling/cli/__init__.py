"""The command line. Exit statuses beside 0, on which scripts can rely, stand here."""

NO_ANSWER = 1
"""An episode ended without an answer, or a page could not be read."""
USER_ERROR = 2
"""Something that a person can mend; one sentence says how."""
UNFINISHED = 3
"""A budget was spent, or a server stayed away, before the work was done: run the same command again to resume."""
INTERRUPTED = 130
"""Ctrl-C."""
