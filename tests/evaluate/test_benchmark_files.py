"""Benchmarks' files read: layouts beside those of the goldens, ciphers, folders and splits, what is left out and counted."""

import base64
import hashlib
import json
import re
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import save
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import question_id
from sanderling.evaluate import benchmarks
from sanderling.evaluate.benchmark_files import Loaded, load_benchmark, remarks
from sanderling.evaluate.benchmark_rows import Options, RowError, UnreadWhy, decrypted, looks_encrypted
from sanderling.evaluate.benchmarks import BENCHMARKS, Cipher, get_benchmark, leaks
from sanderling.world.guard import Blocklist

CANARY = "made up, keep out: 7f3a"
Q, A = "Which potter painted the lamp by the lake?", "Nolhum of Arvendale"
BOTH = (A, "Nolhum")
WALKED = {"type": "single", "domain": "theatre", "lang": "zh", "difficulty_level": "easy"}
TRIVIA = {"Question": Q, "QuestionId": "tc_1", "Answer": {"Value": A, "Aliases": ["Nolhum"], "NormalizedAliases": ["nolhum"]}}
QA = [{"question": f"Who keeps lamp {number}?", "answer": f"keeper {number}"} for number in range(12)]


def by_hash(text: str, canary: str) -> str:
    """As BrowseComp hides a text."""
    pairs = zip(text.encode(), cycle(hashlib.sha256(canary.encode()).digest()), strict=False)
    return base64.b64encode(bytes(a ^ b for a, b in pairs)).decode()


def by_bytes(text: str, canary: str) -> str:
    """As xBench hides a text."""
    return base64.b64encode(bytes(a ^ b for a, b in zip(text.encode(), cycle(canary.encode()), strict=False))).decode()


def load(key: str, path: Path, **said: Any) -> Loaded:
    return load_benchmark(get_benchmark(key), path, Options(**said))


LAYOUTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("browsecomp", "plain.csv", {"problem": Q, "answer": "Christianity", "problem_topic": "Art"},
     {"answers": ("Christianity",), "topics": ("Art",)}),
    ("xbench-2510", "DeepSearch-2510.csv", {"id": "117", "prompt": by_bytes(Q, CANARY), "answer": by_bytes(A, CANARY),
                                            "canary": CANARY}, {"id": "117"}),
    ("webwalkerqa", "main.parquet", {"question": Q, "answer": A, "info": WALKED},
     {"level": "easy", "topics": ("theatre",)}),
    ("frames", "test.tsv", {"Unnamed: 0": 3, "Prompt": Q, "Answer": A, "reasoning_types": "Tables | Time"},
     {"id": "3", "topics": ("Tables", "Time")}),
    ("triviaqa", "unfiltered.json", {"Data": [TRIVIA, {**TRIVIA, "QuestionId": "tc_2"}]}, {"answers": BOTH, "id": "tc_1"}),
    ("jsonl", "rows.jsonl", {"prompt": [{"role": "user", "content": Q}], "answer": A, "difficulty": 3}, {"level": "3"}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "name", "row", "expected"), LAYOUTS, ids=lambda value: value if isinstance(value, str) else "")
