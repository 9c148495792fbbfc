"""What a run keeps: every value that was acknowledged, whatever ends its process; and who may write in it."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending, placed
from sanderling.judge.book import VerdictBook
from sanderling.judge.verdict import Verdict, decided
from sanderling.runs.files import LOCK, locked
from sanderling.runs.run import DATABASE, Run, reading

KEYS = st.text(st.characters(), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KINDS = ("a", "episode \ud83d", "\U0010ffff")
DEEDS = st.lists(st.tuples(st.sampled_from(KINDS), KEYS, st.none() | st.tuples(VALUES, st.none() | st.binary(), st.booleans())))


@given(DEEDS)
def test_a_table_is_an_ordered_mapping_that_outlives_its_process(tmp_path_factory: pytest.TempPathFactory, deeds: list) -> None:
    place = tmp_path_factory.mktemp("run")
    model: dict[str, dict[str, list]] = {kind: {} for kind in KINDS}
    for part in (deeds[: len(deeds) // 2], deeds[len(deeds) // 2 :]):
        with Run(place) as run:
            for kind, key, deed in part:
                if deed is None:
                    run.table(kind).remove(key)
                    model[kind].pop(key, None)
                    continue
                value, blob, durable = deed
                run.table(kind).put(key, value, blob=blob, durable=durable)
                known = model[kind].setdefault(key, [None, None])
                known[0] = value
                known[1] = known[1] if blob is None else blob
        if not any(model.values()):
            assert not place.exists(), "a run that keeps nothing leaves nothing"
            continue
        assert {path.name for path in place.iterdir()} == {LOCK, DATABASE}, "a closed run is one file"
        with reading(place) as tables:
            for kind, wanted in model.items():
                (table,) = tables(kind)
                assert list(table.items()) == [(key, value) for key, (value, _) in wanted.items()]
                assert table.keys() == list(wanted)
                for key, (value, blob) in wanted.items():
                    assert key in table and table.get(key) == value and table.blob(key) == blob
                for prefix in ("a", "é"):
                    assert [key for key, _ in table.items(prefix)] == [key for key in wanted if key.startswith(prefix)]
                assert "nobody" * 2 not in table and table.get("nobody" * 2, 7) == 7 and table.blob("nobody" * 2) is None


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from sanderling.runs.run import DATABASE, Run, beside, reading
run = Run(Path(sys.argv[1]))
table, durable = run.table("t"), sys.argv[2] == "durable"
for number in range(len(table.keys()), 10**9):
    table.put(str(number), [number], blob=bytes([number % 256]) * 5000, durable=durable)
    print(number, flush=True)
"""


@pytest.mark.parametrize("durable", ["durable", "fleeting"])
def test_nothing_that_was_acknowledged_is_lost_by_kills(tmp_path: Path, durable: str) -> None:
    dice, last = random.Random(3), -1
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), durable], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            last = int(line)
            if dice.random() < 0.05:
                break
        with pytest.raises(UserError, match=r"Another process is at work in .*: wait for its end"), Run(tmp_path):
            pass
        with reading(tmp_path) as tables:
            assert len(tables("t")[0].keys()) > last, "a reader sees it while it is written"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        last = max([last, *(int(line) for line in child.stdout if line.endswith("\n"))])
        child.stdout.close()
    with Run(tmp_path) as run:
        table = run.table("t")
        assert last < len(table.keys()) <= last + 2
        assert all(table.get(str(n)) == [n] and table.blob(str(n)) == bytes([n % 256]) * 5000 for n in range(len(table.keys())))


class Traced(sqlite3.Connection):
    """Notes how far each transaction was brought to the disk."""

    commits: ClassVar[list[str]] = []

    def execute(self, query: str, *values: Any) -> sqlite3.Cursor:
        if query == "COMMIT":
            (level,) = super().execute("PRAGMA synchronous").fetchone()
            self.commits.append({1: "NORMAL", 2: "FULL"}[level])
        return super().execute(query, *values)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Traced))
    Traced.commits.clear()
    return Traced.commits


def test_what_is_durable_is_brought_to_the_disk_and_what_is_not_waits(tmp_path: Path, commits: list[str]) -> None:
    with Run(tmp_path) as run:
        run.table("t").put("k", 1)
        run.table("t").put("k", 2, durable=False)
        run.claim({"seed": 3})
        run.table("t").remove("k")
        run.reset("settings")
    assert commits == ["FULL", "NORMAL", "FULL", "NORMAL", "FULL"]


async def test_the_end_of_an_episode_a_step_or_a_verdict_is_durable(tmp_path: Path, commits: list[str]) -> None:
    pytest.importorskip("torch")
    from sanderling.rl.queue import Ledger
    from sanderling.rl.rollouts import FinishedRollout

    question = Question(id="q", text="?")
    episode = Trajectory(id="q-0", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED)
    with Ledger(tmp_path) as ledger, Run(tmp_path, locked=True) as run:
        ledger.keep(0, 0, FinishedRollout(episode, 1.0))
        ledger.settle(0, {})

        async def right() -> Verdict:
            return replace(decided(True, "it is"), model="m")

        async def ruled() -> Verdict:
            return decided(True, "the rule says so")

        await VerdictBook(run.table("verdicts")).verdict("k", right)
        await VerdictBook(run.table("verdicts")).verdict("free", ruled)
    assert commits == ["FULL", "FULL", "FULL", "NORMAL"], "what costs nothing does not wait for the disk"


