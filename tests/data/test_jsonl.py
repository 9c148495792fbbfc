import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import trajectories

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory, decode_record, decode_trajectory, encode_record
from sanderling.core.types import Ending, Role
from sanderling.runs.jsonl import JsonlLog, TornLineWarning, TrajectoryStore, read_parquet, write_trajectories


def make(id: str = "t0", **fields) -> Trajectory:
    node = Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="潮 tide")
    base = {"id": id, "question": Question(id="q", text="?"), "nodes": (node,), "leaf": 0, "ending": Ending.ANSWERED}
    return Trajectory(**(base | fields))


@given(trajectories())
def test_json_round_trip_is_exact(trajectory):
    line = encode_record(trajectory)
    again = decode_trajectory(decode_record(line))
    assert again == trajectory
    assert repr(again) == repr(trajectory)  # equality alone would take 0.0 for -0.0 and 1 for 1.0 or True
    assert b"\n" not in line


@given(st.lists(trajectories(), max_size=4))
def test_parquet_round_trip_is_exact(tmp_path_factory, items):
    path = tmp_path_factory.mktemp("p") / "t.parquet"
    assert write_trajectories(path, items) == len(items)
    assert repr(list(read_parquet(path))) == repr(items)


def test_a_failed_write_of_parquet_leaves_the_old_file_and_no_litter(tmp_path):
    def failing():
        yield make("new")
        raise KeyError("teacher died")

    path = tmp_path / "t.parquet"
    write_trajectories(path, [make("old")])
    with pytest.raises(KeyError):
        write_trajectories(path, failing())
    assert [t.id for t in read_parquet(path)] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_every_byte_of_a_torn_line_is_survived(tmp_path):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.append(make("a"))
    kept = store.path.read_bytes()
    store.append(make("b"))
    whole = store.path.read_bytes()
    for cut in range(len(kept) + 1, len(whole) - 1):
        store.path.write_bytes(whole[:cut])
        with pytest.warns(TornLineWarning):
            assert [t.id for t in store] == ["a"]
        with pytest.warns(TornLineWarning):
            store.append(make("c"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert [t.id for t in store] == ["a", "c"]


@pytest.mark.parametrize("damage", [b"{broken\n", b"\n", b"[1]\n", b'{"id": 3}\n', b"\xff\xfe\n", b"\x00\x00\n"])
def test_damage_in_the_middle_names_file_and_line(tmp_path, damage):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.append(make("a"))
    with store.path.open("ab") as file:
        file.write(damage)
    store.append(make("b"))
    with pytest.raises(UserError, match=r"Line 2 of .*s\.jsonl"):
        list(store)
    assert store.path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("whole", [b'{"id": 3}', b"[1]"])
def test_a_last_line_that_is_whole_and_no_record_is_damage_and_not_torn(tmp_path, whole):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.path.write_bytes(encode_record(make("a")) + b"\n" + whole)
    with pytest.raises(UserError, match=r"Line 2 of .*s\.jsonl"):
        list(store)


def test_what_keeps_nothing_and_what_is_no_json_are_one_sentence(tmp_path):
    with pytest.raises(UserError, match="a device or a pipe, which keeps nothing"):
        JsonlLog("/dev/null").append({})
    with pytest.raises(UserError, match="object is not a JSON value"):
        JsonlLog(tmp_path / "log").append({"loss": type("object", (), {})()})
    (tmp_path / "list").write_text("{}\n[]\n")
    with pytest.raises(UserError, match=r"Line 2 of .*list is damaged \(it is not a JSON object\)"):
        list(JsonlLog(tmp_path / "list"))


@pytest.mark.parametrize("text", ["A diary, last line cut", '{\n "format": 1\n}\n', "x\n" * 99, "[]", "\n{}"])
def test_what_is_no_store_is_left_as_it_is(tmp_path, text):
    store = TrajectoryStore(tmp_path / "diary.txt")
    store.path.write_text(text)
    with pytest.raises(UserError, match="holds something else than trajectories: choose another place"):
        store.prepare()
    assert store.path.read_text() == text


def test_nothing_but_a_torn_record_is_ever_cut_off(tmp_path):
    store = TrajectoryStore(tmp_path / "diary.txt")
    store.path.write_text("A diary, last line cut")
    with pytest.raises(UserError, match="ends in something that is no record"):
        store.append(make())
    assert store.path.read_text() == "A diary, last line cut"


@pytest.mark.parametrize("head", [b"", b"{", b'{"schema', encode_record(make())[:200], encode_record(make()) + b"\n"])
def test_empty_torn_and_whole_stores_can_be_added_to(tmp_path, head):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.path.write_bytes(head)
    store.prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TornLineWarning)
        store.append(make("b"))
        assert list(store)[-1] == make("b")


def test_a_full_disk_leaves_the_store_as_it_was(tmp_path, monkeypatch):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.append(make("a"))
    before = store.path.read_bytes()
    real = os.write

    def stingy(handle, data):
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return real(handle, bytes(data)[:40])

    monkeypatch.setattr(os, "write", stingy)
    with pytest.raises(UserError, match="No space left"):
        store.append(make("b"))
    assert store.path.read_bytes() == before


CHILD = """
import sys
from sanderling.runs.jsonl import JsonlLog
log = JsonlLog(sys.argv[1])
for step in range(10**9):
    log.append({"step": step, "pad": "x" * 50_000})
    print(step, flush=True)
"""


def test_kill_9_loses_nothing_finished(tmp_path):
    path = tmp_path / "m.jsonl"
    first = 0
    for pause in (0.0, 0.013, 0.029):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(5):
            child.stdout.readline()
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        acknowledged = 5 + len(child.stdout.read().split())
        child.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TornLineWarning)
            steps = [row["step"] for row in JsonlLog(path)][first:]
        assert steps == list(range(len(steps)))
        assert acknowledged <= len(steps) <= acknowledged + 1
        first += len(steps)


def test_two_writers_do_not_mix_lines(tmp_path):
    path = tmp_path / "m.jsonl"
    code = CHILD.replace("10**9", "40")
    children = [subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    assert sorted(row["step"] for row in JsonlLog(path)) == sorted([*range(40), *range(40)])


def test_what_is_no_json_is_refused(tmp_path):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    with pytest.raises(UserError, match="cannot be written as JSON"):
        store.append(make(meta={"k": {2, 3}}))
    assert not store.path.exists()
