"""Commands in the README and in docs/ are commands: each ``sanderling`` line of their code blocks has options that exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from sanderling.cli.main import build_app
from sanderling.cli.train import served_at
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.launch import check_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SET = re.compile(r"[A-Z][A-Z_]*=\S*")
"""A variable for this one command."""
OF_OTHERS = {
    "--enable-sleep-mode", "--logprobs-mode", "--no-enable-chunked-prefill", "--enable-prompt-tokens-details",
    "--tensor-parallel-size", "--cli",
}  # fmt: skip
"""Options of vLLM, and of the MCP inspector."""


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every ``sanderling`` command in the page's blocks of shell; a last ``…`` stands for more of the same."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(re.sub(r"(^|\s)#.*", "", line).rstrip(" &"))
            while words and SET.fullmatch(words[0]):
                words.pop(0)
            if words[:1] == ["sanderling"]:
                more = words[-1] == "…" and not words[-2].startswith("-")
                yield words[1 : -1 if more else None]


def options(command: Any) -> set[str]:
    """Every option of a command and of those below it."""
    below = getattr(command, "commands", {}).values()
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}.union(*map(options, below))


def parse(words: list[str]) -> dict[str, Any]:
    """Find the command and let it read its arguments, without calling it; what it read."""
    command, name = get_command(build_app(words[0])), "sanderling"
    left = list(words)
    while (below := getattr(command, "commands", None)) is not None:
        name = left.pop(0)
        command = below[name]
    return command.make_context(name, left).params


def start_rl(words: list[str], recipes: Path) -> None:
    """All that `train rl` refuses without looking at a file of questions, a world or a model. Raises UserError."""
    read = parse(words)
    recipe = str(recipes / read["recipe"]) if read["recipe"].endswith(".toml") else read["recipe"]
    given = {"judges": read["judges"], "held_out": read["held_out"], "questions": read["questions"]}
    found = find_rl_recipe(recipe, read["overrides"] or (), {**given, **served_at(read["endpoint"])})
    check_settings(found, read["processes"])
    assert found.questions


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_read(page: Path) -> None:
    wrong = {}
    for words in commands(page):
        try:
            parse(words)
        except Exception as error:
            wrong[" ".join(words)] = f"{type(error).__name__} {getattr(error, 'message', error)}"
    assert wrong == {}


def test_every_option_that_begins_a_piece_of_code_in_a_sentence_exists() -> None:
    groups = getattr(get_command(build_app("")), "commands", {})
    known = {"-h", "--help", "--version"}.union(*(options(get_command(build_app(name))) for name in groups))
    wrong = {
        (page.name, option)
        for page in PAGES
        if page.name != "log.md"  # what was
        for code in re.findall(
            r"`(--[^`\n]+)`", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
        )
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", code)
        if option not in known | OF_OTHERS
    }
    assert wrong == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_run_of_rl_could_begin(page: Path, tmp_path: Path) -> None:
    """With its recipe, a page's own included, and its settings: nothing that a person would be told only after copying it."""
    for toml in re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        if title := re.match(r'title = "(\w+)"', toml):
            (tmp_path / f"{title[1]}.toml").write_text(toml, encoding="utf-8")
    wrong = {}
    for words in commands(page):
        try:
            if words[:2] == ["train", "rl"]:
                start_rl(words, tmp_path)
        except UserError as error:
            wrong[" ".join(words)] = str(error)
    assert wrong == {}


def test_a_run_of_rl_that_cannot_begin_is_noticed(tmp_path: Path) -> None:
    given = ["train", "rl", "--recipe", "dr-venus-4b", "--questions", "q.jsonl"]
    with pytest.raises(UserError, match="nobody says where"):
        start_rl([*given, "--held-out", "d.jsonl"], tmp_path)
    served = [*given, "--endpoint", "http://localhost:8000/v1#mine"]
    with pytest.raises(UserError, match="give some with --held-out"):
        start_rl(served, tmp_path)
    start_rl([*served, "--held-out", "d.jsonl"], tmp_path)


def test_a_command_that_is_none_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nA_KEY=1 sanderling eval list gaia  # all of it\nsanderling eval \\\n  list --jsn …\n```\n")
    right, wrong = commands(page)
    parse(right)
    assert right == ["eval", "list", "gaia"]
    with pytest.raises(Exception, match="--jsn"):
        parse(wrong)


def test_the_nearest_commands_and_the_table_beside_them_are_those_of_the_profiles() -> None:
    page = ROOT / "docs" / "evaluation.md"
    nearest = page.read_text(encoding="utf-8").partition("## Nearest to the published figures")[2]
    rows = {cells[1].strip(): cells[2:5] for line in nearest.splitlines() if len(cells := line.split("|")) == 6}
    published = ("dr-venus-4b", "literesearcher-4b", "agentcpm-explore-4b")
    for column, name in enumerate(published):
        budgets, sampling = PROFILES[name].budgets, PROFILES[name].sampling
        values = {"turns": budgets.max_turns, "context": budgets.max_context_tokens, "tokens a turn": sampling.max_tokens}
        assert all(f"{value:,}" in rows[row][column] for row, value in values.items()), name
    named = [words for words in commands(page) if words[:2] == ["eval", "run"] and "--profile" in words]
    assert {words[words.index("--profile") + 1] for words in named} == set(published)
