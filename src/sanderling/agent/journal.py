"""The journal: what unfinished episodes have done so far, on disk, so that a process killed at any moment loses at most a turn.

A journal is a directory that one process holds. Each episode under way has a file of JSON lines there: the date it began on,
then an entry for every sampled turn and every tool call, written as it is done. An entry keeps what was done with a digest of
what was asked; asked for otherwise, it and all that follows is left out with a warning, since two runs are never mixed. When
the episode's record is stored for good its file goes, and with the last file the directory. A file survives the end of its
process, not a loss of power (then the episode starts over).
"""

import datetime
import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from sanderling.core.errors import UserError
from sanderling.core.record import encode_record
from sanderling.core.types import Ending
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog

FORMAT = 1
_LOCK = ".lock"


class JournalWarning(UserWarning):
    """Recorded turns do not belong to what is asked now, and are left out."""


class Ended(Protocol):
    """An episode's record, or what stands for one."""

    @property
    def id(self) -> str: ...

    @property
    def ending(self) -> Ending | None: ...


@dataclass(frozen=True)
class Entry:
    """Something an episode has done."""

    place: str
    """Which turn and attempt, or which call."""
    asked: str
    """Digest of what was asked; it covers everything that the episode had said before."""
    at: float
    """Seconds into the episode."""
    done: dict[str, Any]
    """JSON values."""


class EpisodeJournal:
    """One episode's file: entries of earlier processes, which are ahead of it, and the ones it adds."""

    def __init__(self, path: Path, episode: str, today: datetime.date) -> None:
        """Read what there is. Raises UserError when a line other than a torn last one is damaged."""
        self._log = JsonlLog(path, durable=False)
        self._head = {"format": FORMAT, "episode": episode, "began": today.isoformat()}
        self._ahead: dict[str, Entry] = {}
        self._behind: list[Entry] = []
        self._written = False
        lines = self._log.read_all()
        if lines and lines[0].keys() == self._head.keys() and lines[0]["format"] == FORMAT:
            self._head, self._written = lines[0], True
            self._ahead = {line["place"]: Entry(**line) for line in lines[1:]}
        elif lines:
            path.unlink()
            warnings.warn(f"{path} was written by another version of sanderling and is left out", JournalWarning, stacklevel=2)

    @property
    def began(self) -> datetime.date:
        """The date that the episode began on, and goes on under."""
        return datetime.date.fromisoformat(self._head["began"])

    def find(self, place: str, asked: str) -> Entry | None:
        """What was done there, if just this was asked for."""
        entry = self._ahead.get(place)
        if entry is None:
            return None
        if entry.asked != asked:
            self._discard(place)
            return None
        del self._ahead[place]
        self._keep(entry)
        return entry

    def is_ahead(self, place: str) -> bool:
        """Whether an earlier process has done something there that this one has not come to yet."""
        return place in self._ahead

    def add(self, entry: Entry) -> None:
        """Write an entry. Raises UserError when the file cannot be written."""
        if not self._written:
            self._log.append(self._head)
            self._written = True
        self._log.append(vars(entry))
        self._keep(entry)

    def _keep(self, entry: Entry) -> None:
        """Remember what stays if the rest is left out; with nothing ahead, nothing can be."""
        if self._ahead:
            self._behind.append(entry)
        else:
            self._behind.clear()

    def _discard(self, place: str) -> None:
        """Leave out everything that is still ahead, on disk too."""
        text = f"the episode {self._head['episode']!r} was asked something else from {place} on: what was done then is left out"
        warnings.warn(f"{self._log.path}: {text}", JournalWarning, stacklevel=4)
        self._ahead.clear()
        kept = [self._head, *map(vars, self._behind)]
        replace_file(self._log.path, b"".join(encode_record(line) + b"\n" for line in kept))


class Journal:
    """The episodes under way of one process.

    Example: ``with Journal(Path("runs/a.journal")) as journal: await agent.run_many(jobs, concurrency=4, journal=journal)``
    """

    def __init__(self, directory: Path, about: str = "", *, across_versions: bool = False) -> None:
        """Take the directory, which need not exist.

        ``about`` says what is fixed for all episodes and shows in no record, such as which weights answer to the model's name.
        ``across_versions``: the policy's version is no part of what is asked, so an episode that lived through updates goes on
        under a later one; what it has said keeps the versions that it was said under.
        Raises UserError when another process holds the directory, or it cannot be made.
        """
        self.about = about
        self.across_versions = across_versions
        self._directory = directory
        self._running: set[str] = set()
        self._lock: int | None = None
        try:
            self._lock = _lock(directory)
            for partial in directory.glob("*.partial"):  # a kill amid leaving something out
                partial.unlink()
        except OSError as error:
            raise UserError(f"Cannot keep a journal in {directory} ({error.strerror}): choose another place.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def episode(self, id: str, today: datetime.date) -> Iterator[EpisodeJournal]:
        """What the episode with this id has done. Raises ValueError when it is under way already."""
        if id in self._running:
            raise ValueError(f"the episode {id!r} is under way already: ids must differ within a journal")
        self._running.add(id)
        try:
            yield EpisodeJournal(self._file(id), id, today)
        finally:
            self._running.remove(id)

    def has(self, id: str) -> bool:
        """Whether an earlier process left this episode unfinished."""
        return self._file(id).exists()

    def stored(self, record: Ended) -> None:
        """Hear that a record is stored for good: its entries go. An outage or a stopped episode may go on, and keeps them."""
        if record.ending is not None and record.ending.scored:
            self._file(record.id).unlink(missing_ok=True)

    def forget(self, record: Ended) -> None:
        """Hear that an episode will not go on, however it ended: its entries go."""
        self._file(record.id).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the directory; it goes when no episode is left in it. Closing twice is allowed."""
        if self._lock is None:
            return
        if [path.name for path in self._directory.iterdir()] == [_LOCK]:
            (self._directory / _LOCK).unlink()
            with suppress(OSError):  # another process has come in: it is theirs now
                self._directory.rmdir()
        os.close(self._lock)
        self._lock = None

    def _file(self, id: str) -> Path:
        return self._directory / f"{digest(id)}.jsonl"


def digest(*values: Any) -> str:
    """32 hex digits for JSON values (and what prints as itself), the same in every process."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _lock(directory: Path) -> int:
    """A handle that keeps other processes out until it is closed, however this one ends."""
    path = directory / _LOCK
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except BlockingIOError:
            raise UserError(f"Another process is at work on the episodes in {directory}: wait for its end.") from None
        except FileNotFoundError:
            continue  # whoever held it has just removed it