def test_rows_become_questions(key: str, name: str, row: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    loaded = load(key, save(tmp_path / name, [row]))
    first, wanted = loaded.questions[0], {"text": Q, "answers": (A,), "level": "", "topics": ()} | expected
    assert (first.text, first.answers) == (wanted["text"], wanted["answers"])
    assert first.id == f"{key}/{wanted.get('id') or question_id(wanted['text'])}"
    known = {"benchmark": key, "split": loaded.split, "level": wanted["level"], "topics": list(wanted["topics"]), "line": 1}
    private = {"private": True} if get_benchmark(key).private else {}
    private |= {"canary": CANARY} if loaded.canaries else {}
    assert first.meta == known | private and loaded.private is bool(private)
    assert not loaded.unread


@pytest.mark.parametrize(
    ("key", "row", "why"),
    [
        (
            "hle",
            {"id": "1", "question": "What is shown?", "answer": "x", "image": "data:image/png;base64,AA"},
            UnreadWhy.NEEDS_IMAGE,
        ),
        ("browsecomp", {"problem": "a", "answer": "b", "canary": ""}, UnreadWhy.UNDECODABLE),
        ("musique", {"id": "2hop__1", "question": "Who?", "answer": "x", "answerable": False}, UnreadWhy.UNANSWERABLE),
    ],
)
def test_rows_that_are_no_questions_of_a_run(key: str, row: dict[str, Any], why: UnreadWhy, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"1 {why}"):
        load(key, save(tmp_path / "rows.jsonl", [row]))


# Ciphers ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cipher", "encrypted"), [("sxor", by_hash), ("bxor", by_bytes), ("fixed", by_hash)])
@given(
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    canary=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
def test_what_was_hidden_comes_back(cipher: Cipher, encrypted: Any, text: str, canary: str) -> None:
    assert decrypted(encrypted(text, canary), canary, cipher) == text
    assert looks_encrypted(encrypted("Which question: " + text, canary)) and not looks_encrypted(f"Which one {text}")


@pytest.mark.parametrize("cipher", ["sxor", "bxor"])
def test_what_does_not_open_is_refused(cipher: Cipher) -> None:
    hidden = by_hash("Which lamp did the potter of Arvendale paint?", "right")
    wrong = [
        (hidden, "wrong"), (hidden, ""), (hidden[:-1], "right"), (f"{hidden[:9]} {hidden[9:]}", "right"), ("灯塔", "right"),
    ]  # fmt: skip
    for text, canary in [*wrong, (by_hash("\x00\x01\x02abc", "k"), "k") if cipher == "sxor" else (hidden, "right")]:
        with pytest.raises(RowError):
            decrypted(text, canary, cipher)


def encrypted_row(**changed: Any) -> dict[str, Any]:
    texts = {"problem": by_hash("Which lamp hangs there?", "k"), "answer": by_hash("The blue one", "k")}
    return {**texts, "problem_topic": "Art", "canary": "k", **changed}


def test_a_wrong_key_is_told_with_what_to_do(tmp_path: Path) -> None:
    bare = {name: value for name, value in encrypted_row().items() if name != "canary"}
    lost = save(tmp_path / "bc.csv", [bare, bare])
    plain = save(tmp_path / "plain.csv", [encrypted_row(problem="A plain question?", answer="plain")])
    plus = save(tmp_path / "plus.parquet", [{"query_id": "1", "query": bare["problem"], "answer": bare["answer"]}])
    for key, path, canary, said in (
        ("browsecomp", lost, "", r"2 not to be decrypted\): check its canary column"),
        ("browsecomp", plain, "", "of a decrypted file, remove that column"),
        ("browsecomp-plus", plus, "wrong", "the canary that is given with --canary"),
        ("simpleqa", lost, "", "it is encrypted, so read it as the benchmark that it is"),
    ):
        with pytest.raises(UserError, match=said):
            load(key, path, canary=canary)
    assert (
        len(load("browsecomp", lost, canary="k").questions) == 2
        and len(load("browsecomp-plus", plus, canary="k").questions) == 1
    )


# Folders, splits, ids and counts --------------------------------------------------------------------------------------------


def shards(folder: Path, count: int = 3) -> list[Path]:
    return [save(folder / f"test-{at:05}-of-{count:05}.parquet", QA[at * 4 : at * 4 + 4]) for at in range(count)]


def test_the_parts_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    files = shards(tmp_path / "data")
    save(tmp_path / ".cache" / "old.csv", QA)
    (tmp_path / "README.md").write_text("# made up")
    loaded = load("jsonl", tmp_path)
    assert [question.text for question in loaded.questions] == [row["question"] for row in QA]
    assert [question.meta["line"] for question in loaded.questions] == list(range(1, 13))
    assert loaded.sha256 == hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    files[1].unlink()
    with pytest.raises(UserError, match=r"lacks data/test-00001-of-00003.parquet \(1 of 3"):
        load("jsonl", tmp_path)


def test_a_folder_without_the_one_file_that_is_meant(tmp_path: Path) -> None:
    for number in range(9):
        save(tmp_path / "many" / f"{number}.csv", QA)
    save(tmp_path / "empty" / "head.csv", QA[:1]).write_text("question,answer\n")
    for key, place, said in (
        ("jsonl", tmp_path / "many", r"several files \(0.csv, .*5.csv\)"),
        ("jsonl", tmp_path / "none.csv", "There is no file"),
        ("jsonl", tmp_path / "empty", "holds no row"),
    ):
        with pytest.raises(UserError, match=said):
            load(key, place)
    (tmp_path / "bare").mkdir()
    with pytest.raises(UserError, match="holds no CSV"):
        load("jsonl", tmp_path / "bare")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("triviaqa_dev.jsonl", "dev"), ("test.jsonl", "test"), ("dev/file.jsonl", "dev"), ("dev/test.jsonl", "test"),
        ("device.jsonl", "test"), ("dev-00000-of-00001.jsonl", "dev"),
    ],
)  # fmt: skip
def test_the_split_is_told_by_the_name(name: str, split: str, tmp_path: Path) -> None:
    path = save(tmp_path / name, QA)
    loaded = load("triviaqa", path)
    assert loaded.split == split and loaded.questions[0].meta["split"] == split
    assert load("triviaqa", path, split="dev").expected == 8837 and load("jsonl", path, split="any").split == "any"


def test_equal_words_and_equal_ids(tmp_path: Path) -> None:
    loaded = load("jsonl", save(tmp_path / "a.csv", [QA[0], QA[1], QA[0]]))
    first, _, again = (question.id for question in loaded.questions)
    assert again == f"{first}~2" and not loaded.unread
    rows = [{"task_id": id, "Question": "How many?", "Final answer": "1"} for id in ("a", "a", "b")]
    loaded = load("gaia", save(tmp_path / "metadata.jsonl", rows))
    assert len(loaded.questions) == 2 and loaded.unread == {UnreadWhy.REPEATED_ID: [2]}, "equal words"


@pytest.mark.parametrize("key", BENCHMARKS)
def test_another_benchmarks_file_is_refused_with_its_columns(key: str, tmp_path: Path) -> None:
    path = save(tmp_path / "other.csv", [{"Kopf": "a", "Fuß": "b"}])
    with pytest.raises(UserError, match=r"found: 'Kopf', 'Fuß'") as error:
        load(key, path)
    assert "--columns question=NAME" in str(error.value) or key == "world"


def test_what_is_odd_is_remarked_on(tmp_path: Path) -> None:
    rows = [QA[0], {"question": "And?"}, {"question": " ", "answer": "x"}, {"question": "b?", "answer": None}, QA[0]]
    loaded = load("jsonl", save(tmp_path / "a.jsonl", rows))
    assert loaded.unread == {UnreadWhy.BAD_ROW: [2], UnreadWhy.NO_QUESTION: [3]}
    assert remarks(get_benchmark("jsonl"), loaded) == [
        "Left out: 1 not readable as a row (row 2).",
        "Left out: 1 without a question (row 3).",
        "Without an accepted answer in the file: 1 questions, which are left out.",
    ]


# GAIA -----------------------------------------------------------------------------------------------------------------------


# -- The table of benchmarks: what it says of each, benchmarks from outside, private names, known leaks --------------------


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
