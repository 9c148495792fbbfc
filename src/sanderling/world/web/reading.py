"""What is worked out of what the web says, in processes of its own: hostile bytes cost neither the event loop nor this process.

A worker does one thing after another (`TASKS`), within a limit of time and memory for each, with no secret in its environment;
what ends it has no result, and the next has a new worker. Its answers are plain text, not objects. Pages are read as those of
worlds are (`documents.read_document`).
"""

import asyncio
import os
import re
import resource
import signal
import sys
import zlib
from contextlib import suppress
from functools import lru_cache
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

from sanderling.core.frames import exchanged, read_frame, write_frame
from sanderling.core.types import ToolStatus
from sanderling.world.passages import read_page
from sanderling.world.sources.base import Limits, Reason
from sanderling.world.sources.documents import ENDINGS, MIME_KINDS, Kind, read_document
from sanderling.world.web.walls import clipped, wall

LIMITS = Limits()
_LONGEST_TITLE = 1_000
_SECONDS = 20  # for one document
_MEMORY = 3 << 30  # bytes of address space
_MOST_SAID, _MOST_TEXT = 1 << 20, 64 << 20  # bytes of an answer
_OFFICE = re.compile(r"application/(?:vnd\.(?:openxmlformats-officedocument|oasis\.opendocument|ms-)|msword)")
_PLAIN = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|javascript)")
_UNSAID = ("", "application/octet-stream", "binary/octet-stream", "application/download", "text/plain")
_META = re.compile(rb"<meta\s[^>]{0,2500}>", re.IGNORECASE)
_IS_REFRESH = re.compile(rb"http-equiv\s*=\s*[\"']?refresh\b", re.IGNORECASE)
_REFRESH = re.compile(
    r"content\s*=\s*[\"']?\s*([0-9]{1,3})(?:\.[0-9]*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'>\s]{1,2000})", re.IGNORECASE
)
_SOON_S = 10  # a page that moves on after so many seconds is on the way to another one
_NOT_FREE = re.compile(r"\"isAccessibleForFree\"\s*:\s*\"?false", re.IGNORECASE)


def kind_of(content_type: str, url: str, start: bytes) -> Kind | None:
    """How a reply is read, by what its site says, its first bytes and its address; None: it is no text."""
    mime = content_type.partition(";")[0].strip().lower()
    ending = f".{urlsplit(url).path.rpartition('/')[2].rpartition('.')[2].lower()}"
    if start[:1024].lstrip().startswith(b"%PDF-"):
        return Kind.PDF
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return Kind.OFFICE if _OFFICE.match(mime) or ENDINGS.get(ending) is Kind.OFFICE else None
    if mime in _UNSAID and ENDINGS.get(ending) in (Kind.MARKDOWN, Kind.CODE):
        return ENDINGS[ending]
    if mime != "text/plain" and mime in MIME_KINDS:
        return MIME_KINDS[mime]
    if mime in ("text/markdown", "text/x-markdown"):
        return Kind.MARKDOWN
    if re.match(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body)\b", start[:1024], re.IGNORECASE):
        return Kind.HTML
    return Kind.TEXT if mime in _UNSAID or _PLAIN.fullmatch(mime) else None


def unpacked(raw: bytes, encoding: str, most: int) -> bytes | None:
    """The bytes within at most one layer of compression, at most ``most`` and one; None: it is no such thing."""
    if encoding in ("", "identity"):
        return raw[: most + 1]
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    for width in (32 + zlib.MAX_WBITS, -zlib.MAX_WBITS):  # deflate comes with its head or without
        with suppress(zlib.error):
            return zlib.decompressobj(width).decompress(raw, most + 1)
    return None


def refreshed(url: str, start: bytes) -> str:
    """Where a page soon sends its readers by itself; empty: it is meant to be read."""
    for meta in filter(_IS_REFRESH.search, _META.findall(start)):
        found = _REFRESH.search(unescape(meta.decode("utf-8", "replace")))
        onward = urljoin(url, found[2]) if found and int(found[1]) <= _SOON_S else ""
        if onward and onward.partition("#")[0] != url.partition("#")[0]:
            return onward
    return ""