def test_without_shared_memory_a_run_is_kept_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: list[str]
) -> None:
    connect = sqlite3.connect
    opened: list[sqlite3.Connection] = []

    def without_shared_memory(place: str, **named: Any) -> sqlite3.Connection:
        opened.append(connect(f"{place}&vfs=unix-dotfile", **named))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", without_shared_memory)
    for number in range(2):
        with Run(tmp_path) as run:
            assert opened[-1].execute("PRAGMA journal_mode").fetchone() == ("truncate",)
            run.table("t").put(str(number), number, blob=b"x")
            assert run.table("t").keys() == [str(one) for one in range(number + 1)]
    assert commits == ["FULL", "FULL"]
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, DATABASE}


def test_a_run_opened_twice_in_a_process_is_one(tmp_path: Path) -> None:
    with Run(tmp_path) as run:
        (tmp_path.parent / f"{tmp_path.name} too").symlink_to(tmp_path)
        with Run(tmp_path.parent / f"{tmp_path.name} too") as again:
            again.table("t").put("of", "both")
        assert run.table("t").get("of") == "both"
        run.table("t").put("still", "open")
    with locked(tmp_path), pytest.raises(UserError, match="Another process"), Run(tmp_path):
        pass
    with locked(tmp_path), Run(tmp_path, locked=True) as run:
        assert run.table("t").get("still") == "open"


def test_ranks_have_files_of_their_own_and_are_read_after_another(tmp_path: Path) -> None:
    with Run(tmp_path) as first, Run(tmp_path, rank=2) as third, Run(tmp_path, rank=1) as second:
        for run, name in ((third, "c"), (first, "a"), (second, "b")):
            run.table("t").put(name, run.rank)
        with reading(tmp_path) as tables:
            assert [item for table in tables("t") for item in table.items()] == [("a", 0), ("b", 1), ("c", 2)]


OTHER = """
import sys
from dataclasses import replace
from pathlib import Path
from sanderling.core.errors import UserError
from sanderling.runs.run import DATABASE, Run, beside, reading
try:
    Run(Path(sys.argv[1]), rank=int(sys.argv[2]), locked=True)
except UserError as error:
    print(error)
"""


def test_a_rank_is_one_process(tmp_path: Path) -> None:
    def other(rank: int) -> str:
        command = [sys.executable, "-c", OTHER, str(tmp_path), str(rank)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with Run(tmp_path, rank=1) as run:
        run.table("t").put("k", 1)
        assert "Another process is at work" in other(1) and other(2) == ""
    assert other(1) == ""


def test_a_reader_changes_nothing_and_is_not_disturbed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no run"), reading(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    with Run(tmp_path) as run:
        run.table("t").put("k", 1)
    before = (tmp_path / DATABASE).read_bytes()
    with reading(tmp_path) as tables, Run(tmp_path) as run:
        run.table("t").remove("k")
        run.close()
        assert tables("t")[0].keys() == []
        with pytest.raises(UserError, match="readonly"):
            tables("t")[0].put("k", 2)
    assert before[18:20] == b"\1\1", "a closed run is no WAL file: it is read where nothing may be written"
    with Run(tmp_path) as run:
        run.table("t").put("k", 3)


def test_other_settings_are_refused_and_each_difference_is_named(tmp_path: Path) -> None:
    settings = {"model": placed("m", ["http://one"]), "seed": 3, "profile": {"name": "tiny", "turns": 4}, "world": "w1"}
    with Run(tmp_path) as run:
        run.claim(settings)
        run.claim(settings)
        with pytest.raises(UserError, match=r"other settings \(seed was 3 and is 4; profile.turns was 4 and is 5\): go on"):
            run.claim({**settings, "seed": 4, "profile": {"name": "tiny", "turns": 5}})
        with pytest.raises(UserError, match=r"the world has changed since.*: do something else"):
            run.claim({**settings, "world": "w2"}, way_out="do something else")
        with pytest.warns(UserWarning, match="a model at another place"):
            run.claim({**settings, "model": placed("m", ["http://two"])})
        run.claim({"anything": 1}, "of another kind")


def test_what_is_wrong_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no run in"), reading(tmp_path):
        pass
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"Cannot use .*file"), Run(tmp_path / "file"):
        pass
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise" / DATABASE).write_bytes(b"noise" * 100)
    with pytest.raises(UserError, match=r"is damaged.*restore it"), Run(tmp_path / "noise"):
        pass
    with Run(tmp_path / "later") as run:
        run.table("t").put("k", 1)
    with sqlite3.connect(tmp_path / "later" / DATABASE) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="another version"), Run(tmp_path / "later"):
        pass
    sqlite3.connect(tmp_path / DATABASE).close()
    (tmp_path / DATABASE).touch()
    with pytest.raises(UserError, match="There is no run"), reading(tmp_path):
        pass
    with pytest.raises(UserError, match=r"Cannot use .*file"), Run(tmp_path / "file" / "below", private=True):
        pass


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    code = WRITER.replace("5000", "50_000").replace("bytes([number % 256])", "__import__('os').urandom(1)")
    code = code.replace("urandom(1) * 50_000", "urandom(50_000)")
    limited = ["bash", "-c", 'ulimit -f 400; exec "$@"', "bash", sys.executable, "-c", code, str(tmp_path), "durable"]
    full = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert "UserError: Cannot use" in full.stderr and "free some space" in full.stderr, full.stderr
    with Run(tmp_path) as run:
        assert run.table("t").keys() == full.stdout.split()


def test_a_run_that_holds_nothing_goes_with_its_last_user(tmp_path: Path) -> None:
    one, other = Run(tmp_path / "r"), Run(tmp_path / "r")
    one.close()
    assert (tmp_path / "r" / DATABASE).exists()
    other.close()
    assert not (tmp_path / "r").exists()
    (tmp_path / "mine").write_text("x")
    with Run(tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "mine"]
