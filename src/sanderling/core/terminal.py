"""Text from outside on a person's terminal: nothing recorded, sampled or found on a page may move the cursor."""

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_UNPRINTABLE = re.compile("[\x80-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with control characters as their pictures, and what would break an encoding or turn a line as U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", _CONTROL.sub(lambda found: chr(0x2400 + min(ord(found[0]), 0x21)), text))
