"""What a run is: a directory that one process works in, with a database that says what was asked for and what is done.

    with Run(Path("runs/gaia")) as run:                      # another process is refused
        run.claim({"model": "m", "seed": 3})                 # another run is refused, with each difference named
        attempts = run.table("attempts")
        if "q1-0" not in attempts:
            attempts.put("q1-0", {"correct": True}, blob=record)

``run.db`` is SQLite in WAL mode with one writing process; a further rank of a team writes its own ``rank-N.db``. What was put
is there after ``kill -9``, and after a loss of power too if it was durable. Large values are zstd blobs in a table of their
own, so that summaries are read without them. An open database is never copied as a file: rows may be missing.
"""

import json
import os
import sqlite3
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from filelock import FileLock

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, decode_record, decode_trajectory
from sanderling.core.text import without_surrogates
from sanderling.runs.files import LOCK, close_directory, hold, or_cannot

DATABASE = "run.db"
RECORDS = "records"  # the table of whole trajectories, each a blob (`core.record.encode_record`)
WAY_OUT = "go on with those, or choose another place"
_FORMAT = 1
_PATIENCE_S, _PAUSE_S = 60.0, 0.02
_MOST, _LONGEST = 4, 60  # differences that are told, and characters of a value in one
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (kind, key));
CREATE TABLE IF NOT EXISTS blob (number INTEGER PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS gone AFTER DELETE ON entry BEGIN DELETE FROM blob WHERE number = OLD.number; END;
PRAGMA user_version = {_FORMAT};
COMMIT;
"""


class NoRunError(UserError):
    """There is no run in a directory, or only the beginning of a database, whose maker was killed."""


def beside(out: Path) -> Path:
    """The directory of the run that makes a single file: ``t.jsonl`` has ``t.jsonl.run/`` beside it."""
    return out.with_name(f"{out.name}.run")


class Run:
    """A run under way, held by this process until all who opened it have closed it, or the process ends."""

    def __init__(self, directory: Path, *, rank: int = 0, private: bool = False, locked: bool = False) -> None:
        """Open or begin the run of a directory. Raises UserError while another process is at work there.

        ``rank``: which process of a team this is; the first holds the directory for all. ``locked``: the caller holds it.
        """
        self.directory, self.rank = directory, rank
        if private:
            with or_cannot(f"use {directory}"):
                close_directory(directory)
        name = f"rank-{rank}.db" if rank else DATABASE
        path = directory.resolve() / name
        with _guard, ExitStack() as failed:
            database = _open.get((os.getpid(), path))  # by whatever path it is named; a forked child opens its own
            if database is None:
                held = hold(path.with_name(f"{name}.lock" if rank else LOCK), directory) if rank or not locked else None
                if held is not None:
                    failed.callback(held.release)
                database = _open[os.getpid(), path] = Database(path)
                database.lock = held
            database.users += 1
            failed.pop_all()
        self._database = database
        self.close = weakref.finalize(self, _let_go, database, os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def table(self, kind: str) -> "Table":
        return Table(self._database, kind, self)

    def reset(self, what: str) -> None:
        """Forget everything, at once, but what was claimed under one name."""
        with self._database.writing(durable=True) as run:
            run("DELETE FROM entry WHERE kind <> 'about' OR key <> ?", (what,))

    def claim(self, settings: Mapping[str, Any], what: str = "settings", way_out: str = WAY_OUT) -> None:
        """Say what all work of one kind depends on, or see that it still does (:func:`go_on_with`). Raises UserError."""
        about = self.table("about")
        was = about.get(what)
        if was is None or go_on_with(was, dict(settings), self.directory, way_out):
            about.put(what, dict(settings))


_open: dict[tuple[int, Path], "Database"] = {}  # by process and path, what this process has open
_guard = threading.RLock()  # a run that nobody has any more is given back whenever Python finds it, amid an opening as well


def _let_go(database: "Database", process: int) -> None:
    """One user less; the last closes it, and takes an empty run away."""
    with _guard:
        database.users -= 1
        if database.users or os.getpid() != process:
            return
        path, lock = database.path, database.lock
        del _open[process, path]
        is_empty = not database.rows("SELECT 1 FROM entry LIMIT 1")
        if database.close() and is_empty:
            path.unlink(missing_ok=True)
            if lock is not None and [file.name for file in path.parent.iterdir()] == [LOCK]:
                (path.parent / LOCK).unlink()
                with suppress(OSError):  # another process has come in: it is theirs now
                    path.parent.rmdir()
        if lock is not None:
            lock.release()


@contextmanager
def reading(directory: Path) -> Iterator[Callable[[str], "Sequence[Table]"]]:
    """The tables of one kind of a run, a rank's after the other's, while another process may be at work on it.

    Example: ``with reading(out) as tables: rows = [row for table in tables("attempts") for row in table.items()]``
    """
    with ExitStack() as stack:
        databases = [stack.enter_context(closing(Database(directory / DATABASE, reading=True)))]
        for file in sorted(directory.glob("rank-*.db")):
            with suppress(NoRunError):
                databases.append(stack.enter_context(closing(Database(file, reading=True))))
        yield lambda kind: [Table(database, kind) for database in databases]


def records(directory: Path) -> Iterator[Trajectory]:
    """The whole trajectories that a run holds, a rank's after the other's. Raises UserError for one that is damaged."""
    with reading(directory) as tables:
        for table in tables(RECORDS):
            yield from map(table.record, table.keys())


@cache
def _zstd() -> Any:
    import pyarrow  # slow to import, and most commands keep nothing large

    return pyarrow.Codec("zstd")


class Table:
    """Entries of one kind, by key, in the order in which they first came: JSON values, with a blob where one was given."""

    def __init__(self, database: "Database", kind: str, run: Run | None = None) -> None:
        self._database, self.kind, self.path = database, kind, database.path
        self._run = run  # which keeps the database open while this is used
        self._kind = _stored(kind)

    def put(self, key: str, value: Any, *, blob: bytes | None = None, durable: bool = True) -> None:
        """Keep a value, in place of an earlier one of its key; without ``blob`` an earlier one stays."""
        with self._database.writing(durable) as run:
            query = "INSERT INTO entry (kind, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
            run(query, (self._kind, _stored(key), json.dumps(value)))
            if blob is not None:
                packed = _zstd().compress(blob, asbytes=True)
                query = "INSERT OR REPLACE INTO blob SELECT number, ?, ? FROM entry WHERE kind = ? AND key = ?"
                run(query, (len(blob), packed, self._kind, _stored(key)))

    def get(self, key: str, default: Any = None) -> Any:
        found = self._database.rows("SELECT value FROM entry WHERE kind = ? AND key = ?", self._kind, _stored(key))
        return json.loads(found[0][0]) if found else default

    def blob(self, key: str) -> bytes | None:
        query = "SELECT size, data FROM entry JOIN blob USING (number) WHERE kind = ? AND key = ?"
        found = self._database.rows(query, self._kind, _stored(key))
        return _zstd().decompress(found[0][1], decompressed_size=found[0][0], asbytes=True) if found else None

    def record(self, key: str) -> Trajectory:
        """The trajectory that is the blob of a key. Raises UserError for a damaged one."""
        try:
            return decode_trajectory(decode_record(self.blob(key) or b""))
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path} is damaged ({self.kind} {key}: {error}): restore it, or begin again.") from error

    def remove(self, *keys: str, whole: str = "") -> None:
        """Forget keys, their blobs included, and all entries of the kind ``whole``, at once."""
        with self._database.writing(durable=False) as run:
            for key in keys:
                run("DELETE FROM entry WHERE kind = ? AND key = ?", (self._kind, _stored(key)))
            if whole:
                run("DELETE FROM entry WHERE kind = ?", (_stored(whole),))

    def bound(self, most: int) -> None:
        """Where the database holds more bytes, forget the first twentieth of all entries; others come in their place."""
        held = (
            "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        if self._database.rows(held)[0][0] <= most:
            return
        share = "SELECT count(*) / 20 + 1 FROM entry WHERE kind = ?"
        first = f"SELECT number FROM entry WHERE kind = ? ORDER BY number LIMIT ({share})"
        with self._database.writing(durable=False) as run:
            run(f"DELETE FROM entry WHERE number IN ({first})", (self._kind, self._kind))

    def replace(self, values: Mapping[str, Any]) -> None:
        """Put these in place of all entries of the kind, at once."""
        with self._database.writing(durable=True) as run:
            run("DELETE FROM entry WHERE kind = ?", (self._kind,))
            for key, value in values.items():
                run("INSERT INTO entry (kind, key, value) VALUES (?, ?, ?)", (self._kind, _stored(key), json.dumps(value)))

    def items(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Keys that begin so and their values, in the order in which the keys first came; no blob is read."""
        values, wanted = [self._kind], ""
        if prefix:
            values += [prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)]
            wanted = "AND key >= ? AND key < ?"
        found = self._database.rows(f"SELECT key, value FROM entry WHERE kind = ? {wanted} ORDER BY number", *values)
        return ((_plain(key), json.loads(value)) for key, value in found)

    def keys(self) -> list[str]:
        found = self._database.rows("SELECT key FROM entry WHERE kind = ? ORDER BY number", self._kind)
        return [_plain(key) for (key,) in found]

    def __contains__(self, key: str) -> bool:
        return bool(self._database.rows("SELECT 1 FROM entry WHERE kind = ? AND key = ?", self._kind, _stored(key)))


