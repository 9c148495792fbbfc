"""What a run is: a directory that one process works in, with a database that says what was asked for and what is done.

    with Run(Path("runs/gaia")) as run:                      # another process is refused
        run.claim({"model": "m", "seed": 3})                 # another run is refused, with each difference named
        attempts = run.table("attempts")
        if "q1-0" not in attempts:
            attempts.put("q1-0", {"correct": True}, blob=record)

``run.db`` is SQLite in WAL mode with one writing process; a further rank of a team writes its own ``rank-N.db``, and all are
read one after another (`reading`). What was put is there after ``kill -9``, and after a loss of power too if it was to last.
Large values are zstd blobs in a table of their own, so that summaries are read without them. Readers (`reading`) keep no
transaction open. An open database is never copied as a file: rows may be missing; share what a run holds with `export`.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

from filelock import FileLock

from sanderling.core.errors import UserError
from sanderling.runs.files import close_directory
from sanderling.runs.locks import LOCK, hold
from sanderling.runs.settings import go_on_with

DATABASE = "run.db"
_FORMAT = 1
_PATIENCE_S = 60.0
_TRIES, _PAUSE_S = 100, 0.02
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (kind, key));
CREATE TABLE IF NOT EXISTS blob (number INTEGER PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS gone AFTER DELETE ON entry BEGIN DELETE FROM blob WHERE number = OLD.number; END;
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
WAY_OUT = "go on with those, or choose another place"


def beside(out: Path) -> Path:
    """The directory of the run that makes a single file: ``t.jsonl`` has ``t.jsonl.run/`` beside it."""
    return out.with_name(f"{out.name}.run")


class Run:
    """A run under way, held by this process until it is closed or ends, however it ends.

    Opened again in the same process it is the same run: whoever needs a part of it opens it for themselves.
    """

    _open: ClassVar[WeakValueDictionary[Path, "Run"]] = WeakValueDictionary()
    _uses = 0
    _lock: FileLock | None = None

    def __new__(cls, directory: Path, **how: Any) -> Self:
        """The open run of that directory, if there is one."""
        found = cls._open.get(_file_of(directory, how.get("rank", 0)))
        return super().__new__(cls) if found is None else found  # type: ignore[return-value]

    def __init__(self, directory: Path, *, rank: int = 0, private: bool = False, locked: bool = False) -> None:
        """Open or begin the run of a directory.

        ``rank``: which process of a team this is; the first holds the directory for all. ``private``: it is for its owner's
        eyes. ``locked``: the caller holds the directory already. Raises UserError while another process is at work there, and
        where nothing can be written.
        """
        if private:
            close_directory(directory)
        if not self._uses:
            self._lock = None if locked or rank else hold(directory / LOCK, directory)
            self.directory, self.rank = directory, rank
            try:
                self._database = Database(_file_of(directory, rank))
            except BaseException:
                self._let_go()
                raise
            self._open[self._database.path] = self
        self._uses += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The last user brings everything into the one file and lets go of the directory; a run that holds nothing is gone."""
        self._uses -= 1
        if self._uses == 0:
            path = self._database.path
            self._open.pop(path, None)
            is_empty = not self._database.rows("SELECT 1 FROM entry LIMIT 1", ())
            self._database.close()
            if is_empty:
                path.unlink(missing_ok=True)
                if self._lock is not None and [file.name for file in self.directory.iterdir()] == [LOCK]:
                    (self.directory / LOCK).unlink()
                    with suppress(OSError):  # another process has come in: it is theirs now
                        self.directory.rmdir()
            self._let_go()

    def table(self, kind: str) -> "Table":
        """Entries of one kind."""
        return Table(self._database, kind)

    def claim(self, settings: Mapping[str, Any], what: str = "settings", way_out: str = WAY_OUT) -> None:
        """Say what all work of one kind depends on, or see that it still does.

        A model of the same name at another place is a warning (`settings.go_on_with`). Raises UserError, which names what
        differs and ends in ``way_out``.
        """
        about = self.table("about")
        was = about.get(what)
        if was is None or go_on_with(was, dict(settings), self.directory, way_out):
            about.put(what, dict(settings))

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _file_of(directory: Path, rank: int) -> Path:
    return directory.absolute() / (f"rank-{rank}.db" if rank else DATABASE)


@contextmanager
def reading(directory: Path) -> Iterator[Callable[[str], "Sequence[Table]"]]:
    """What a run holds, while another process may be at work on it.

    The tables of one kind, a rank's after the other's. Raises UserError where there is no run.

    Example: ``with reading(out) as tables: rows = [row for table in tables("attempts") for row in table.items()]``
    """
    with ExitStack() as stack:
        files = [directory / DATABASE, *sorted(directory.glob("rank-*.db"))]
        databases = [stack.enter_context(Database(file, reading=True)) for file in files]
        yield lambda kind: [Table(database, kind) for database in databases]


