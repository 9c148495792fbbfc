"""From a file or a downloaded folder to questions: parts, splits, ids, counts, and memory."""

import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest
from benchmark_files import write_rows

from sanderling.core.errors import UserError
from sanderling.data.fields import named_columns
from sanderling.evaluate.benchmarks.contract import Options
from sanderling.evaluate.benchmarks.registry import BENCHMARKS, get_benchmark

QA = [{"question": f"Who keeps lamp {number}?", "answer": f"keeper {number}"} for number in range(12)]


def shards(folder: Path, count: int = 3) -> list[Path]:
    return [write_rows(folder / f"test-{at:05}-of-{count:05}.parquet", QA[at * 4 : at * 4 + 4]) for at in range(count)]


def test_the_parts_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    files = shards(tmp_path / "data")
    (tmp_path / ".cache").mkdir()
    write_rows(tmp_path / ".cache" / "old.csv", QA)
    (tmp_path / "README.md").write_text("# made up")
    loaded = get_benchmark("jsonl").load(tmp_path)
    assert [question.text for question in loaded.questions] == [row["question"] for row in QA]
    assert [question.meta["line"] for question in loaded.questions] == list(range(1, 13))
    assert loaded.sha256 == hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    shards(tmp_path)[1].unlink()
    with pytest.raises(UserError, match=r"lacks test-00001-of-00003.parquet \(1 of 3"):
        get_benchmark("jsonl").load(tmp_path)


def test_several_files_are_not_guessed(tmp_path: Path) -> None:
    for number in range(9):
        write_rows(tmp_path / f"{number}.csv", QA)
    with pytest.raises(UserError, match=r"several files \(0.csv, .*5.csv and 3 more\)"):
        get_benchmark("jsonl").load(tmp_path)


def test_a_folder_without_the_file_that_is_looked_for(tmp_path: Path) -> None:
    for name in ("manifest.json", "duplicates.json"):
        write_rows(tmp_path / name, QA)
    with pytest.raises(UserError, match=r"holds no questions.jsonl or .*, but other files \(duplicates.json, manifest.json\)"):
        get_benchmark("world").load(tmp_path)


def test_empty_folders_and_missing_files(tmp_path: Path) -> None:
    for place, said in ((tmp_path, "holds no CSV"), (tmp_path / "none.csv", "There is no file")):
        with pytest.raises(UserError, match=said):
            get_benchmark("jsonl").load(place)
    write_rows(tmp_path / "head.csv", QA[:1]).write_text("question,answer\n")
    with pytest.raises(UserError, match="holds no row"):
        get_benchmark("jsonl").load(tmp_path / "head.csv")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("dev.jsonl", "dev"),
        ("triviaqa_dev.jsonl", "dev"),
        ("test.jsonl", "test"),
        ("dev/file.jsonl", "dev"),
        ("dev/test.jsonl", "test"),
        ("device.jsonl", "test"),
        ("dev-00000-of-00001.jsonl", "dev"),
    ],
)
def test_the_split_is_told_by_the_name(name: str, split: str, tmp_path: Path) -> None:
    loaded = get_benchmark("triviaqa").load(write_rows(tmp_path / name, QA))
    assert loaded.split == split and loaded.questions[0].meta["split"] == split
    assert get_benchmark("triviaqa").load(tmp_path / name, Options(split="dev")).expected == 8837


def test_a_split_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'test'"):
        get_benchmark("triviaqa").load(tmp_path, Options(split="tset"))
    assert get_benchmark("jsonl").load(write_rows(tmp_path / "a.csv", QA), Options(split="any")).split == "any"


def test_equal_words_without_ids_stay_two_questions(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.csv", [QA[0], QA[1], QA[0]])
    loaded = get_benchmark("jsonl").load(path)
    first, _, again = (question.id for question in loaded.questions)
    assert again == f"{first}~2" and loaded.repeated_texts == 1 and not loaded.unread


def test_columns_that_a_person_names(tmp_path: Path) -> None:
    rows = [{"Frage": "Wer?", "Gold": {"best": ["a", "b"]}, "stufe": 2, "nr": 7, "feld": ["x", "y"]}]
    columns = named_columns("question=Frage,answer=gold.best,level=stufe,id=nr,topic=feld")
    loaded = get_benchmark("jsonl").load(write_rows(tmp_path / "a.jsonl", rows), Options(columns=columns))
    question = loaded.questions[0]
    assert (question.id, question.text, question.answers) == ("jsonl/7", "Wer?", ("a", "b"))
    assert question.meta["level"] == "2" and question.meta["topics"] == ["x", "y"]


@pytest.mark.parametrize("key", BENCHMARKS)
def test_another_benchmarks_file_is_refused_with_its_columns(key: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "other.csv", [{"Kopf": "a", "Fuß": "b"}])
    with pytest.raises(UserError, match=r"found: 'Kopf', 'Fuß'") as error:
        get_benchmark(key).load(path)
    assert "--columns question=NAME" in str(error.value) or key == "world"


def test_a_row_that_lacks_what_the_others_have_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in [QA[0], {"question": "And?"}, {"question": " ", "answer": "x"}, QA[1]])
    )
    loaded = get_benchmark("jsonl").load(path)
    assert len(loaded.questions) == 2 and loaded.unread == {"bad_row": 1, "no_question": 1}


def test_answers_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "a?", "answer": NaN}\n{"question": "b?", "answer": null}\n{"question": "c?", "answer": []}\n')
    loaded = get_benchmark("jsonl").load(path)
    assert len(loaded.questions) == loaded.without_answer == 3


def test_golden_answers_in_every_writing(tmp_path: Path) -> None:
    writings = [["a", "b"], '["a", "b"]', "['a', 'b']", ["a", ["b"]]]
    rows = [{"id": str(at), "question": f"{at}?", "golden_answers": value} for at, value in enumerate(writings)]
    rows += [
        {"id": "np", "question": "n?", "golden_answers": "['a' 'b']"},
        {"id": "deep", "question": "d?", "golden_answers": [[["a"]]]},
    ]
    loaded = get_benchmark("nq").load(write_rows(tmp_path / "nq.jsonl", rows))
    assert {question.answers for question in loaded.questions} == {("a", "b")} and len(loaded.questions) == 4
    assert loaded.unread == {"bad_row": 2}


def test_a_large_file_leaves_questions_only(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(300):
            file.write(json.dumps({**QA[0], "question": f"Who keeps lamp {number}?", "context": "word " * 20_000}) + "\n")
    assert path.stat().st_size > 25 << 20
    tracemalloc.start()
    loaded = get_benchmark("hotpotqa").load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(loaded.questions) == 300 and peak < 12 << 20
