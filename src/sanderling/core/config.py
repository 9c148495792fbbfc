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
from math import isfinite
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined, to_json

from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates

Config = TypeVar("Config", bound=BaseModel)
_NO_SECTION = "input should be a section of settings, not a single value"
_NO_LIST = 'input should be a list in TOML, on the command line within single quotes, as in --set \'KEY=["one", "two"]\''
_PLAIN = (
    dict.fromkeys(("model_type", "model_attributes_type", "dataclass_type", "dict_type"), _NO_SECTION)
    | dict.fromkeys(("list_type", "tuple_type", "named_tuple_type", "set_type", "frozen_set_type"), _NO_LIST)
    | {"path_type": "input should be a path, in quotes"}
)
"""Kinds of pydantic's errors whose own words speak of Python."""
_NO_SETTING = "no setting: "
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
    before, wrong = copy.deepcopy(values), list[str]()
    for override in overrides:
        key, equals, text = override.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not (equals and all(parts)):
            wrong.append(f"{override!r} is no override: write section.key=value.")
        elif without_surrogates(override) != override:
            wrong.append(f"{override!r} is not text in UTF-8: write it in the terminal's encoding.")
        elif blocked := _put(values, parts, _read(text)):
            wrong.append(f"{override!r} reaches into {blocked}, which is a value and not a section.")
    for key, value in given.items():
        if value is not None:
            _put(values, key.split("."), value)
    _drop_former_kinds(model, before, values, origin, ())
    return check_config(model, values, origin, wrong)


def read_config(
    model: type[Config], path: Path, overrides: Sequence[str] = (), given: Mapping[str, Any] = MappingProxyType({})
) -> Config:
    """As :func:`load_config`, from a file."""
    try:
        return load_config(model, path.read_text(encoding="utf-8"), str(path), overrides, given)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): give a recipe's name or a TOML file.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: give a recipe's name or a TOML file.") from error


def check_config(model: type[Config], values: dict[str, Any], origin: str, wrong: Sequence[str] = ()) -> Config:
    """Values from ``origin`` as settings. Raises UserError, which tells all that is wrong; ``wrong``: found already."""
    told = dict[str, list[str]]()  # what is wrong, by setting
    known = _known_settings(model, values, (), told)
    found = None
    try:
        found = model.model_validate(known)
    except ValidationError as error:
        already = {where for where, reasons in told.items() if reasons}
        for one in error.errors():
            where = _place(one, known)
            if where not in already and not (where in told and one["type"] == "missing"):
                told.setdefault(where, []).append(_reason(one))
    sentences = [*wrong, *(_sentence(where, reasons, origin) for where, reasons in told.items() if reasons)]
    if found is not None and not sentences:
        return found
    if len(sentences) == 1:
        raise UserError(sentences[0])
    raise UserError("\n  ".join([f"{len(sentences)} settings are wrong:", *sentences]))


def _read(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(values: dict[str, Any], key: Sequence[str], value: Any) -> str:
    """Put a value at a place, making its sections; the part that is no section, where there is one."""
    *parents, last = key
    for part in parents:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            return part
    values[last] = value
    return ""


def _drop_former_kinds(
    model: type[BaseModel], before: dict[str, Any], values: dict[str, Any], origin: str, path: tuple[str, ...]
) -> None:
    """Leave out what ``before`` says of a kind that ``values`` no longer name, where the new kind has no such setting."""
    for key, field in model.model_fields.items():
        was, now = before.get(key), values.get(key)
        if not (isinstance(was, dict) and isinstance(now, dict)):
            continue
        marks = [field, *field.metadata]
        below, tag = _section(field.annotation, now, marks), _tag(marks)
        if below is None:
            continue
        if tag is not None and was.get(tag) != now.get(tag):
            gone = [name for name in was if name not in below.model_fields and now.get(name) == was[name]]
            for name in gone:
                del now[name]
            if gone:
                where = ".".join((*path, key))
                warnings.warn(
                    f"{where} is of the kind {now.get(tag)!r} now: {', '.join(gone)} of {origin}, which it does not have, "
                    f"{'are' if len(gone) > 1 else 'is'} left out.",
                    stacklevel=4,
                )
        _drop_former_kinds(below, was, now, origin, (*path, key))


def _known_settings(model: type[BaseModel], values: dict[str, Any], path: tuple[str, ...], told: dict[str, list[str]]) -> Any:
    """The values without the keys that the model lacks; these are told, and with them infinities and NaN."""
    known: dict[str, Any] = {}
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is not None:
            known[key] = _known(field.annotation, value, [field, *field.metadata], (*path, key), told)
            continue
        near = difflib.get_close_matches(key, model.model_fields, n=1)
        hint = f"did you mean {'.'.join((*path, near[0]))}?" if near else f"choose from {', '.join(model.model_fields)}."
        told[".".join((*path, key))] = [f"{_NO_SETTING}{hint}"]
        if near:
            told.setdefault(".".join((*path, near[0])), [])  # that it is missing is not told on top
    return known


def _known(kind: Any, value: Any, marks: Sequence[Any], path: tuple[str, ...], told: dict[str, list[str]]) -> Any:
    """:func:`_known_settings` of a value of some annotation, in sections, tables and lists below it."""
    if get_origin(kind) is Annotated:
        kind, *marks = get_args(kind)
    if isinstance(value, float) and not isfinite(value):  # no setting means anything with them
        told[".".join(path)] = ["input should be a finite number"]
    elif isinstance(value, dict) and (below := _section(kind, value, marks)) is not None:
        return _known_settings(below, value, path, told)
    elif isinstance(value, dict):  # a table by names of a person's choice
        each = get_args(kind)[1] if get_origin(kind) is dict else None
        return {name: _known(each, item, (), (*path, name), told) for name, item in value.items()}
    elif isinstance(value, list):
        each = next(iter(get_args(kind)), None) if get_origin(kind) in (list, tuple) else None
        return [_known(each, item, (), (*path, str(at)), told) for at, item in enumerate(value)]
    return value


def _section(kind: Any, value: dict[str, Any], marks: Sequence[Any]) -> type[BaseModel] | None:
    """The model of an annotation that is a section, or that of its kinds which ``value`` names; None for tables and lists."""
    for mark in marks:
        if hasattr(mark, "section"):  # a `core.plugins.Choice`
            return mark.section(value)
    choices = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    found = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel)]
    tag = _tag(marks)
    if len(found) < 2 or tag is None:
        return found[0] if len(found) == 1 else None
    return next((choice for choice in found if choice.model_fields[tag].default == value.get(tag)), None)


