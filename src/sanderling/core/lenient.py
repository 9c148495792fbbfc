"""JSON as models write it: strict, then with raw control characters in strings, then JSON5.

Values come out clean: nothing in them that JSON, UTF-8, a database or a search engine could not take. No text makes a function
raise, and all take linear time.
"""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import json5

_MAX_DEPTH = 32
_MAX_JSON5_CHARS = 8_000
"""json5 is written in Python, about five microseconds a character: longer texts are given up."""
_MOST_OPENINGS = 32
_SURROGATE = re.compile("[\ud800-\udfff]")


# NaN and the infinities have no place in JSON: they stay as words.
_STRICT, _LOOSE = (json.JSONDecoder(parse_constant=str, strict=strict) for strict in (True, False))


def without_surrogates(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, as U+FFFD; of the same length."""
    return _SURROGATE.sub("\ufffd", text)


def decode_json(text: str, start: int = 0) -> tuple[Any, int, bool] | None:
    """The JSON value that begins at ``start``: value, index after it, whether leniency was needed. None: no value there."""
    for decoder in (_STRICT, _LOOSE):
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, start)
            return _clean(value), end, decoder is _LOOSE
    return None


def decode_json5(text: str) -> Any | None:
    """The whole text as one JSON5 value (single quotes, bare keys, trailing commas, comments), or None."""
    with suppress(ValueError, RecursionError):
        return _clean(json5.loads(text)) if len(text) <= _MAX_JSON5_CHARS else None
    return None


def find_object(reply: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """The first JSON object in a model's reply that is wanted, whatever stands around it; None when there is none.

    Reasoning before ``</think>`` is passed over; a code fence, words before and after, and JSON5's liberties do no harm.
    """
    text = reply.rpartition("</think>")[2]
    for opening in islice(re.finditer("{", text), _MOST_OPENINGS):
        decoded = decode_json(text, opening.start())
        if decoded is not None and isinstance(decoded[0], dict) and wanted(decoded[0]):
            return decoded[0]
    loose = decode_json5(text[text.find("{") : text.rfind("}") + 1]) if "{" in text else None
    return loose if isinstance(loose, dict) and wanted(loose) else None


def _clean(value: Any, depth: int = 0) -> Any:
    """Without NUL characters and lone surrogates; non-finite and giant numbers as strings. Raises ValueError when too deep."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested more than {_MAX_DEPTH} levels")
    if isinstance(value, str):
        return without_surrogates(value).replace("\x00", "")
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > 63:
        return hex(value)
    return value
