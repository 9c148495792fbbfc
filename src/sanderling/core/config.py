"""Settings from a TOML file with dotted overrides, checked by a frozen pydantic model.

A wrong key is refused with the nearest right one; a wrong value with the field's name and what is wrong with it. All that is
wrong is told at once.
"""

import ast
import copy
import difflib
import inspect
import json
import re
import textwrap
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_json

from sanderling.core.errors import UserError
from sanderling.core.text import without_surrogates

Config = TypeVar("Config", bound=BaseModel)
_NO_SECTION = "input should be a section of settings, not a single value"
_NO_LIST = 'input should be a list in TOML, on the command line within single quotes, as in --set \'KEY=["one", "two"]\''
_PLAIN = (
    dict.fromkeys(("model_type", "model_attributes_type", "dataclass_type", "dict_type"), _NO_SECTION)
    | dict.fromkeys(("list_type", "tuple_type", "named_tuple_type", "set_type", "frozen_set_type"), _NO_LIST)
    | {"path_type": "input should be a path, in quotes"}
)
"""Kinds of pydantic's errors whose own words speak of Python."""
_SET, _OPTIONS = "--set", "the command"
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")


class Frozen(BaseModel):
    """Data that does not change and has no unknown fields: the base of settings, records and manifests."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def load_config(
    model: type[Config], toml: str, origin: str, overrides: Sequence[str] = (), given: Mapping[str, Any] = MappingProxyType({})
) -> Config:
    """The settings in ``toml``, over them ``overrides`` (``"rl.steps=20"``), and over these what is ``given`` and not None.

    Values of overrides are TOML, or else plain strings; keys of ``given`` are dotted, too. Where another kind of a section is
    chosen, settings of the former kind in ``toml`` are left out, with a warning. ``origin`` names the text in errors. Raises
    UserError, which tells all wrong settings at once.

    Example: ``load_config(EvalConfig, text, "my.toml", ["judge.prompt=hle"], {"agent.seed": seed})``
    """
    try:
        values = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{origin} is not valid TOML ({error}): mend that line.") from error
    before, wrong, sources = copy.deepcopy(values), list[str](), dict[str, str]()
    for override in overrides:
        key, equals, text = override.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not (equals and all(parts)):
            wrong.append(f"{override!r} is no override: write section.key=value.")
        elif without_surrogates(override) != override:
            wrong.append(f"{override!r} is not text in UTF-8: write it in the terminal's encoding.")
        elif blocked := put(values, parts, _read(text)):
            wrong.append(f"{override!r} reaches into {blocked}, which is a value and not a section.")
        else:
            sources[".".join(parts)] = _SET
    for key, value in given.items():
        if value is not None:
            put(values, key.split("."), value)
            sources[key] = _OPTIONS
    _drop_former_kinds(model, before, values, origin, "")
    return check_config(model, values, origin, wrong, sources)


def read_config(
    model: type[Config], path: Path, overrides: Sequence[str] = (), given: Mapping[str, Any] = MappingProxyType({})
) -> Config:
    """As :func:`load_config`, from a file."""
    try:
        return load_config(model, path.read_text(encoding="utf-8-sig"), str(path), overrides, given)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}: check its name and folder.") from error
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): give a TOML file.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: give a TOML file.") from error


def check_config(
    model: type[Config],
    values: dict[str, Any],
    origin: str,
    wrong: Sequence[str] = (),
    sources: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Values from ``origin`` as settings. Raises UserError, which tells all that is wrong; ``wrong``: found already.

    ``sources``: where single settings, by their dotted keys, come from instead.
    """
    sentences = list(wrong)
    try:
        found = model.model_validate(values)
        errors = []
    except ValidationError as error:
        found, errors = None, error.errors()
    suggested = set[str]()  # that these are missing is not told on top
    for one in errors:
        if one["type"] == "extra_forbidden":
            (*above, key), names = _place(model, values, one["loc"])
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {'.'.join((*above, *near))}?" if near else f"choose from {', '.join(names)}."
            where = ".".join((*above, key))
            source = _source(where, sources, origin)
            sentences.append(f"{source} {'names' if source == _SET else 'has'} no setting {where}: {hint}")
            suggested.add(".".join((*above, *near)))
    reasons = {place: ["input should be a finite number"] for place in _not_finite(values)}
    unfinite = set(reasons)
    for one in errors:
        is_missing = one["type"] == "missing"
        place = ".".join(_place(model, values, one["loc"], is_missing=is_missing)[0])
        if one["type"] != "extra_forbidden" and place not in unfinite and not (is_missing and place in suggested):
            what = _PLAIN.get(one["type"]) or one["msg"].removeprefix("Value error, ")
            reasons.setdefault(place, []).append(what[:1].lower() + what[1:])
    for place, (first, *others) in reasons.items():
        text = f"In {_source(place, sources, origin)}, {place or 'the settings'}: {first}"
        text += "".join(f", or {other.removeprefix('input should ')}" for other in dict.fromkeys(others))  # of a union's kinds
        sentences.append(text if text.endswith("?") else f"{text}.")
    if found is not None and not sentences:
        return found
    if len(sentences) > 1:
        sentences.insert(0, f"{len(sentences)} settings are wrong:")
    raise UserError("\n  ".join(sentences))