@cache
def _zstd() -> Any:
    import pyarrow  # slow to import, and most commands keep nothing large

    return pyarrow.Codec("zstd")


class Table:
    """Entries of one kind, by key, in the order in which they first came: JSON values, with a blob where one was given."""

    def __init__(self, database: "Database", kind: str) -> None:
        self._database, self.kind = database, kind

    @property
    def path(self) -> Path:
        """The file that holds it, for what a person is told."""
        return self._database.path

    def put(self, key: str, value: Any, *, blob: bytes | None = None, lasting: bool = True) -> None:
        """Keep a value, in place of an earlier one of its key; without ``blob`` an earlier one stays.

        ``lasting``: it is on the disk when this returns; otherwise it outlives the process, not a loss of power.
        """
        with self._database.writing(lasting) as run:
            query = "INSERT INTO entry (kind, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
            run(query, (self.kind, key, json.dumps(value)))
            if blob is not None:
                packed = _zstd().compress(blob, asbytes=True)
                query = "INSERT OR REPLACE INTO blob SELECT number, ?, ? FROM entry WHERE kind = ? AND key = ?"
                run(query, (len(blob), packed, self.kind, key))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        found = self._database.rows("SELECT value FROM entry WHERE kind = ? AND key = ?", (self.kind, key))
        return json.loads(found[0][0]) if found else default

    def blob(self, key: str) -> bytes | None:
        """The large value of a key; None where it has none."""
        query = "SELECT size, data FROM entry JOIN blob USING (number) WHERE kind = ? AND key = ?"
        found = self._database.rows(query, (self.kind, key))
        return _zstd().decompress(found[0][1], decompressed_size=found[0][0], asbytes=True) if found else None

    def remove(self, key: str) -> None:
        """Forget a key, its blob included; one that is not there is forgotten already."""
        with self._database.writing(lasting=False) as run:
            run("DELETE FROM entry WHERE kind = ? AND key = ?", (self.kind, key))

    def clear(self) -> None:
        """Forget all."""
        with self._database.writing(lasting=False) as run:
            run("DELETE FROM entry WHERE kind = ?", (self.kind,))

    def items(self) -> Iterator[tuple[str, Any]]:
        """Keys and values, in the order in which the keys first came; no blob is read."""
        found = self._database.rows("SELECT key, value FROM entry WHERE kind = ? ORDER BY number", (self.kind,))
        return ((key, json.loads(value)) for key, value in found)

    def keys(self) -> list[str]:
        return [key for (key,) in self._database.rows("SELECT key FROM entry WHERE kind = ? ORDER BY number", (self.kind,))]

    def __contains__(self, key: str) -> bool:
        return bool(self._database.rows("SELECT 1 FROM entry WHERE kind = ? AND key = ?", (self.kind, key)))

    def __len__(self) -> int:
        return self._database.rows("SELECT count(*) FROM entry WHERE kind = ?", (self.kind,))[0][0]


class Database:
    """One SQLite file of entries and blobs; used from any thread, one statement at a time."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        """Open or make it. Raises UserError when it cannot be, or is something else."""
        self.path = path
        self._guard = threading.Lock()
        self._lasting: bool | None = None
        if reading and not path.exists():
            raise UserError(f"There is no run in {path.parent}: choose the directory of one.")
        try:
            if not reading:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if not reading and version in (0, _FORMAT):
                self._prepare()
                version = _FORMAT
        except OSError as error:
            raise UserError(f"Cannot use {path.parent} ({error.strerror}): choose another place with --out.") from error
        except sqlite3.Error as error:
            raise self._told(error) from error
        if version != _FORMAT:
            raise UserError(f"{path} was written by another version of sanderling: use that one, or begin in another place.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        """All rows of a query; nothing stays open behind it."""
        with self._guard:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._told(error) from error

    @contextmanager
    def writing(self, lasting: bool) -> Iterator[Callable[[str, tuple[Any, ...]], Any]]:
        """One transaction. Raises UserError when there is no room for it; then nothing was written."""
        with self._guard:
            try:
                if lasting != self._lasting:
                    self._connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
                    self._lasting = lasting
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection.execute
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise self._told(error) from error

    def close(self) -> None:
        """Bring the log into the file; closing twice is allowed."""
        with self._guard:
            self._connection.close()

    def _prepare(self) -> None:
        for _ in range(_TRIES):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.executescript(_SCHEMA)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    break
                time.sleep(_PAUSE_S)  # another process is just making it
        # A file system without shared memory, such as some network ones.
        self._connection.execute("PRAGMA journal_mode = TRUNCATE")
        self._connection.executescript(_SCHEMA)

    def _told(self, error: sqlite3.Error) -> UserError:
        if isinstance(error, sqlite3.OperationalError):
            return UserError(f"Cannot use {self.path} ({error}): free some space, or choose another place.")
        return UserError(f"{self.path} is damaged ({error}): restore it, or remove it to begin again.")
