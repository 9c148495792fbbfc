"""How much of the package is loaded: by the agent loop, by ``sanderling ask`` and ``train rl`` when they end. Prints it."""

import subprocess
import sys
from pathlib import Path

import pytest

from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world

LINES = """
import sys
from pathlib import Path
files = {m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'sanderling' and getattr(m, '__file__', None)}
print('LINES', sum(len(Path(f).read_text(encoding='utf-8').splitlines()) for f in files), 'torch' in sys.modules)
"""
COMMAND = """
import sys
from sanderling.cli import main
sys.argv = ['sanderling', *sys.argv[1:]]
try:
    main.main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""


NO_SERVERS = """
servers = [name for name in sys.modules if name == 'mcp' or name.startswith('sanderling.tools.mcp.')]
assert servers == ['sanderling.tools.mcp.config'], servers
"""


def loaded(code: str, *arguments: object) -> tuple[int, bool]:
    """Lines of ours in ``sys.modules`` after some code has run, and whether torch is there."""
    words = [sys.executable, "-c", code + LINES, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, torch = done.stdout.rpartition("LINES")[2].split()
    print(count)  # noqa: T201
    return int(count), torch == "True"


@pytest.mark.parametrize(("code", "most"), [("import sanderling.agent.agent", 4_500), ("import sanderling", 100)])
def test_what_an_import_loads(code: str, most: int) -> None:
    lines, torch = loaded(code)
    assert lines <= most and not torch


def test_what_ask_loads(tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://w.example/kent", title="Kent", text="The Kent.")], name="w", source="test")
    said = """
def model(messages, key):
    if key.turn == 0:
        return '<think>x</think><tool_call>{"name": "search", "arguments": {"query": ["Kent"]}}</tool_call>'
    if key.turn == 1:
        return '<think>x</think><tool_call>{"name": "visit", "arguments": {"url": "https://w.example/kent"}}</tool_call>'
    return "<think>x</think><answer>Kent</answer>"
"""
    (tmp_path / "scripted.py").write_text(said)
    place = ["--world", tmp_path / "w", "--model", f"{tmp_path / 'scripted.py'}:model", "--out", tmp_path / "asked.jsonl"]
    lines, torch = loaded(COMMAND + NO_SERVERS, "ask", "Which?", *place)
    assert lines <= 13_850 and not torch


@pytest.mark.slow
def test_what_train_rl_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "rl"):
        monkeypatch.syspath_prepend(Path(__file__).parent / name)
    from rl_runs import arguments, write_given

    given = arguments(write_given(tmp_path), tmp_path / "out", "--set", "rl.steps=1")
    lines, torch = loaded(COMMAND, "train", "rl", *given)
    assert lines <= 18_200 and torch
