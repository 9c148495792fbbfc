"""Building: a stream of pages is read in, then indexed and signed for near-duplicates.

The first pass is committed every few seconds with the feed's mark, so that the same command goes on from there.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sanderling.core.errors import UserError
from sanderling.runs.files import locked
from sanderling.world.contract import Page
from sanderling.world.disk.duplicates import signature
from sanderling.world.disk.index import IndexBuilder
from sanderling.world.disk.pages import Intake, PageFile, SqlitePages, writable

STAMP = "stamp"  # the file that says what is built in a place; without it nothing there is wanted any more
_SECONDS = 2.0  # of reading between two commits: what a kill can cost


class SourceAccount(BaseModel):
    """What became of the documents of one source, by reason (`sources.base.Reason`), and where the first few of each are."""

    model_config = ConfigDict(extra="forbid")

    name: str
    documents: int = 0
    pages: int = 0
    skipped: dict[str, int] = {}
    examples: dict[str, list[str]] = {}


class Feed:
    """A stream of pages: those that are given, read once; sources make of it one that is taken up where it was left.

    ``stamp`` changes when what is read changes; empty: it cannot be taken up. ``read``: documents so far, pages or not.
    """

    stamp: str = ""

    def __init__(self, given: Iterable[Page] = ()) -> None:
        self._given = given
        self.read = 0

    def pages(self, mark: str = "") -> Iterator[Page]:
        """The pages after the one at which `mark` gave this; of the empty mark, all."""
        for page in self._given:
            self.read += 1
            yield page

    def mark(self) -> str:
        """Where the stream is: after the page that `pages` gave last."""
        return ""

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """What became of the documents of each source, up to a mark; none where pages are given, not documents."""
        return ()


@contextmanager
def building_place(path: Path, stamp: str, *, fresh: bool = False) -> Iterator[None]:
    """Hold a directory to build in; a build that is cut short leaves its work there, and one of the same stamp goes on with it.

    Raises UserError when another process or the remains of another build (``fresh`` removes them) are there.
    """
    with locked(path, beside=True):
        found = _stamp(path)
        if found and found != stamp and not fresh:
            raise UserError(
                f"{path} holds an interrupted build of other sources or settings: "
                "run its command again to finish it, or remove that directory to start over."
            )
        if fresh or not found:
            shutil.rmtree(path, ignore_errors=True)
        with writable(path):
            path.mkdir(exist_ok=True)
        try:
            yield
        finally:
            if not _stamp(path):
                shutil.rmtree(path, ignore_errors=True)


def _stamp(place: Path) -> str:
    """The stamp of the build that was interrupted here; empty: none was."""
    return (place / STAMP).read_text(encoding="utf-8") if (place / STAMP).is_file() else ""


class Stage(StrEnum):
    """What a build is doing."""

    READING = "reading"
    INDEXING = "indexing"
    COMPARING = "comparing"


Progress = Callable[[Stage, int, int | None], None]
"""Called with the stage, how much of it is done, and of how much, where that is known."""


def ignore(_stage: Stage, _done: int, _total: int | None) -> None:
    """Show no progress."""


class State(Intake):
    """How far a build has come; committed with its pages."""

    mark: str = ""
    is_read: bool = False
    is_indexed: bool = False


def fill(pages: Path, index: Path, feed: Feed, before: State, progress: Progress, earlier: SqlitePages | None = None) -> State:
    """Write what a feed gives into a file of pages and an index that has the earlier ones, from where it was left."""
    file = PageFile(pages, earlier)
    try:
        state = State.model_validate_json(file.state) if file.state else before
        if not file.state:
            file.commit(state.model_dump_json())
            (pages.parent / STAMP).write_text(feed.stamp, encoding="utf-8")
        if not state.is_read:
            _read_in(file, feed, state, progress)
        if not state.is_indexed:
            _work_through(file, index, state, progress)
        file.finish()
    finally:
        file.close()
    return state


def _read_in(file: PageFile, feed: Feed, state: State, progress: Progress) -> None:
    """The first pass: store what the feed gives."""
    last = time.monotonic()
    for page in feed.pages(state.mark):
        state.take_in(page, file.add)
        progress(Stage.READING, feed.read, None)
        if time.monotonic() - last > _SECONDS:
            state.mark = feed.mark()
            file.commit(state.model_dump_json())
            last = time.monotonic()
    state.mark, state.is_read = feed.mark(), True
    file.commit(state.model_dump_json())


def _work_through(file: PageFile, index: Path, state: State, progress: Progress) -> None:
    """The second pass: index and sign the stored pages, in one go."""
    builder, end = IndexBuilder(index), file.count()
    try:
        committed = builder.committed  # all, where it was killed just before the end
        for number, page in enumerate(file.all(file.first), start=file.first):
            if number >= committed:
                builder.add(number, page.title, page.text)
            if (signed := signature(page.text)) is not None:
                file.sign(number, signed)
            progress(Stage.INDEXING, number + 1 - file.first, end - file.first)
        builder.finish()
    finally:
        builder.close()
    state.is_indexed = True
    file.commit(state.model_dump_json())
