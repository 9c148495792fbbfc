"""Reading a call's arguments: tolerant where the meaning is plain, one sentence where it is not.

A string where a list of strings is expected is a list of one. Arguments that no schema names are ignored. Pure functions.
"""

from collections.abc import Mapping
from typing import Any


class BadArgumentsError(Exception):
    """The arguments cannot be read; the message is one sentence that names the right shape."""


def _clean(text: str) -> str:
    """Without lone surrogates (JSON escapes can smuggle them in), which no page and no tokenizer knows."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def string_list(arguments: Mapping[str, Any], name: str, tool: str, example: str) -> list[str]:
    """A non-empty list of non-blank strings. Raises BadArgumentsError."""
    value = arguments.get(name)
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        items = [_clean(item).strip() for item in value]
        if all(items):
            return items
    raise BadArgumentsError(
        f'{tool} needs "{name}" as a list of one or more non-empty strings, such as {{"{name}": ["{example}"]}}.'
    )


def optional_string(arguments: Mapping[str, Any], name: str, tool: str, example: str) -> str:
    """A string; absent or null is empty. Raises BadArgumentsError."""
    value = arguments.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return _clean(value).strip()
    raise BadArgumentsError(f'{tool} needs "{name}" as a string, such as {{"{name}": "{example}"}}.')
