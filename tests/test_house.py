"""The house: which room may know which, what imports without torch, and what no file may hold."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sanderling"

ROOMS = (
    "core", "runs", "report", "world", "policy", "tools", "agent", "judge", "data", "train", "rl", "evaluate", "synth", "merge",
    "serve", "recipes", "cli",
)  # fmt: skip
"""In the order in which they build on each other: a room imports only rooms before it."""
WITH_TORCH = {"policy", "train", "rl", "merge"}
"""Rooms with modules that may import torch when they are imported; nothing outside them does, commands included."""
FORBIDDEN = re.compile(
    r"(?<![\w.])/(?:work|home|root|Users|mnt|tmp)/(?!someone/)[a-z0-9_]+/|\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"
    r"|://[\w.-]+\.(?:internal|local|lan|corp)\b"
)
"""Absolute paths of somebody's machine, addresses and names of private networks."""
TEXT = {".py", ".toml", ".md", ".json", ".css", ".js", ".lock", ".txt", ".yml", ""}


def rooms_of(file: Path) -> set[str]:
    """The rooms that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: imports are absolute"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "sanderling" else [module]
        found |= {name.split(".")[1] for name in names if name.startswith("sanderling.")}
    return found & set(ROOMS)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_every_room_is_known() -> None:
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} <= set(ROOMS)


def test_a_room_imports_only_rooms_before_it() -> None:
    wrong = {
        f"{file.relative_to(PACKAGE)} -> {other}"
        for at, room in enumerate(ROOMS)
        for file in (PACKAGE / room).rglob("*.py")
        for other in rooms_of(file) - set(ROOMS[: at + 1])
    }
    assert wrong == set()


def test_torch_is_imported_only_where_it_computes() -> None:
    names = []
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in WITH_TORCH and parts[-1] != "__main__":
            names.append(".".join(("sanderling", *parts)).removesuffix(".__init__"))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'safetensors', 'accelerate')))\n"
        f"import importlib\nfor name in {sorted(names)!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2_000:]


def test_no_file_names_a_machine() -> None:
    found = []
    for file in tracked():
        if file.suffix in TEXT and file != Path(__file__).resolve():
            text = file.read_text(encoding="utf-8", errors="replace")
            found += [f"{file.relative_to(ROOT)}: {match[0]}" for match in FORBIDDEN.finditer(text)]
    assert found == []


def test_no_source_is_ignored_by_git() -> None:
    arguments = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "src", "tests", "benchmarks"]
    listed = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert [name for name in listed.stdout.splitlines() if name.endswith((".py", ".toml", ".css", ".js"))] == []
