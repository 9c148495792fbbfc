"""Names from outside: wherever a built-in can be named, so can an object of a person's own file or package."""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic_core import CoreSchema, core_schema

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.text import counted_as

Built = TypeVar("Built")
OUTSIDE = "sanderling_outside_"  # how modules of files from outside begin


def resolve(name: str, builtins: Mapping[str, Built], kind: str, of: type[Built] | None = None) -> Built | Any:
    """The built-in of that name, or what it names outside (:func:`load_outside`). Raises UserError.

    Example: ``resolve("mine/judge.py:Strict", {"exact": ExactJudge, "f1": F1Judge}, "judge")``
    """
    if name in builtins:
        return builtins[name]
    if is_outside(name):
        return load_outside(name, kind, of)
    near = difflib.get_close_matches(name, builtins, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(builtins)}."
    raise UserError(f"There is no {kind} {name!r}: {hint}")


def is_outside(name: str) -> bool:
    """Whether a name has the form ``file.py:name`` or ``package.module:name``."""
    place, _, attribute = name.rpartition(":")
    dotted = all(part.isidentifier() for part in place.split("."))
    return attribute.isidentifier() and (dotted or place.endswith(".py"))


def load_outside(name: str, kind: str = "", of: type[Built] | None = None) -> Any:
    """What ``file.py:name`` or ``package.module:name`` names; a file is run once. Raises UserError.

    ``of``: the class or protocol that it, or an object made where a class is named, has to be of; None: it is unchecked.
    """
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py") and not Path(place).is_file():
        raise UserError(f"There is no file {place}: name it from where the command runs, or by its whole path.")
    try:
        module = _file_module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except UserError:
        raise
    except Exception as error:  # the module's own code ran, and may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"Cannot load {place} ({reason}): mend it, or check that it can be imported from here.") from error
    if not hasattr(module, attribute):
        near = difflib.get_close_matches(attribute, vars(module), n=1)
        raise UserError(f"{place} defines no {attribute!r}: {f'did you mean {near[0]!r}?' if near else 'check its name.'}")
    found = getattr(module, attribute)
    if of is None:
        return found
    found = found() if inspect.isclass(found) else found
    if not isinstance(found, of):
        way = "put @tool above it (from sanderling import tool), or " if kind == "tool" and inspect.isfunction(found) else ""
        raise UserError(f"{name} is no {kind}: {way}let it be of the type {of.__name__} in {of.__module__}.")
    return found


def _file_module(path: Path) -> ModuleType:
    """The module of a file, whose classes can be pickled and are the same however often it is named; it finds neighbours."""
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # last: no file of theirs stands before a package
    name = f"{OUTSIDE}{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def takes(name: str, function: Callable[..., Any], *given: object, **named: object) -> None:
    """Raises UserError where a function from outside cannot be called so: this is seen before any work."""
    try:
        inspect.signature(function, follow_wrapped=False).bind(*given, **named)
    except ValueError:  # of C: it does not say what it takes
        return
    except TypeError as error:
        raise UserError(f"{name} cannot be called with {counted_as(len(given), 'argument')}: {error}.") from error
    if inspect.iscoroutinefunction(function):
        raise UserError(f"{name} is async, and its value would never be awaited: leave async out.")


def code_of(settings: object) -> dict[str, str]:
    """SHA-256 of each file of a person's own that settings name as ``file.py:name``, wherever in them, by its place there."""
    named = dict.fromkeys(re.findall(r"""['"]([^'"]+\.py):\w+['"]""", repr(settings)))
    return {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in named if Path(name).is_file()}


class Chosen(Frozen):
    """Settings of a function that is chosen by its name, whose further ones a subclass has."""

    kind: str = ""
    """A built-in's name, ``file.py:name`` or ``package.module:name``."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not type(self).__module__.startswith(OUTSIDE):
            return super().__reduce_ex__(protocol)
        return _again, (self.kind, self.model_dump(mode="json"))  # another process has to run the file first


def _again(kind: str, values: dict[str, Any]) -> Chosen:
    return settings_of(load_outside(kind), Chosen).model_validate(values)


def settings_of(function: Callable[..., Any], base: type[Chosen]) -> type[Chosen]:
    """The class that annotates a function's parameter ``config``; ``base`` where it has none. Raises ValueError."""
    if not callable(function):
        raise ValueError("it is no function")
    config = inspect.signature(function).parameters.get("config")
    if config is None:
        return base
    found = config.annotation
    if isinstance(found, str):  # from __future__ import annotations
        found = getattr(function, "__globals__", {}).get(found)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"its parameter config has to be annotated with a class of settings made from {base.__name__}")
    return found


@dataclass(frozen=True)
class Choice:
    """What a section's ``kind`` may name: annotates the field of a model, and finds the function.

    Example: ``estimator: Annotated[Estimating, Choice("estimator", ESTIMATORS, Estimating)] = GrpoConfig()``
    """

    what: str
    builtins: Mapping[str, Callable[..., Any]]
    base: type[Chosen]

    def bound(self, config: Chosen) -> Callable[..., Any]:
        """The chosen function, with its settings, if it takes any."""
        function = resolve(config.kind, self.builtins, self.what)
        return partial(function, config=config) if "config" in inspect.signature(function).parameters else function

    def section(self, values: Mapping[str, Any]) -> type[Chosen]:
        """The class of the settings that the ``kind`` among these has. Raises ValueError where that names nothing."""
        kind = values.get("kind")
        if not isinstance(kind, str) or not kind:
            raise ValueError("say which one is meant, with kind")
        try:
            function = resolve(kind, self.builtins, self.what)
            if is_outside(kind):
                takes(kind, function, None, **({"config": None} if "config" in inspect.signature(function).parameters else {}))
            return settings_of(function, self.base)
        except UserError as error:
            raise ValueError(str(error).removesuffix(".")) from error

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        def read(value: Any) -> Chosen:
            if isinstance(value, Mapping):
                return self.section(value).model_validate(value)
            if not isinstance(value, self.base):
                raise ValueError("input should be a section of settings, not a single value")
            return value

        return core_schema.no_info_plain_validator_function(read)
