"""The house: which room may know which, what imports without torch, how long a file may be, and what no file may hold."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sanderling"

MAY_KNOW: dict[str, set[str]] = {
    "protocol": set(),
    "trajectory": {"protocol"},
    "world": {"protocol", "trajectory"},
    "tools": {"protocol", "trajectory", "world"},
    "policy": {"protocol"},
    "agent": {"policy", "protocol", "tools", "trajectory"},
    "reward": {"protocol", "trajectory"},
    "train": {"policy", "protocol", "reward", "trajectory"},
    "evaluate": {"agent", "policy", "protocol", "reward", "tools", "trajectory", "world"},
    "merge": {"agent", "evaluate", "policy", "protocol", "reward", "tools", "trajectory", "world"},
    "synth": {"agent", "evaluate", "policy", "protocol", "reward", "tools", "trajectory", "world"},
    "serve": {"agent", "evaluate", "policy", "protocol", "tools", "trajectory", "world"},
    "export": {"policy", "protocol", "trajectory"},
    "recipes": {"agent", "evaluate", "merge", "policy", "protocol", "reward", "synth", "tools", "train", "trajectory", "world"},
    "cli": {
        "agent",
        "evaluate",
        "merge",
        "policy",
        "protocol",
        "recipes",
        "reward",
        "serve",
        "synth",
        "tools",
        "trajectory",
        "world",
    },
}
"""Each room, and the rooms it may import from; every dependency points to a line above. Nobody may import ``cli``."""
LOBBY = {"config", "errors", "files", "folding", "locks", "processes", "terminal", "__version__"}
"""Modules beside the rooms, which know no room; every room may use them."""
WITH_TORCH = {
    "merge": {"kit", "weights"},
    "policy": {
        "copying",
        "engine",
        "forward",
        "kv_cache",
        "model_directory",
        "reloading",
        "sampler",
        "tensors",
        "transformers_policy",
        "weight_files",
    },
}
"""Modules outside `train` that may import torch when they are imported."""
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
"""Of its body, its docstring not counted."""
FORBIDDEN = re.compile(
    r"(?<![\w.])/(?:work|home|root|Users|mnt|tmp)/(?!someone/)[a-z0-9_]+/|\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"
    r"|://[\w.-]+\.(?:internal|local|lan|corp)\b"
)
"""Absolute paths of somebody's machine, addresses and names of private networks."""
TEXT = {".py", ".toml", ".md", ".json", ".css", ".js", ".lock", ".txt", ".yml", ""}


def rooms_of(file: Path) -> set[str]:
    """The rooms (and modules beside them) that a file imports, wherever in it."""
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
    return found


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_every_room_is_in_the_table() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms == set(MAY_KNOW)
    order = list(MAY_KNOW)
    assert all(set(order[: order.index(room)]) >= known for room, known in MAY_KNOW.items()), "no circles"


@pytest.mark.parametrize("room", MAY_KNOW)
def test_dependencies_point_one_way(room: str) -> None:
    strangers = {
        f"{file.relative_to(PACKAGE)} -> {other}"
        for file in (PACKAGE / room).rglob("*.py")
        for other in rooms_of(file) - MAY_KNOW[room] - LOBBY - {room}
    }
    assert strangers == set()


def test_the_lobby_knows_no_room() -> None:
    for file in PACKAGE.glob("*.py"):
        assert rooms_of(file) <= LOBBY, file


def test_the_core_imports_without_torch() -> None:
    """Every module but those of `train` that compute, and of a model in this process; the settings of `train` included."""
    light = {
        "bootstrap", "checkpoint_places", "config", "contract", "encoding", "guard", "launch", "metrics",
        "model_shapes", "overlong", "plan", "plan_fit", "rl.__init__", "rl.checks", "rl.config",
        "rl.curriculum_config", "rl.contract", "rl.curriculum", "rl.figures", "rl.health", "rl.health_config", "rl_plan",
        "row_files", "row_source", "sft_checks", "sft_config", "sft_rows", "supervised_plan", "turn_table", "watchers",
    }  # fmt: skip
    names = []
    for file in PACKAGE.rglob("*.py"):
        room, *rest = file.relative_to(PACKAGE).with_suffix("").parts
        heavy = room == "train" and ".".join(rest) not in {*light, "__init__"} and rest[0] != "estimators"
        if not heavy and rest[-1:] != ["__main__"] and (not rest or rest[-1] not in WITH_TORCH.get(room, set())):
            names.append(".".join(("sanderling", room, *rest)).removesuffix(".__init__"))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'safetensors', 'accelerate')))\n"
        f"import importlib\nfor name in {sorted(names)!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert len(names) > 100


def python_files() -> list[Path]:
    return [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]


def long_functions(text: str, most: int = MOST_LINES_OF_A_FUNCTION) -> list[str]:
    """Names of the functions whose body has more lines than that."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 > most:
                found.append(node.name)
    return found


def test_no_module_is_too_long() -> None:
    assert [str(file) for file in python_files() if len(file.read_text(encoding="utf-8").splitlines()) > MOST_LINES] == []


def test_no_function_is_too_long() -> None:
    long = {str(file): long_functions(file.read_text(encoding="utf-8")) for file in python_files()}
    assert {file: names for file, names in long.items() if names} == {}


def test_signatures_and_docstrings_do_not_make_a_function_long() -> None:
    text = 'async def f(\n    a,\n    b,\n):\n    """One.\n\n    Two.\n    """\n    a = (\n        b\n    )\n    return a\n'
    assert long_functions(text, 4) == [] and long_functions(text, 3) == ["f"]
    assert long_functions('def g():\n    """\n\n\n\n    Alone.\n    """\n', 1) == []


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
