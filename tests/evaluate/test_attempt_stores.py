"""Rows of attempts: the index says what the records say, whatever became of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.attempt_stores import IndexedRecords, WholeRecords
from sanderling.evaluate.rows import AttemptRow, asked_digest
from sanderling.evaluate.run_directory import ROWS, RunDirectory
from sanderling.judge.verdict import META_KEY, verdict_of
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import DATABASE, Run, Table

VERDICT = {"judge": "exact", "correct": True, "score": 1.0, "reason": "alike"}


def record(number: int, answer: str | None = "Oslo", **meta: object) -> Trajectory:
    question = Question(id=f"q{number}", text=f"What is {number}?", answers=("Oslo",))
    return Trajectory(
        id=f"q{number}-0", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer,
        seeds=Seeds(run=3, attempt=0), meta=meta, model="m", profile="tiny",
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> IndexedRecords:
    return opened(tmp_path)


def opened(root: Path) -> IndexedRecords:
    return RunDirectory(root).attempts


def from_records(store: IndexedRecords) -> list[AttemptRow]:
    return list(WholeRecords(store.records).rows())


def test_a_row_says_what_its_record_says(store: IndexedRecords, tmp_path: Path) -> None:
    store.append(record(0, round=2))
    row = store.append(record(1, "Oslo", **{META_KEY: VERDICT}, round=2))
    assert opened(tmp_path).rows() == store.rows() == from_records(store) and row == store.rows()[1]
    assert (row.id, row.key, row.run, row.round, row.answer, row.profile) == ("q1-0", ("q1", 0), 3, 2, "Oslo", "tiny")
    assert row.correct("exact", record(1).question) is True and row.correct("f1", record(1).question) is None
    assert row.correct("exact", record(1).question.model_copy(update={"answers": ("Bergen",)})) is None
    assert row.episode.correct is None and row.episode.model == "m"
    assert store.records.at(row.line).id == "q1-0"
    case = row.case(record(1).question)
    assert (case.id, case.answer, case.ending, case.question) == ("q1-0", "Oslo", Ending.ANSWERED, record(1).question)


@given(st.text(st.characters(), max_size=40) | st.just("half \ud83d of a pair") | st.none())
@settings(max_examples=60, deadline=None)
def test_any_answer_comes_back(tmp_path_factory: pytest.TempPathFactory, answer: str | None) -> None:
    root = tmp_path_factory.mktemp("any")
    row = opened(root).append(record(0, answer))
    assert opened(root).rows() == [row] and row.answer == answer


def forget_all(rows: Table) -> None:
    rows.remove(whole=rows.kind)


def forget_one(rows: Table) -> None:
    """A kill between a record and its row."""
    rows.remove(rows.keys()[-1])


def of_another_version(rows: Table) -> None:
    rows.put("", [1])


def garbage(rows: Table) -> None:
    rows.put(rows.keys()[-1], {"id": 3})


@pytest.mark.parametrize("harm", [forget_all, forget_one, of_another_version, garbage])
def test_rows_that_came_to_harm_are_made_again(tmp_path: Path, harm: Callable[[Table], None]) -> None:
    store = opened(tmp_path)
    for number in range(4):
        store.append(record(number))
    whole = store.rows()
    with Run(tmp_path, locked=True) as run:
        harm(run.table(ROWS))
        harmed = dict(run.table(ROWS).items())
        assert opened(tmp_path).rows() == whole
        assert dict(run.table(ROWS).items()) == harmed, "whoever only reads writes nothing"
    again = opened(tmp_path)
    again.append(record(4))
    assert [row.id for row in opened(tmp_path).rows()] == [f"q{n}-0" for n in range(5)]
    assert opened(tmp_path).rows() == from_records(again)


@pytest.mark.parametrize("harm", [lambda whole: b"noise" * 100, lambda whole: whole[:4096] + b"\xff" * (len(whole) - 4096)])
def test_a_damaged_database_stops_nobody_from_reading_whole_records(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    directory = RunDirectory(tmp_path)
    with directory.alone():
        directory.table("about").put("attempts", {"agent": "m"})
        for number in range(40):
            directory.attempts.append(record(number))
    file = tmp_path / DATABASE
    assert directory.made_with() == {"agent": "m"}
    file.write_bytes(harm(file.read_bytes()))
    with pytest.warns(UserWarning, match=r"run\.db is damaged.*read from their records"):
        assert directory.attempts.rows() == from_records(directory.attempts)
    with pytest.warns(UserWarning, match=r"run\.db is damaged.*what it was begun with"):
        assert directory.made_with() == {}
    with pytest.raises(UserError, match="is damaged"), directory.alone():
        directory.attempts.prepare()


def test_records_that_were_put_in_another_order_are_read_again(store: IndexedRecords, tmp_path: Path) -> None:
    for number in range(3):
        store.append(record(number))
    lines = store.records.path.read_bytes().splitlines(keepends=True)
    store.records.path.write_bytes(lines[2] + lines[0] + lines[1])
    rows = opened(tmp_path).rows()
    assert [row.id for row in rows] == ["q2-0", "q0-0", "q1-0"]
    assert [store.records.at(row.line).id for row in rows] == [row.id for row in rows]


def test_a_shorter_store_is_no_ghost_of_the_longer_one(store: IndexedRecords, tmp_path: Path) -> None:
    for number in range(3):
        store.append(record(number))
    store.records.path.write_bytes(store.records.path.read_bytes().splitlines(keepends=True)[0])
    assert [row.id for row in opened(tmp_path).rows()] == ["q0-0"]
    store.records.path.unlink()
    assert opened(tmp_path).rows() == []


def test_a_later_verdict_stands_in_the_index_and_no_record_is_written_twice(store: IndexedRecords, tmp_path: Path) -> None:
    first, _ = store.append(record(0)), store.append(record(1))
    size = store.records.path.stat().st_size
    mended = record(0).question.model_copy(update={"answers": ("Bergen",)})
    later = store.judged(first, mended, VERDICT)
    assert later.correct("exact", mended) is True and later.correct("exact", record(0).question) is None
    assert opened(tmp_path).rows()[0] == later and store.records.path.stat().st_size == size
    assert opened(tmp_path).append(record(2)).line.offset == size


def test_whole_records_take_a_later_verdict_as_a_further_record(tmp_path: Path) -> None:
    records = TrajectoryStore(tmp_path / "t.jsonl")
    store = WholeRecords(records)
    first = store.append(record(0))
    mended = record(0).question.model_copy(update={"answers": ("Bergen",)})
    row = store.judged(first, mended, VERDICT)
    assert list(store.rows()) == [first, row]
    assert [(one.question, verdict_of(one, "exact")) for one in records] == [(record(0).question, None), (mended, True)]


def test_a_damaged_record_is_named_by_its_line(store: IndexedRecords, tmp_path: Path) -> None:
    for number in range(3):
        store.append(record(number))
    with store.records.path.open("ab") as file:
        file.write(b'{"schema_version": 2}\n')
    with pytest.raises(UserError, match=r"Line 4 of .*attempts.jsonl is damaged"):
        opened(tmp_path).rows()


def test_a_record_that_changed_under_a_row_is_refused(store: IndexedRecords) -> None:
    row = store.append(record(0))
    store.records.path.write_bytes(store.records.path.read_bytes().replace(b"Oslo", b"Rome"))
    with pytest.raises(UserError, match="has changed"):
        store.records.at(row.line)


def test_masks_and_words_make_the_question_blanks_do_not_hide(store: IndexedRecords) -> None:
    question = record(0).question
    other = [{"text": "What?"}, {"masked_urls": ("https://a.example",)}]
    same = [{"answers": ("Bergen",)}, {"hops": 3}, {"meta": {"level": "1"}}]
    digests = [asked_digest(question.model_copy(update=change)) for change in (*other, *same)]
    assert digests[2:] == [asked_digest(question)] * 3 and len(set(digests)) == 3
    twice = {"masked_urls": ("https://b.example", "https://a.example", "https://b.example")}
    once = {"masked_urls": ("https://a.example", "https://b.example")}
    assert asked_digest(question.model_copy(update=twice)) == asked_digest(question.model_copy(update=once))