def _source(place: str, sources: Mapping[str, str], origin: str) -> str:
    """Where a setting comes from, or a section of which some do."""
    for key, source in reversed([*sources.items()]):
        if place == key or place.startswith(f"{key}."):
            return source
    within = {source for key, source in sources.items() if not place or key.startswith(f"{place}.")} - {origin}
    return " with ".join([origin, *sorted(within)]) if place else origin


def _read(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def put(values: dict[str, Any], key: Sequence[str], value: Any) -> str:
    """Put a value at a place, making its sections; the part that is no section, where there is one."""
    *parents, last = key
    for part in parents:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            return part
    values[last] = value
    return ""


def _drop_former_kinds(model: type[BaseModel], before: dict[str, Any], values: dict[str, Any], origin: str, path: str) -> None:
    """Leave out what ``before`` says of a kind that ``values`` no longer name, where the new kind has no such setting."""
    for key, field in model.model_fields.items():
        was, now = before.get(key), values.get(key)
        if not (isinstance(was, dict) and isinstance(now, dict)) or not (sections := _sections(field, now)):
            continue
        below = sections[0]
        if was.get("kind") != now.get("kind"):
            gone = [name for name in was if name not in below.model_fields and now.get(name) == was[name]]
            for name in gone:
                del now[name]
            if gone:
                told = f"{', '.join(gone)} of {origin}, which it does not have, {'are' if len(gone) > 1 else 'is'} left out"
                warnings.warn(f"{path}{key} is of the kind {now.get('kind')!r} now: {told}.", stacklevel=4)
        _drop_former_kinds(below, was, now, origin, f"{path}{key}.")


def _not_finite(values: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(values, float) and not isfinite(values):
        yield ".".join(path)
    elif isinstance(values, dict | list):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from _not_finite(value, (*path, str(key)))


def _sections(field: FieldInfo, value: Any) -> list[type[BaseModel]]:
    """The sections that a field is, or holds in tables or lists; of one with kinds, that which the value names."""
    for mark in field.metadata:
        if hasattr(mark, "section"):  # a `core.plugins.Choice`
            with suppress(ValueError):
                return [mark.section(value if isinstance(value, dict) else {})]
            return []
    kinds, sections = [field.annotation], list[type[BaseModel]]()
    while kinds:
        kind = kinds.pop()
        kinds += get_args(kind)
        if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel):
            sections.append(kind)
    return sections


def _place(
    model: type[BaseModel], values: Any, place: Sequence[Any], *, is_missing: bool = False
) -> tuple[list[str], list[str]]:
    """The setting that an error of pydantic is about, without the names of kinds in it, and all that its section has."""
    path, sections, names = list[str](), [model], list[str]()
    for number, part in enumerate(place, start=1):
        is_there = part in values if isinstance(values, dict) else isinstance(values, list) and part in range(len(values))
        if not is_there and not (is_missing and number == len(place)):
            continue
        path.append(str(part))
        names = [name for section in sections for name in section.model_fields]
        if is_there:
            values = values[part]
            fields = [section.model_fields[str(part)] for section in sections if part in section.model_fields]
            sections = [below for field in fields for below in _sections(field, values)] if fields else sections
    return path, names


def to_toml(config: BaseModel) -> str:
    """The resolved settings as TOML, which reads back as the same; None, which TOML lacks, reads back as the default."""
    return "\n".join(_lines(config.model_dump(mode="json"), ())).strip() + "\n"


def describe(config: BaseModel | type[BaseModel], path: tuple[str, ...] = ()) -> str:
    """All settings with their values and what they are for, as a TOML file; of a class, with their defaults.

    Settings without a value are commented out, and so are sections that are not set; of a class, these show their defaults.
    """
    model = config if isinstance(config, type) else type(config)
    docs, own, below = docs_of(model), "", ""
    for key, field in model.model_fields.items():
        if isinstance(config, BaseModel):
            value = getattr(config, key)
        else:
            value = field.get_default(call_default_factory=True, validated_data={})
        about = "".join(f"# {line}\n" for line in textwrap.wrap(docs.get(key, ""), 76))
        sections = [] if get_origin(field.annotation) in (dict, list, tuple) else _sections(field, {})
        if isinstance(value, BaseModel) or sections:
            kinds = [", ".join(mark.builtins) for mark in field.metadata if hasattr(mark, "builtins")]
            about += "".join(f"# Kinds: {names}; each has settings of its own.\n" for names in kinds)
            shown = describe(value if isinstance(value, BaseModel) else sections[0], (*path, key))
            section = f"[{'.'.join((*path, key))}]\n{shown}"
            if isinstance(config, BaseModel) and value is None:
                section = "".join(f"# {line}\n" for line in section.splitlines() if line and not line.startswith("#"))
            below += f"\n{about}{section}"
        elif value is None or value is PydanticUndefined:
            own += f"{about}# {key} =\n"
        else:
            own += f"{about}{key} = {_literal(json.loads(to_json({key: value}))[key])}\n"
    return own + below


def docs_of(model: type[BaseModel]) -> dict[str, str]:
    """What stands under each field of a model, as a string or behind it as a comment, its bases' first."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except OSError:  # a model that was put together as the program ran has none
            continue
        lines, body = source.splitlines(), next(node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign):
                comment = re.search(r"  # (.*)$", lines[(node.end_lineno or node.lineno) - 1])
                text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
                found[ast.unparse(node.target)] = (
                    " ".join(text.split()) if isinstance(text, str) else comment[1] if comment else ""
                )
    return found


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
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in value.items() if item is not None) + "}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's, but for DEL
