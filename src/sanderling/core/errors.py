"""Errors that reach a person.

Contract: every failure that a user can cause or mend is raised as a :class:`UserError` whose message is one sentence saying
what is wrong and what to do. The command line prints that sentence and exits with status 2; besides, only full disks and
missing permissions are caught there.
"""


class UserError(Exception):
    """Something the user can mend; the message is one sentence that says how."""
