"""The table of benchmarks: what it says of each, benchmarks from outside, private names, known leaks."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.evaluate import benchmarks
from sanderling.evaluate.benchmarks import BENCHMARKS, leaks
from sanderling.world.guard import Blocklist


@pytest.mark.parametrize(
    ("url", "blocked"),
    [
        ("https://huggingface.co/datasets/someone/something", True),
        ("https://ghproxy.com/github.com/openai/simple-evals", True),
        ("https://cors-anywhere.herokuapp.com/huggingface.co/datasets/x", True),
        ("https://huggingface.co/%2564atasets/x", True),
        ("https://uithub.com/openai/simple-evals", True),
        ("https://unheard-of.example/openai/simple-evals/blob/main/browsecomp_eval.py", True),
        ("https://huggingface.co/blog/x", False),
        ("https://en.wikipedia.org/wiki/OpenAI", False),
        ("https://openai.com/index/introducing-simpleqa/", False),
        ("https://search.example/?q=what+is+huggingface.co", False),
        ("https://deepwiki.com/openai/gym", False),
    ],
)
def test_no_way_round_the_leaks_is_open_and_what_tells_of_them_stays(url: str, blocked: bool) -> None:
    assert Blocklist.parse(leaks()).blocks(url) is blocked


def test_the_table_holds_no_question_and_no_cipher() -> None:
    encrypted = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{48,}={0,2}")
    asked = re.compile(r"\"[^\"\n]{60,}[?？]\"")
    for name in ("benchmarks.toml", "leaks.txt"):
        text = Path(benchmarks.__file__).with_name(name).read_text(encoding="utf-8")
        assert not encrypted.search(text) and not asked.search(text), name


def test_the_page_of_the_docs_names_every_benchmark() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert [key for key in BENCHMARKS if f"`{key}`" not in page] == []


# Benchmarks from outside ----------------------------------------------------------------------------------------------------

MINE = """
from sanderling.evaluate.benchmark_rows import Row
from sanderling.evaluate.benchmarks import Benchmark, Columns

RIVERS = Benchmark(
    key="rivers", rules=("exact",), columns=Columns(question=("q",), answer=("found",), id=("nr",))
)

def read(benchmark, found, options):
    return Row(text=found.text("question", "q"), native_id=found.text("id", "nr"), answers=found.texts("answer", "found"))

READ = RIVERS.model_copy(update={"reader": read})
UNREAD = RIVERS.model_copy(update={"reader": "colums"})
NO = "a text"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with questions in columns of a person's own, and benchmarks that describe them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    rows = [{"nr": n, "q": f"Which river is number {n}?", "found": f"river {n}"} for n in range(3)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine.py:NO", "is a str and no"),
        ("mine.py:RIVER", "did you mean 'RIVERS'"),
        ("mine.py:UNREAD", "no reader of rows 'colums': did you mean 'columns'"),
    ],
)
def test_what_is_no_benchmark_is_one_sentence(place: Path, name: str, said: str) -> None:
    done = CliRunner().invoke(app, ["check", name, "q.jsonl"])
    assert isinstance(done.exception, UserError) and said in str(done.exception)