def _tag(marks: Sequence[Any]) -> str | None:
    """The key by which a section says of which kind it is."""
    for mark in marks:
        if hasattr(mark, "section"):
            return "kind"
        if isinstance(mark, FieldInfo) and isinstance(mark.discriminator, str):
            return mark.discriminator
    return None


def _place(error: ErrorDetails, values: Any) -> str:
    """The setting that an error of pydantic is about; names of kinds, which stand in its place too, are no part of that."""
    path: list[str] = []
    for number, part in enumerate(error["loc"], start=1):
        is_there = part in values if isinstance(values, dict) else isinstance(values, list) and part in range(len(values))
        if is_there:
            values = values[part]  # pyright: ignore[reportArgumentType, reportCallIssue]
        elif error["type"] != "missing" or number < len(error["loc"]):
            continue
        path.append(str(part))
    return ".".join(path)


def _reason(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    kind = str(context.get("discriminator", "")).strip("'")
    if error["type"] == "union_tag_not_found":
        return f"say which one is meant, with {kind}"
    if error["type"] == "union_tag_invalid":
        kinds = re.findall("'([^']*)'", context["expected_tags"])
        near = difflib.get_close_matches(context["tag"], kinds, n=1)
        return f"there is no {kind} {context['tag']!r}: " + (
            f"did you mean {near[0]}?" if near else f"choose from {', '.join(kinds)}"
        )
    what = _PLAIN.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    return what[:1].lower() + what[1:]


def _sentence(where: str, reasons: Sequence[str], origin: str) -> str:
    first, *others = reasons
    if first.startswith(_NO_SETTING):
        return f"{origin} has no setting {where}: {first.removeprefix(_NO_SETTING)}"
    text = f"In {origin}, {where or 'the settings'}: {first}"
    text += "".join(f", or {other.removeprefix('input should ')}" for other in dict.fromkeys(others))  # of a union, each kind's
    return text if text.endswith("?") else f"{text}."


def to_toml(config: BaseModel) -> str:
    """The resolved settings as TOML, which reads back as the same; None, which TOML lacks, reads back as the default."""
    return "\n".join(_lines(config.model_dump(mode="json"), ())).strip() + "\n"


def describe(config: BaseModel | type[BaseModel], path: tuple[str, ...] = ()) -> str:
    """All settings with their values and what they are for, as a TOML file; of a class, with their defaults.

    Settings without a value are commented out, and so are sections that are not set; of a class, these show their defaults.
    """
    model = config if isinstance(config, type) else type(config)
    docs, own, below = _docs(model), "", ""
    for key, field in model.model_fields.items():
        kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if isinstance(kind, type)]
        sections = [kind for kind in kinds if issubclass(kind, BaseModel)]
        if isinstance(config, BaseModel):
            value = getattr(config, key)
        else:
            value = field.get_default(call_default_factory=True, validated_data={})
        about = "".join(f"# {line}\n" for line in textwrap.wrap(docs.get(key, ""), 76))
        if sections and get_origin(field.annotation) in (None, Union, UnionType):
            shown = value if isinstance(value, BaseModel) else sections[0]
            section = f"[{'.'.join((*path, key))}]\n{describe(shown, (*path, key))}"
            if isinstance(config, BaseModel) and value is None:
                section = "".join(f"# {line}\n" for line in section.splitlines() if line and not line.startswith("#"))
            below += f"\n{about}{_kinds(field)}{section}"
        elif value is None or value is PydanticUndefined:
            own += f"{about}# {key} =\n"
        else:
            own += f"{about}{key} = {_literal(json.loads(to_json({key: value}))[key])}\n"
    return own + below


def _kinds(field: FieldInfo) -> str:
    """The built-in kinds of a section, each of which has settings of its own."""
    names = [", ".join(mark.builtins) for mark in field.metadata if hasattr(mark, "builtins")]
    return "".join(f"# Kinds: {name}; each has settings of its own.\n" for name in names)


def _docs(model: type[BaseModel]) -> dict[str, str]:
    """What stands under each field of a model, as a string or behind it as a comment, its bases' first."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except OSError:  # a model that was put together as the program ran has none
            continue
        lines, (tree,) = source.splitlines(), ast.parse(source).body
        assert isinstance(tree, ast.ClassDef)
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
                continue
            comment = re.search(r"  # (.*)$", lines[(node.end_lineno or node.lineno) - 1])
            found[node.target.id] = comment[1] if comment else ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                found[node.target.id] = " ".join(after.value.value.split())
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
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in value.items() if item is not None) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's, but for DEL
    return repr(value)
