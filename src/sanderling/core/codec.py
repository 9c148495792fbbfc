r"""One record as one line of JSON, exactly.

Contract: ``decode_record(encode_record(x)) == x`` for every record made of pydantic models, tuples, enums and JSON values,
including -0.0, NUL, and lone surrogates (a model can write ``"\ud83d"`` in a call's arguments, and a run must not lose its
episode over that). Text is UTF-8 for people to read; only a line that holds a lone surrogate falls back to ASCII escapes.
Non-finite numbers are written as Python's json writes them. Knows nothing of files.
"""

import json
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import SCHEMA_VERSION, Trajectory

_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SCALARS = (str, int, float, bool, type(None))


class NewerSchemaError(ValueError):
    """A record that a later version wrote: nothing is wrong with it."""


def encode_record(record: Any) -> bytes:
    """One line of JSON without its newline. Raises UserError for what JSON cannot hold exactly."""
    try:
        text = json.dumps(record, default=_fields, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"A record cannot be written as JSON ({error}): keep plain JSON values in it.") from error
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        if _SPLIT_PAIR.search(text):
            raise UserError(
                "A record holds a character as two separate surrogates: join them with "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16')."
            ) from None
        return json.dumps(record, default=_fields, separators=(",", ":")).encode("ascii")


def decode_record(line: bytes) -> Any:
    """The JSON value of a line. Raises ValueError (bad JSON or bad UTF-8)."""
    try:
        return json.loads(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """One line for a trajectory. Raises UserError when a free-form field holds more than JSON values."""
    check_json(trajectory.meta, "meta")
    check_json(trajectory.question.meta, "question.meta")
    for index, node in enumerate(trajectory.nodes):
        check_json(node.raw, f"nodes[{index}].raw")
        for call in node.calls:
            check_json(call.arguments, f"nodes[{index}].calls.arguments")
    return encode_record(trajectory)


def decode_trajectory(value: Any) -> Trajectory:
    """A trajectory from its JSON value. Raises ValueError with a short reason."""
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    version = value.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerSchemaError(f"it has schema version {version}, newer than {SCHEMA_VERSION}: update sanderling")
    try:
        return Trajectory.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None


def check_json(value: Any, where: str) -> None:
    """Raise UserError unless ``value`` is dicts with text keys, lists and JSON scalars, which JSON returns unchanged."""
    pending = [value]
    while pending:
        item = pending.pop()
        if type(item) is dict:
            if not all(isinstance(key, str) for key in item):
                raise UserError(f"The field {where} has a key that is not text: use text keys, as JSON does.")
            pending.extend(item.values())
        elif type(item) is list:
            pending.extend(item)
        elif not isinstance(item, _SCALARS):
            raise UserError(
                f"The field {where} holds a {type(item).__name__}: keep only JSON values (lists, not tuples) in it."
            )


def _fields(value: object) -> dict[str, Any]:
    """A model's fields as they are: unlike ``model_dump``, no limit on the depth of free-form values."""
    if isinstance(value, BaseModel):
        return vars(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
