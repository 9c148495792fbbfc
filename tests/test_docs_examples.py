"""The example that opens a page of docs/ runs: every ``sanderling`` command of its first block of shell, one after another."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from loopback import free_port
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.train.random_model import PUBLISHED_VOCABULARY, SIZES, model_settings

FOUR_B = "Qwen3-4B-Thinking-2507"
DOCS = Path(__file__).parents[1] / "docs"
NO_TASK = {"concepts.md", "contributing.md", "log.md", "settings.md"}
"""Pages that explain, or list: no task begins there."""
LONG = {"tiny-recipe.md"}
"""Minutes: a whole recipe, though in small."""
PAGES = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [], id=page.name)
    for page in sorted(DOCS.glob("*.md"))
    if page.name not in NO_TASK
]
SCRIPTED = """
def model(messages, key):
    if key.turn == 0:
        return '<think>So.</think><tool_call>{"name": "search", "arguments": {"query": ["river Kent"]}}</tool_call>'
    return "<think>Done.</think><answer>Kendal</answer>"
"""
NOTES = {
    "kent.md": "# Kent\n\nThe river Kent flows through Kendal.\n",
    "eden.html": "<html><head><title>Eden</title></head><body><p>The river Eden flows through Carlisle.</p></body></html>",
    "letter.txt": "Dear Ann,\n\nthe mill at Kendal stands on the Kent.\n",
}


def first_block(page: Path) -> list[list[str]]:
    """The words of each command that the page opens with."""
    found = re.search(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = found[1].replace("\\\n", " ").splitlines() if found else []
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def elsewhere(commands: list[list[str]]) -> list[list[str]]:
    """The same commands at a port that is free: others may be at theirs, such as these tests beside these."""
    port = str(free_port())
    moved = [[re.sub(r"\b80(18|19|20)\b", port, word) for word in words] for words in commands]
    return [[*words[:-1], "--port", port, "&"] if words[1:3] == ["dock", "up"] else words for words in moved]


def start(words: Sequence[str]) -> subprocess.Popen[str]:
    """A command that serves, in a process of its own; it answers once it has said where."""
    served = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.PIPE, text=True)
    assert served.stderr and "http://" in served.stderr.readline(), " ".join(words)
    return served


def run(commands: Sequence[Sequence[str]], ends: ExitStack) -> None:
    for words in commands:
        assert words[0] == "sanderling", f"{words[0]}: an opening example holds sanderling's commands alone"
        if words[-1] == "&":
            ends.callback(start(words[:-1]).terminate)
            continue
        done = CliRunner().invoke(build_app(words[1]), words[1:])
        assert done.exit_code == 0, f"{' '.join(words)}\n{done.output}{done.exception or ''}"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What examples work on, made by the commands themselves."""
    here = tmp_path_factory.mktemp("prepared")
    for folder in ("notes", "docs"):
        (here / folder).mkdir()
        for name, text in NOTES.items():
            (here / folder / name).write_text(text, encoding="utf-8")
    (here / "examples").mkdir()
    shutil.copy(DOCS.parent / "examples" / "dock.toml", here / "examples")
    (here / "scripted.py").write_text(SCRIPTED, encoding="utf-8")
    (here / FOUR_B).mkdir()
    (here / FOUR_B / "config.json").write_text(json.dumps(model_settings(SIZES["4b-2507"], PUBLISHED_VOCABULARY)))
    evaluate = "sanderling eval run jsonl questions.jsonl --world world --model scripted.py:model --judge exact --no-progress"
    commands = [
        "sanderling world build encyclopedia --size 60 --seed 3 --out world",
        "sanderling synth chains world --count 12 --out questions.jsonl",
        "sanderling data generate questions.jsonl --world world --model teacher:60/3 --judge exact --out raw.jsonl",
        "sanderling model init --world world --out model",
        f"{evaluate} --out runs/one",
        f"{evaluate} --out runs/two --seed 1",
    ]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as ends:
        patch.chdir(here)
        run([shlex.split(command) for command in commands], ends)
    return here


@pytest.mark.parametrize("page", PAGES)
def test_the_example_that_opens_a_page_runs(
    page: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    commands = first_block(page)
    assert commands, "no block of shell"
    with ExitStack() as ends:
        run(elsewhere(commands), ends)
