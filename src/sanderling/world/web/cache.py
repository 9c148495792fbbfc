"""What the web said, in one SQLite file that processes may share: searches and pages, each with the time when it was said.

Something that was said again in the same words is kept once, with when it was said first and last; in other words, beside what
was said before, so that the web of a past day can be read.
"""

import datetime
import hashlib
import time
import warnings
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from sanderling.core.errors import UserError
from sanderling.runs.files import or_cannot, user_cache
from sanderling.runs.run import Database, Table
from sanderling.world.contract import SearchReply, VisitReply

Reply = TypeVar("Reply", SearchReply, VisitReply)
_AS_JSON: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (SearchReply, VisitReply)}


class WebCache:
    """Replies by what was asked. Its methods wait for the disk: call them beside the event loop."""

    def __init__(self, path: Path | None = None, most_mb: int = 2_000) -> None:
        """``path``: its file; None: in the user's cache directory. ``most_mb``: what came first makes room for what comes.

        Raises UserError when it cannot be used.
        """
        path = path or user_cache() / "web.db"
        with or_cannot(f"keep pages in {path}", "name another file with --set agent.live.cache"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # pages of allowed hosts may be private
        self._replies, self._most, self._is_broken = Table(Database(path), "reply"), most_mb << 20, False

    def get(self, kind: type[Reply], asked: str, age_h: float, as_of: datetime.date | None = None) -> Reply | None:
        """The newest that was said in the last hours; ``as_of``: or else the newest that was there on that day."""
        now, end = time.time(), None if as_of is None else _end_of(as_of)
        try:
            said = list(self._replies.items(_key(kind, asked)))
            before = [key for key, (first, _, _) in said if end is not None and first <= end]
            young = [key for key, (_, last, _) in said if 0 <= now - last <= age_h * 3600 and age_h]
            found = (before if end is not None and end < now else young) or young
            blob = self._replies.blob(found[-1]) if found else None
            return None if blob is None else _AS_JSON[kind].validate_json(blob)
        except (UserError, OSError, ValueError) as error:  # the disk, or what another version kept
            self._warn(error)
            return None

    def put(self, asked: str, reply: SearchReply | VisitReply) -> None:
        """Keep a reply, where the disk takes it."""
        blob, now = _AS_JSON[type(reply)].dump_json(reply), time.time()
        prefix, digest = _key(type(reply), asked), hashlib.sha256(blob).hexdigest()
        try:
            said = list(self._replies.items(prefix))
            if said and said[-1][1][2] == digest:
                self._replies.put(said[-1][0], [said[-1][1][0], now, digest], durable=False)
            else:
                self._replies.put(f"{prefix}{now}", [now, now, digest], blob=blob, durable=False)
                self._replies.bound(self._most)
        except UserError as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        """Research goes on without; that is told once."""
        if not self._is_broken:
            warnings.warn(f"What the web says is not kept: {error}", stacklevel=3)
        self._is_broken = True


def _key(kind: type, asked: str) -> str:
    return f"{kind.__name__} {hashlib.sha256(asked.encode('utf-8', 'surrogatepass')).hexdigest()} "


def _end_of(day: datetime.date) -> float:
    return datetime.datetime.combine(day + datetime.timedelta(days=1), datetime.time()).timestamp()
