"""The journal: what unfinished episodes have done so far, so that a process killed at any moment loses at most a turn.

It stands in a run, which one process holds. Each episode under way has entries in its database: the date it began on, and one
for every sampled turn and every tool call, written as it is done. An entry keeps what was done with a digest of what was asked;
asked for otherwise, it and all that follows is left out with a warning, since two runs are never mixed. When the episode's
record is stored for good its entries go. What was entered survives the end of its process, not a loss of power (then the
episode starts over).
"""

import datetime
import hashlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from sanderling.core.types import Ending
from sanderling.runs.run import Run

EPISODES = "episodes"
"""The table of the episodes that are under way."""


class JournalWarning(UserWarning):
    """Recorded turns do not belong to what is asked now, and are left out."""


class Ended(Protocol):
    """An episode's record, or what stands for one."""

    @property
    def id(self) -> str: ...

    @property
    def ending(self) -> Ending | None: ...


class EpisodeJournal:
    """One episode's entries: those of earlier processes, which are ahead of it, and the ones it adds."""

    def __init__(self, id: str, run: Run, today: datetime.date) -> None:
        self._id, self._entries, self._episodes = id, run.table(f"episode {id}"), run.table(EPISODES)
        began = self._episodes.get(id)
        self._is_begun = began is not None
        self.began = datetime.date.fromisoformat(began) if began else today
        """The date that the episode began on, and goes on under."""
        self._ahead = dict(self._entries.items())

    def find(self, place: str, asked: str) -> tuple[float, Any] | None:
        """How many seconds into the episode it was, and what was done there, if just this was asked for.

        ``place`` is a turn with its attempt, or a call; ``asked`` a digest that covers everything the episode had said before.
        """
        entry = self._ahead.get(place)
        if entry is not None and entry["asked"] != asked:
            self._leave_out(place)
            entry = None
        if entry is None:
            return None
        del self._ahead[place]
        return entry["at"], entry["done"]

    def is_ahead(self, place: str) -> bool:
        """Whether an earlier process has done something there that this one has not come to yet."""
        return place in self._ahead

    def add(self, place: str, asked: str, at: float, done: Any) -> None:
        """Enter what was done. Raises UserError when it cannot be written."""
        if not self._is_begun:
            self._episodes.put(self._id, self.began.isoformat(), lasting=False)
            self._is_begun = True
        self._entries.put(place, {"asked": asked, "at": at, "done": done}, lasting=False)

    def _leave_out(self, place: str) -> None:
        """Forget everything that is still ahead."""
        text = f"the episode {self._id!r} was asked something else from {place} on: what was done then is left out"
        warnings.warn(f"{self._entries.path}: {text}", JournalWarning, stacklevel=4)
        self._entries.remove(*self._ahead)
        self._ahead.clear()


class Journal:
    """The episodes under way of one process.

    Example: ``with Journal(Path("runs/a.journal")) as journal: await agent.run_many(jobs, concurrency=4, journal=journal)``
    """

    def __init__(
        self, directory: Path, about: str = "", *, across_versions: bool = False, rank: int = 0, locked: bool = False
    ) -> None:
        """Keep it in the run of a directory, which need not exist (``rank``, ``locked``: see `runs.run.Run`).

        ``about`` says what is fixed for all episodes and shows in no record, such as which weights answer to the model's name.
        ``across_versions``: the policy's version is no part of what is asked, so an episode that lived through updates goes on
        under a later one; what it has said keeps the versions that it was said under.
        Raises UserError when another process holds the directory, or it cannot be made.
        """
        self.about = about
        self.across_versions = across_versions
        self._under_way: set[str] = set()
        self._run: Run | None = Run(directory, rank=rank, locked=locked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def episode(self, id: str, today: datetime.date) -> Iterator[EpisodeJournal]:
        """What the episode with this id has done. Raises ValueError when it is under way already."""
        if id in self._under_way:
            raise ValueError(f"the episode {id!r} is under way already: ids must differ within a journal")
        self._under_way.add(id)
        try:
            yield EpisodeJournal(id, self._open, today)
        finally:
            self._under_way.remove(id)

    def has(self, id: str) -> bool:
        """Whether an earlier process left this episode unfinished."""
        return id in self._open.table(EPISODES)

    def stored(self, record: Ended) -> None:
        """Hear that a record is stored for good: its entries go. An outage or a stopped episode may go on, and keeps them."""
        if record.ending is not None and record.ending.scored:
            self.forget(record)

    def forget(self, record: Ended) -> None:
        """Hear that an episode will not go on, however it ended: its entries go."""
        self._open.table(EPISODES).remove(record.id, whole=f"episode {record.id}")

    def close(self) -> None:
        """Let go of the directory; it goes when nothing is left in it. Closing twice is allowed."""
        if self._run is not None:
            self._run.close()
            self._run = None

    @property
    def _open(self) -> Run:
        assert self._run is not None, "the journal is closed"
        return self._run


def digest(*values: Any) -> str:
    """32 hex digits for JSON values (and what prints as itself), the same in every process."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
