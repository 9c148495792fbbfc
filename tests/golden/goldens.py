"""What the code did on a fixed day, pinned: one file of cases an area, one JSON file of what they gave.

    python tests/golden/goldens.py              # compare all areas with what is committed
    python tests/golden/goldens.py judge data   # these areas alone
    python tests/golden/goldens.py --make judge # write the area's JSON anew, and SHA256SUMS

An area is a module ``area_NAME.py`` beside this file with ``make(scratch, recorded) -> dict[str, value]``: case name to plain
JSON (text, numbers, lists, mappings). Long results are pinned by `digest`. ``scratch`` is empty; ``recorded`` holds the
recorded trajectories, or is None where they are absent: cases that need them are named ``recorded: …`` and left out then.
A module may set ``TOLERANCE`` (absolute and relative, for floats); without it floats are compared exactly.

A JSON file here changes only in a commit that touches nothing else and says why.
"""

import argparse
import hashlib
import importlib.util
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SUMS = HERE / "SHA256SUMS"


def areas() -> list[str]:
    """Names of all areas."""
    return sorted(path.stem.removeprefix("area_") for path in HERE.glob("area_*.py"))


def recorded_directory() -> Path | None:
    """Where recorded trajectories lie, from the environment; None where they are absent."""
    value = os.environ.get("SANDERLING_RECORDED")
    return Path(value) if value and Path(value).is_dir() else None


def digest(value: object) -> str:
    """The first 16 hexadecimal digits of a value's SHA-256, by its JSON (bytes and text: as they are)."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if not isinstance(value, bytes):
        value = json.dumps(_as_then(value), sort_keys=True, ensure_ascii=True, default=str).encode()
    return hashlib.sha256(value).hexdigest()[:16]


_LATER: dict[str, Any] = {"passages": ((), []), "spans": ((), []), "general": (False,)}
"""Fields that came after the goldens, with their defaults: at these they are no change."""


def _as_then(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_then(one) for key, one in value.items() if one not in _LATER.get(key, ())}
    if not isinstance(value, list | tuple):
        return value
    return [_as_then(one) if isinstance(one, dict | list | tuple) else one for one in value]  # mostly numbers of tokens


def module_of(area: str) -> Any:
    """The area's module, loaded from its file."""
    path = HERE / f"area_{area}.py"
    spec = importlib.util.spec_from_file_location(f"golden_area_{area}", path)
    assert spec and spec.loader
    sys.path[:0] = [str(HERE), str(HERE.parent)]  # this module, and helpers of all tests
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def made(area: str) -> dict[str, Any]:
    """The area's cases as the code gives them now, as they would be read back from JSON."""
    with tempfile.TemporaryDirectory() as scratch:
        cases = module_of(area).make(Path(scratch), recorded_directory())
    return json.loads(json.dumps(cases))


def committed(area: str) -> dict[str, Any]:
    """The area's cases as they are committed."""
    return json.loads((HERE / f"{area}.json").read_text(encoding="utf-8"))


def same(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two values are equal, floats within the tolerance."""
    if isinstance(one, float) and isinstance(other, float | int):
        return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance) or (one != one and other != other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], tolerance) for key in one)
    return type(one) is type(other) and one == other


def differences(area: str) -> list[str]:
    """One line for each case that is not what is committed; cases of absent recordings are passed over."""
    now, then, tolerance = made(area), committed(area), getattr(module_of(area), "TOLERANCE", 0.0)
    absent = recorded_directory() is None
    wanted = {name: value for name, value in then.items() if not (absent and name.startswith("recorded: "))}
    lines = [f"{area}: {name}: is gone" for name in wanted.keys() - now.keys()]
    lines += [f"{area}: {name}: is new" for name in now.keys() - wanted.keys()]
    for name in sorted(wanted.keys() & now.keys()):
        if not same(wanted[name], now[name], tolerance):
            lines.append(f"{area}: {name}: was {json.dumps(wanted[name])[:300]} and is {json.dumps(now[name])[:300]}")
    return lines


def sums() -> str:
    """SHA-256 of every committed JSON file, one line a file as ``sha256sum`` prints it."""
    return "".join(f"{hashlib.sha256((HERE / f'{area}.json').read_bytes()).hexdigest()}  {area}.json\n" for area in areas())


def main() -> int:
    """Compare or make the areas; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(areas()))
    parser.add_argument("--make", action="store_true", help="write the areas' JSON anew instead of comparing")
    arguments = parser.parse_args()
    lines: list[str] = []
    for area in arguments.areas or areas():
        if arguments.make:
            (HERE / f"{area}.json").write_text(json.dumps(made(area), indent=0, sort_keys=True) + "\n", encoding="utf-8")
        else:
            lines += differences(area)
    if arguments.make:
        SUMS.write_text(sums(), encoding="utf-8")
    sys.stdout.write("\n".join(lines or ["equal"]) + "\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
