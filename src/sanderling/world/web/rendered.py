"""Pages as chromium shows them, scripts included: a browser of its own for each page, killed with its children.

All that the browser asks for goes through a proxy in this process, which looks names up, checks every address and connects to
the one that it checked, for what the page itself loads as well; the browser looks up nothing, and its UDP (QUIC, WebRTC) is
off. Not guarded: how much memory and processor time it takes until the page's time is over, how much the page loads, and
robots.txt of what it loads from elsewhere. As root, chromium runs without its own sandbox.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.contract import VisitReply
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.fetch import Direct, Got
from sanderling.world.web.public import Checked, NotAllowedError, Resolve, UnknownHostError, host_of, looked_up
from sanderling.world.web.service import status_of

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
    "--mute-audio", "--disable-extensions", "--disable-sync", "--disable-background-networking", "--disable-component-update",
    "--disable-default-apps", "--disable-domain-reliability", "--disable-quic", "--disable-dev-shm-usage",
    "--metrics-recording-only", "--deny-permission-prompts", "--blink-settings=imagesEnabled=false",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
_EXEC = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
"""Puts the two pipes where the browser wants them."""
_SETTLE_S = 1.0  # for scripts, after all that the page names is loaded
_CONNECT_S = 10.0
_FAILED = (
    UnknownHostError, OSError, ValueError, EOFError, asyncio.LimitOverrunError, httpcore.NetworkError,
    httpcore.TimeoutException,
)  # fmt: skip
_MOST_CHARS = 4_000_000
_LONGEST_MESSAGE = 64 << 20
_SEEN = f"[location.href, document.documentElement.outerHTML.slice(0, {_MOST_CHARS})]"


class Rendered:
    """Reads pages with chromium; what is no HTML is read as `Direct` does."""

    def __init__(self, config: LiveConfig, allowed: Collection[str], resolve: Resolve, direct: Direct) -> None:
        """Raises UserError without chromium."""
        self._config, self._direct, self._proxy = config, direct, _Proxy(Checked(allowed, resolve))
        self._lookup = partial(looked_up, allowed=allowed, resolve=resolve)
        self._browser = next(filter(None, map(shutil.which, _BROWSERS)), "")
        self._free = asyncio.Semaphore(2)
        if not self._browser:
            raise UserError("The reader rendered needs chromium: install it, or name other readers in agent.live.readers.")

    async def __call__(self, url: str) -> VisitReply:
        """One page, its ``url`` where it was in the end. Raises NotAllowedError."""
        async with self._direct.manners.turn(url), self._free:
            try:
                async with asyncio.timeout(self._config.timeout_s):
                    await self._direct.manners.check(url)
                    seen = await self._seen(url)
            except UnknownHostError as error:
                return await self._direct.unknown(url, error)
            except (TimeoutError, OSError, ValueError, KeyError, EOFError, asyncio.LimitOverrunError) as error:
                return VisitReply(url, "", "", ToolStatus.TIMEOUT if isinstance(error, TimeoutError) else ToolStatus.OUTAGE)
        status, where, html = seen
        if not status:
            return await self._direct(where)
        if not 200 <= status < 300:
            return VisitReply(url, "", "", status_of(status))
        await self._direct.manners.check(where)  # scripts may have led to it
        found = Got(where, 200, httpx.Headers({"content-type": "text/html; charset=utf-8"}), html.encode("utf-8", "replace"))
        return (await self._direct.page(found))[0]

    async def _seen(self, url: str) -> tuple[int, str, str]:
        """HTTP status (0: it is no HTML), address and markup of the page in the end. Raises what `looked_up` does."""
        async with self._tab() as tab:
            told = await tab.call("Page.navigate", url=url)
            if told.get("errorText") == "net::ERR_ABORTED":  # a file to save, or nothing
                return 0, tab.asked, ""
            while not (tab.loaded or told.get("errorText")):
                await tab.hear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SETTLE_S):
                    while True:
                        await tab.hear()
            told = await tab.call("Runtime.evaluate", expression=_SEEN, returnByValue=True)
            where, html = told["result"]["value"]
            status, kind = tab.answered
            if not where.startswith(("http://", "https://")):  # the browser's own words: that it was refused, or nobody there
                await self._lookup(host_of(tab.asked))
                return (status if status >= 300 else 503), tab.asked, ""
            return (status if kind in ("", "text/html", "application/xhtml+xml") else 0), where, html

    @asynccontextmanager
    async def _tab(self) -> "AsyncIterator[_Tab]":
        """A browser with one empty page. It, its children and its profile are gone afterwards."""
        proxy = await self._proxy.address()
        given, taken = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (given[0], taken[1])]
        options = [*_OPTIONS, f"--proxy-server={proxy}"]
        options += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        with tempfile.TemporaryDirectory(prefix="sanderling-page-", ignore_cleanup_errors=True) as profile:
            command = [sys.executable, "-c", _EXEC, *map(str, theirs), self._browser, *options, f"--user-data-dir={profile}"]
            environment = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
            nobody = asyncio.subprocess.DEVNULL
            how: dict[str, Any] = {"stdin": nobody, "stdout": nobody, "stderr": nobody, "start_new_session": True}
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=theirs, env=environment | {"HOME": profile, "TMPDIR": profile}, **how
            )
            for fd in (*theirs, given[0], taken[1]):
                os.close(fd)
            tab = await _Tab.opened(given[1], taken[0])
            try:
                await tab.attach()
                yield tab
            finally:
                tab.close()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    async def aclose(self) -> None:
        await self._proxy.aclose()


class _Tab:
    """A page of a browser, over the DevTools protocol through pipes: JSON with a null byte behind each message."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any, pipe: Any) -> None:
        self._reader, self._writer, self._pipe, self._numbers = reader, writer, pipe, count(1)
        self._session = self._frame = ""
        self.loaded = False
        self.asked, self.answered = "", (200, "")  # where the page itself is loaded from; HTTP status and type of it

    @classmethod
    async def opened(cls, write: int, read: int) -> "_Tab":
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=_LONGEST_MESSAGE)
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb"))
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(write, "wb"))
        return cls(reader, writer, pipe)

    async def attach(self) -> None:
        self._frame = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        self._session = (await self.call("Target.attachToTarget", targetId=self._frame, flatten=True))["sessionId"]
        for domain in ("Page", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.setDownloadBehavior", behavior="deny")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, parameters)
        while True:
            told = await self.hear()
            if told.get("id") == number:
                return told.get("result", {})

    def _send(self, method: str, parameters: Mapping[str, Any]) -> int:
        message = {"id": next(self._numbers), "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        self._writer.write(json.dumps(message).encode() + b"\0")
        return message["id"]

    async def hear(self) -> dict[str, Any]:
        """The next message. Raises IncompleteReadError when the browser has ended."""
        told = json.loads((await self._reader.readuntil(b"\0"))[:-1])
        about = told.get("params", {})
        is_page = about.get("type") == "Document" and about.get("frameId") == self._frame
        match told.get("method"):
            case "Page.loadEventFired":
                self.loaded = True
            case "Page.javascriptDialogOpening":  # nobody sees it, and the page would wait
                self._send("Page.handleJavaScriptDialog", {"accept": False})
            case "Network.requestWillBeSent" if is_page:
                self.asked = about["request"]["url"]
            case "Network.responseReceived" if is_page:
                self.answered = int(about["response"]["status"]), about["response"]["mimeType"]
        return told

    def close(self) -> None:
        self._writer.close()
        self._pipe.close()


class _Proxy:
    """An HTTP proxy on loopback that connects to checked addresses alone."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._server: asyncio.Server | None = None

    async def address(self) -> str:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def back(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        there = None
        try:
            there, first = await self._connected(await reader.readuntil(b"\r\n\r\n"))
            await (there.write(first) if first else back(b"HTTP/1.1 200 OK\r\n\r\n"))
            pouring = [asyncio.ensure_future(_poured(*way)) for way in ((reader.read, there.write), (there.read, back))]
            await asyncio.wait(pouring, return_when=asyncio.FIRST_COMPLETED)  # one side has ended
            for one in pouring:
                one.cancel()
        except (NotAllowedError, *_FAILED) as error:
            status = 403 if isinstance(error, NotAllowedError) else 502
            writer.write(b"HTTP/1.1 %d no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        finally:
            writer.close()
            if there is not None:
                await there.aclose()

    async def _connected(self, head: bytes) -> tuple[httpcore.AsyncNetworkStream, bytes]:
        """Where a request leads, and what is said there first. Raises NotAllowedError and what comes of odd requests."""
        line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, version = line.split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        there = await self._checked.connect_tcp(parts.hostname or "", parts.port or 80, timeout=_CONNECT_S)
        if method == "CONNECT":
            return there, b""
        path = parts._replace(scheme="", netloc="").geturl() or "/"
        kept = [one for one in lines if not one.lower().startswith(("proxy-", "connection:"))]
        return there, "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""]).encode("latin-1")

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()


async def _poured(read: Callable[[int], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
    with suppress(*_FAILED):
        while data := await read(1 << 16):
            await write(data)
