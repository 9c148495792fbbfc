"""Sessions and their boxes: opened at the first call with the question's files, one call at a time, dropped at the end."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sanderling.core.errors import UserError
from sanderling.core.record import FILES, Question
from sanderling.core.text import visible
from sanderling.runs.files import or_cannot, replace_file
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.python.sandbox import Box, Sandbox, SandboxError, Still, Text

_MOST_COPIED, _LONGEST_NAME = 256 * 2**20, 200  # bytes of all files of a session, and of a name
_IN_TIME = 0.95  # of what is left of a call: so its result comes before its end


def files_of(questions: Iterable[Question], folder: Path) -> dict[str, dict[str, Path]]:
    """Of each question that has files, by its id: their paths by the names under which programs see them.

    Raises UserError for a file that does not lie in the folder: questions that somebody else wrote open none elsewhere.
    """
    found: dict[str, dict[str, Path]] = {}
    for question in questions:
        names = question.meta.get(FILES) or []
        for name in names if isinstance(names, list) else [names]:
            path = folder / name if isinstance(name, str) else folder
            if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):  # a link's end, too
                raise UserError(
                    f"Question {question.id!r} has the file {name!r}, which does not lie in {folder}: put it there."
                )
            own = found.setdefault(question.id, {})
            own[path.name if path.name not in own else f"{len(own) + 1}-{path.name}"] = path
    return found


@dataclass
class Held:
    """A session's box, and what was read in it."""

    name: str
    box: Box | None = None
    seconds: float = 0.0  # that are left for the call at hand
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    lost: bool = False  # whether an earlier box of the session was killed
    written: set[str] = field(default_factory=set[str])  # names of files that programs wrote
    texts: dict[str, Text] = field(default_factory=dict[str, Text])  # what was read last, part by part


class Sessions:
    """The boxes of one sandbox, by session."""

    def __init__(
        self, sandbox: Sandbox, clock: float | None, files: Mapping[str, Mapping[str, Path]], keep: Path | None = None
    ) -> None:
        """``clock``: when the day of an offline world began, in which programs are deterministic; ``files``: by question.

        ``keep``: folder to which what programs wrote is copied when a session ends.
        """
        self.sandbox, self.clock = sandbox, clock
        self._files, self._keep, self._held = files, keep, dict[str, Held]()

    def names(self, context: ToolContext) -> list[str]:
        """The files of a call's question."""
        return list(self._files.get(context.question, ())) if self.sandbox.files else []

    @asynccontextmanager
    async def held(self, context: ToolContext, seconds: float) -> AsyncIterator[tuple[Held, Box]]:
        """A session's box, for one call alone, of so many seconds or what is left; one that goes away meanwhile is dropped.

        Raises ToolOutageError where there is none, or it was ended from outside: nothing of a program's runs between calls.
        """
        name, began = f"{context.question or 'session'}-{context.attempt}", time.monotonic()
        held = self._held.setdefault(context.session, Held(name))
        async with held.lock:
            if held.box is not None and not held.box.is_there:
                await self._drop(held)
                raise ToolOutageError("python: the session's sandbox was ended from outside.")
            try:
                box = held.box = held.box or await self._open(context)
            except (SandboxError, OSError) as error:
                raise ToolOutageError(f"python: {error}") from error
            held.seconds = seconds
            if context.deadline_s is not None:
                left = context.deadline_s * _IN_TIME - (time.monotonic() - began)
                held.seconds = max(min(seconds, left), 0.0)
            try:
                yield held, box
            except (SandboxError, asyncio.CancelledError):
                await self._drop(held)
                raise

    async def _drop(self, held: Held) -> None:
        box, held.box, held.lost = held.box, None, True
        held.texts.clear()
        if box is not None:
            await box.close()

    async def _open(self, context: ToolContext) -> Box:
        still = None if self.clock is None else Still(self.clock, context.episode_seed)
        box = await self.sandbox.open(still)
        try:
            for name in self.names(context):
                await box.put(name, self._files[context.question][name])
        except BaseException:
            await box.close()
            raise
        return box

    async def leave(self, session: str) -> None:
        held = self._held.pop(session, None)
        if held is None:
            return
        async with held.lock, AsyncExitStack() as stack:
            if held.box is not None:
                stack.push_async_callback(held.box.close)
                if self._keep is not None:
                    with suppress(SandboxError):  # it has gone, and its files with it
                        await _copied(held, held.box, self._keep / _plain(held.name))

    async def close(self) -> None:
        """Drop all sessions that were not left."""
        async with AsyncExitStack() as stack:
            for session in list(self._held):
                stack.push_async_callback(self.leave, session)


async def _copied(held: Held, box: Box, folder: Path) -> None:
    """Copy what programs wrote; names are theirs, and lead nowhere else. What is too much is left out: files may be sparse."""
    left = _MOST_COPIED
    for name in sorted(held.written):
        data = await box.get(name, left)
        parts = [_plain(part) for part in PurePosixPath(name).parts]
        if data is not None and parts:
            left -= len(data)
            await asyncio.to_thread(_write, folder.joinpath(*parts), data)


def _write(file: Path, data: bytes) -> None:
    names_clash = IsADirectoryError, NotADirectoryError, FileExistsError  # of two, once each is plain
    with or_cannot(f"write {file}"), suppress(*names_clash):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data)


def _plain(name: str) -> str:
    """A name as one of a file here: no separator, nothing that a terminal obeys, and not that of another folder."""
    found = re.sub(r"[/\\:\s]", "_", visible(name)).lstrip(".")
    return found.encode()[-_LONGEST_NAME:].decode(errors="ignore") or "_"
