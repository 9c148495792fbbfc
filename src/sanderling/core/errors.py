"""Errors that reach a person."""


class UserError(Exception):
    """Something the user can cause or mend: one sentence on what is wrong and what to do, printed before status 2."""
