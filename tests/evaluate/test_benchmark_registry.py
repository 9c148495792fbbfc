"""What is said of every benchmark, and what the package may not do: open a socket, hold a line of a benchmark."""

import ast
import re
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.evaluate import benchmarks
from sanderling.evaluate.benchmarks.registry import BENCHMARKS, get_benchmark, leaks
from sanderling.world.blocked import Blocklist

PACKAGE = Path(benchmarks.__file__).parent


@pytest.mark.parametrize("key", BENCHMARKS)
def test_every_fact_is_said_or_said_to_be_unknown(key: str) -> None:
    found = get_benchmark(key)
    assert found.key == key
    for fact in (found.title, found.about, found.obtain, found.licence, found.source, found.published_judge):
        assert fact.strip(), key
    names = [split.name for split in found.splits]
    assert len(set(names)) == len(names) and "" not in names
    assert found.form in ("", "word", "browsecomp", "browsecomp-zh", "hle", "xbench", "simpleqa", "sets", "ours")
    assert set(found.rules) <= {"exact", "contains", "f1", "numeric", "gaia", "squad_em", "squad_f1"}
    assert found.form or found.rules, "something judges it"


def test_a_misspelt_key_is_told_its_neighbours() -> None:
    assert get_benchmark("GAIA_text_103").key == "gaia-text-103"
    with pytest.raises(UserError, match=r"no benchmark 'giaa': did you mean 'gaia'"):
        get_benchmark("giaa")
    with pytest.raises(UserError, match="eval list"):
        get_benchmark("zzz")


def test_the_leaks_are_a_blocklist() -> None:
    blocked = Blocklist.parse(leaks())
    assert blocked.blocks("https://huggingface.co/datasets/someone/something")
    assert blocked.blocks("https://github.com/openai/simple-evals/blob/main/x.py")
    assert not blocked.blocks("https://huggingface.co/blog/x") and not blocked.blocks("https://github.com/openai/gym")
    lines = [line for line in leaks().splitlines() if line and not line.startswith("#")]
    repositories = [re.split(r"\s+#", line)[0].removeprefix("github.com/") for line in lines if line.startswith("github.com/")]
    for repository in repositories:
        assert f"raw.githubusercontent.com/{repository}" in lines and f"cdn.jsdelivr.net/gh/{repository}" in lines
        assert f"*/{repository}" in lines or "/" not in repository
    assert len(repositories) > 10


@pytest.mark.parametrize(
    "url",
    [
        "https://ghproxy.com/github.com/openai/simple-evals",
        "https://cors-anywhere.herokuapp.com/huggingface.co/datasets/x",
        "https://proxy.example/?url=huggingface.co/datasets/x",
        "https://huggingface.co/%2564atasets/x",
        "view-source:https://huggingface.co/datasets/x",
        "https://uithub.com/openai/simple-evals",
        "https://gitingest.com/PALIN2018/BrowseComp-ZH",
        "https://deepwiki.com/openai/simple-evals",
        "https://unheard-of.example/openai/simple-evals/blob/main/browsecomp_eval.py",
        "https://deepwiki.com/MiroMindAI/any",
    ],
)
def test_no_way_round_the_leaks_is_open(url: str) -> None:
    assert Blocklist.parse(leaks()).blocks(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://en.wikipedia.org/wiki/Huggingface.co",
        "https://en.wikipedia.org/wiki/OpenAI",
        "https://openai.com/index/introducing-simpleqa/",
        "https://whois.example/hf-mirror.com",
        "https://search.example/?q=what+is+huggingface.co",
        "https://deepwiki.com/openai/gym",
    ],
)
def test_what_tells_of_the_leaks_sites_stays(url: str) -> None:
    assert Blocklist.parse(leaks()).rule_for(url) == ""


def test_no_module_here_knows_the_network() -> None:
    for file in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in {"socket", "httpx", "requests", "aiohttp", "urllib", "http", "huggingface_hub"}
                assert not name.startswith("sanderling.") or name.split(".")[1] in {"core", "runs", "evaluate", "data"}
                assert not name.startswith("sanderling.evaluate") or "benchmarks" in name, f"{file}: {name}"


def test_the_package_holds_code_and_the_list_of_leaks_only() -> None:
    kinds = {file.suffix for file in PACKAGE.iterdir() if file.is_file()}
    assert kinds <= {".py", ".txt"} and [file.name for file in PACKAGE.glob("*.txt")] == ["leaks.txt"]
    encrypted = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{48,}={0,2}")
    asked = re.compile(r"\"[^\"\n]{60,}[?？]\"")
    for file in PACKAGE.iterdir():
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        assert not encrypted.search(text) and not asked.search(text), file


def test_the_page_of_the_docs_says_the_same() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert set(rows) == set(BENCHMARKS)
    for key, found in BENCHMARKS.items():
        for split in found.splits:
            assert not split.questions or f"{split.questions:,}" in rows[key], key
        assert (f"rule `{found.own_rule}`" if found.own_rule else f"form `{found.form}`") in rows[key], key
        assert ("encrypted" in rows[key]) is bool(found.secret) and ("gated" in rows[key]) is found.gated, key
        assert found.licence.partition(";")[0] in rows[key], key
