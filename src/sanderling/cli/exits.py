"""Exit statuses of the command, beside 0: scripts can rely on them."""

NO_ANSWER = 1
"""An episode ended without an answer, or a page could not be read."""
USER_ERROR = 2
"""Something that a person can mend; one sentence says how."""
INTERRUPTED = 130
"""Ctrl-C."""
