"""Names from outside: wherever a built-in can be named, so can an object of a person's own file or package."""

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from sanderling.core.errors import UserError

Built = TypeVar("Built")


def resolve(name: str, builtins: Mapping[str, Built], kind: str) -> Built | Any:
    """The built-in of that name, or what ``file.py:name`` or ``package.module:name`` names, unchecked. Raises UserError.

    Example: ``resolve("mine/judge.py:Strict", {"exact": ExactJudge, "f1": F1Judge}, "judge")``
    """
    if name in builtins:
        return builtins[name]
    if is_outside(name):
        return load_outside(name)
    near = difflib.get_close_matches(name, builtins, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(builtins)}."
    raise UserError(f"There is no {kind} {name!r}: {hint}")


def is_outside(name: str) -> bool:
    """Whether a name has the form ``file.py:name`` or ``package.module:name``."""
    place, _, attribute = name.rpartition(":")
    dotted = all(part.isidentifier() for part in place.split("."))
    return attribute.isidentifier() and (dotted or place.endswith(".py"))


def load_outside(name: str) -> Any:
    """What ``file.py:name`` or ``package.module:name`` names; a file is run once. Raises UserError."""
    place, _, attribute = name.rpartition(":")
    path = Path(place) if place.endswith(".py") else None
    if path is not None and not path.is_file():
        raise UserError(f"There is no file {path}: name it from where the command runs, or by its whole path.")
    try:
        module = importlib.import_module(place) if path is None else _file_module(path)
    except UserError:
        raise
    except Exception as error:  # the module's own code ran, and may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"Cannot load {place} ({reason}): mend it, or check that it can be imported from here.") from error
    found = getattr(module, attribute, None)
    if found is None:
        near = difflib.get_close_matches(attribute, vars(module), n=1)
        raise UserError(f"{place} defines no {attribute!r}: {f'did you mean {near[0]!r}?' if near else 'check its name.'}")
    return found


def _file_module(path: Path) -> ModuleType:
    """The module of a file, whose classes can be pickled and are the same however often it is named."""
    name = f"sanderling_outside_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
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