def read_reply(url: str, content_type: str, encoding: str, raw: bytes) -> dict[str, Any]:
    """What a reply says: ``status``, and of a page ``title``, ``text``, ``date``; ``onward``: where it sends its readers."""
    data = unpacked(raw, encoding, LIMITS.document_bytes)
    kind = None if data is None or len(data) > LIMITS.document_bytes else kind_of(content_type, url, data)
    if data is None or kind is None:
        return {"status": ToolStatus.NOT_TEXT}
    if kind is Kind.HTML and (onward := refreshed(url, data[:20_000])):
        return {"status": ToolStatus.OK, "onward": onward}
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE)
    if kind is not Kind.HTML and charset and kind not in (Kind.PDF, Kind.OFFICE):
        with suppress(LookupError, ValueError):  # in an encoding that its site names
            data = data.decode(charset[1]).encode()
    document = read_document(kind, data, url, LIMITS, charset=charset[1] if charset else "")
    if isinstance(document, Reason):
        return {"status": ToolStatus.NOT_TEXT}
    text = document.text
    status = wall(document.title, text) or ToolStatus.OK
    if kind is Kind.HTML and len(text.split()) < 400 and _NOT_FREE.search(data.decode("latin-1")):
        status = ToolStatus.PAYWALLED
    return {"status": status, "title": document.title[:_LONGEST_TITLE], "text": clipped(text), "date": document.date[:100]}


def shown(goal: str, part: int, max_words: int, raw: bytes) -> dict[str, Any]:
    """What is shown of a page's text."""
    found = read_page(raw.decode(), goal, part, max_words)
    return {"text": found.text, "part": found.part, "parts": found.parts}


def ruled(url: str, agent: str, raw: bytes) -> dict[str, Any]:
    """What a robots.txt says: whether an address may be read, and the seconds it wants between two."""
    rules = _rules(raw)
    return {"allowed": rules.can_fetch(url, agent), "delay_s": float(rules.crawl_delay(agent) or 0)}


@lru_cache(maxsize=256)
def _rules(raw: bytes) -> Any:
    from protego import Protego

    return Protego.parse(raw.decode("utf-8-sig", "replace"))


TASKS = {"reply": read_reply, "shown": shown, "rules": ruled}


# -- the worker and whoever feeds it ---------------------------------------------------------------------------------------


class Workers:
    """A few processes: ``await workers.ask("shown", goal, part, max_words, raw=text.encode())``."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(2)
        self._idle: list[asyncio.subprocess.Process] = []

    async def ask(self, task: str, *told: Any, raw: bytes | bytearray) -> dict[str, Any] | None:
        """The result of one of the `TASKS`; None: it took too long or too much, or ended the worker."""
        asked = {"task": task, "told": told}
        async with self._free:
            process = self._idle.pop() if self._idle else await self._begun()
            try:
                found, text = await exchanged(process, asked, raw, most=_MOST_SAID, most_bytes=_MOST_TEXT)
            except BaseException as error:
                await _end(process)
                if isinstance(error, OSError | EOFError | ValueError | RecursionError):
                    return None
                raise
            self._idle.append(process)
            return found | {"text": text.decode("utf-8", "replace")}

    async def _begun(self) -> asyncio.subprocess.Process:
        pipe, nobody = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        how: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": nobody, "env": environment, "start_new_session": True}
        command = sys.executable, "-P", "-m", __name__  # without what lies in the directory that we were started in
        return await asyncio.create_subprocess_exec(*command, **how)

    async def aclose(self) -> None:
        while self._idle:
            await _end(self._idle.pop())


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.communicate()  # takes what it still said: it would be waited for in vain before


def work(given: int, told: int) -> None:
    """Do what is asked until there is no more. The alarm ends the process wherever it is, also when nobody waits any longer."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    while (frame := read_frame(given)) is not None:
        asked, raw = frame
        signal.alarm(_SECONDS)
        found = TASKS[asked["task"]](*asked["told"], raw)
        signal.alarm(0)
        text = found.pop("text", "")
        write_frame(told, found, text.encode("utf-8", "replace"))


if __name__ == "__main__":
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    work(0, answers)