def _stored(key: str) -> str | bytes:
    """A key as SQLite holds it: as bytes where it has lone surrogates, which no text in UTF-8 can have."""
    return key if without_surrogates(key) == key else key.encode("utf-8", "surrogatepass")


def _plain(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "surrogatepass")


class Database:
    """One SQLite file of entries and blobs; used from any thread, one statement at a time."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        """Open or make it; ``reading``: only look, which changes nothing. Raises UserError."""
        self.path, self.users, self._guard = path, 0, threading.Lock()
        self.lock: FileLock | None = None
        self._is_durable: bool | None = None
        no_run = NoRunError(f"There is no run in {path.parent}: choose the directory of one.")
        if reading and not path.exists():
            raise no_run
        if not reading:
            with or_cannot(f"use {path.parent}"):
                path.parent.mkdir(parents=True, exist_ok=True)
        try:
            place = f"{path.absolute().as_uri()}?mode={'ro' if reading else 'rwc'}"
            how: dict[str, Any] = {"timeout": _PATIENCE_S, "isolation_level": None, "check_same_thread": False}
            self._connection = sqlite3.connect(place, uri=True, **how)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if not reading and version in (0, _FORMAT):
                self._prepare(_SCHEMA if version == 0 else "")
                version = _FORMAT
        except sqlite3.Error as error:
            raise self._in_words(error) from error
        if version == 0:
            raise no_run
        if version != _FORMAT:
            raise UserError(f"{path} was written by another version of sanderling: use that one, or begin in another place.")

    def rows(self, query: str, *values: Any) -> list[Any]:
        with self._guard:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._in_words(error) from error

    @contextmanager
    def writing(self, durable: bool) -> Iterator[Callable[[str, tuple[Any, ...]], Any]]:
        """One transaction. Raises UserError when there is no room for it; then nothing was written."""
        with self._guard:
            try:
                if durable != self._is_durable:
                    self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    self._is_durable = durable
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection.execute
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise self._in_words(error) from error

    def close(self) -> bool:
        """Make it one plain file, which can be read from where nothing may be written; False where others have it open."""
        with self._guard:
            try:
                self._connection.execute("PRAGMA busy_timeout = 0")
                return self._connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete"
            except sqlite3.Error:  # somebody reads, or it cannot be written: what was put is there all the same
                return False
            finally:
                self._connection.close()

    def _prepare(self, schema: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                    self._connection.execute("PRAGMA journal_mode = TRUNCATE")  # without shared memory, as on a network
                self._connection.executescript(schema)
                return
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)  # another process is just making or reading it

    def _in_words(self, error: sqlite3.Error) -> Exception:
        """As a sentence where a person can do something; any other error is a bug, and stays what it is."""
        if _code(error) in _DAMAGED:
            return UserError(f"{self.path} is damaged ({error}): restore it, or begin in another place.")
        if isinstance(error, sqlite3.OperationalError):
            advice = "wait for the end of other processes, free some space, or choose another place"
            return UserError(f"Cannot use {self.path} ({error}): {advice}.")
        return error


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


# -- what work was made with ---------------------------------------------------------------------------------------------


def without_places(value: Any) -> Any:
    """JSON with every model (`core.types.placed`) as its name."""
    if isinstance(value, dict):
        return value["model"] if value.keys() == {"model", "at"} else {key: without_places(one) for key, one in value.items()}
    return [without_places(one) for one in value] if isinstance(value, list) else value


def go_on_with(was: Any, now: dict[str, Any], place: Path, way_out: str) -> bool:
    """Whether ``place``, made with ``was``, has to say ``now`` instead from here on; both are JSON.

    Warns where a model of the same name is at another place: two servers may give different models one name, or one has moved.
    Raises UserError, which ends in ``way_out``, when anything else differs.
    """
    refuse_other(place, differences(without_places(was), without_places(now)), way_out)
    if was != now:
        told = "; ".join(differences(was, now))
        warnings.warn(f"{place} was made with a model at another place ({told}): what is done stands", stacklevel=3)
    return was != now


def refuse_other(place: Path, found: Iterable[str], way_out: str) -> None:
    """Raises UserError, which tells the first few differences and ends in ``way_out``, unless there are none."""
    told = list(dict.fromkeys(found))
    if told:
        more = [f"and {len(told) - _MOST} more"] if len(told) > _MOST else []
        raise UserError(f"{place} was made with other settings ({'; '.join(told[:_MOST] + more)}): {way_out}.")


def differences(was: Any, now: Any, at: str = "") -> Iterator[str]:
    """What is another value than before, by its place; a world's fingerprint is said to be one, and other names say enough."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in ["name"] if was.get("name") != now.get("name") else dict.fromkeys((*was, *now)):
            if was.get(key) != now.get(key):
                yield from differences(was.get(key), now.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for number, (one, other) in enumerate(zip(was, now, strict=True), start=1):
            yield from differences(one, other, f"{at} {number}")
    elif was != now and at.rpartition(".")[2] in ("fingerprint", "world"):
        yield "the world has changed since"
    elif was != now:
        texts = (json.dumps(value, ensure_ascii=False) for value in (was, now))
        before, after = (text[:_LONGEST] + "…" * (len(text) > _LONGEST) for text in texts)
        yield f"{at} was {before} and is {after}"
