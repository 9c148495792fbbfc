"""Settings from a TOML file with dotted overrides, checked by a frozen pydantic model.

A wrong key is refused with the nearest right one; a wrong value with the field's name and what is wrong with it.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates

Config = TypeVar("Config", bound=BaseModel)
_NO_SECTION = "input should be a section of settings, not a single value"
_NO_LIST = 'input should be a list in TOML, on the command line within single quotes, as in --set \'KEY=["one", "two"]\''
_PLAIN = (
    dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _NO_SECTION)
    | dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), _NO_LIST)
    | {"path_type": "input should be a path, in quotes"}
)
"""Kinds of pydantic's errors whose own words speak of Python."""
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")


class Frozen(BaseModel):
    """Data that does not change and has no unknown fields: the base of settings, records and manifests."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def load_config(model: type[Config], toml: str, origin: str, overrides: Sequence[str] = ()) -> Config:
    """The settings in ``toml`` with ``overrides`` (``"rl.steps=20"``) laid over them.

    Values of overrides are TOML, or else plain strings. ``origin`` names the text in errors. Raises UserError.
    """
    try:
        values = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{origin} is not valid TOML ({error}): mend that line.") from error
    for override in overrides:
        key, equals, text = override.partition("=")
        *parents, last = [part.strip() for part in key.split(".")]
        if not (equals and last and all(parents)):
            raise UserError(f"{override!r} is no override: write section.key=value.")
        if without_surrogates(override) != override:
            raise UserError(f"{override!r} is not text in UTF-8: write it in the terminal's encoding.")
        section = values
        for part in parents:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise UserError(f"{override!r} reaches into {part}, which is a value and not a section.")
        try:
            section[last] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            section[last] = text
    return check_config(model, values, origin)


def check_config(model: type[Config], values: dict[str, Any], origin: str) -> Config:
    """Values from ``origin`` as settings. Raises UserError."""
    _check_keys(model, values, origin, ())
    _check_numbers(values, origin, ())
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        context = first.get("ctx", {})
        where = ".".join(str(part) for part in first["loc"])
        what = _PLAIN.get(first["type"]) or first["msg"].removeprefix("Value error, ")
        kind = str(context.get("discriminator", "")).strip("'")
        if first["type"] == "union_tag_not_found":
            what = f"say which one is meant, with {kind}"
        elif first["type"] == "union_tag_invalid":
            kinds = re.findall("'([^']*)'", context["expected_tags"])
            near = difflib.get_close_matches(context["tag"], kinds, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(kinds)}"
            what = f"there is no {kind} {context['tag']!r}: {hint}"
        end = "" if what.endswith("?") else "."
        raise UserError(f"In {origin}, {where or 'the settings'}: {what[:1].lower()}{what[1:]}{end}") from error


def read_config(model: type[Config], path: Path, overrides: Sequence[str] = ()) -> Config:
    """As :func:`load_config`, from a file."""
    try:
        return load_config(model, path.read_text(encoding="utf-8"), str(path), overrides)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): give a recipe's name or a TOML file.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: give a recipe's name or a TOML file.") from error


def _check_keys(model: type[BaseModel], values: dict[str, Any], origin: str, path: tuple[str, ...]) -> None:
    """Refuse the first key that the model lacks, here or in a section below."""
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is None:
            near = difflib.get_close_matches(key, model.model_fields, n=1)
            hint = f"did you mean {'.'.join((*path, near[0]))}?" if near else f"choose from {', '.join(model.model_fields)}."
            raise UserError(f"{origin} has no setting {'.'.join((*path, key))}: {hint}")
        if not isinstance(value, dict):
            continue
        below = _section(field, value)
        if below is not None:
            _check_keys(below, value, origin, (*path, key))
        choices = get_args(field.annotation) if get_origin(field.annotation) is dict else ()
        if len(choices) == 2 and isinstance(choices[1], type) and issubclass(choices[1], BaseModel):
            for name, section in value.items():  # sections by names of a person's choice
                if isinstance(section, dict):
                    _check_keys(choices[1], section, origin, (*path, key, name))


def _check_numbers(value: Any, origin: str, path: tuple[str, ...]) -> None:
    """Refuse infinities and NaN, wherever they stand: no setting means anything with them."""
    if isinstance(value, float) and not isfinite(value):
        raise UserError(f"In {origin}, {'.'.join(path)}: input should be a finite number.")
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        _check_numbers(item, origin, (*path, str(key)))


def _section(field: FieldInfo, value: dict[str, Any]) -> type[BaseModel] | None:
    """The model of a field that is a section, or that of its kinds which ``value`` names; None for tables and lists."""
    for mark in field.metadata:
        if hasattr(mark, "section"):  # a `core.plugins.Choice`
            return mark.section(value)
    annotation = field.annotation
    choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    found = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel)]
    if len(found) < 2 or not isinstance(field.discriminator, str):
        return found[0] if len(found) == 1 else None
    tag = value.get(field.discriminator)
    return next((choice for choice in found if choice.model_fields[field.discriminator].default == tag), None)


def to_toml(config: BaseModel) -> str:
    """The resolved settings as TOML, which reads back as the same; None, which TOML lacks, reads back as the default."""
    return "\n".join(_lines(config.model_dump(mode="json"), ())).strip() + "\n"


def _lines(values: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in values.items() if not isinstance(value, dict) and value is not None}
    if path and (plain or not values):
        yield f"\n[{'.'.join(path)}]"
    yield from (f"{_key(key)} = {_literal(value)}" for key, value in plain.items())
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _lines(value, (*path, _key(key)))


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _literal(key)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in value.items() if item is not None) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's, but for DEL
    return repr(value)
