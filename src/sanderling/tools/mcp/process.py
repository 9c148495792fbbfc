"""A tool server as a child process: lines of JSON-RPC over its standard input and output.

Its environment is what it was given and little else; what it writes to standard error is kept, without its secrets, to tell why
it ended; what it prints to standard output that is no message is left out. At the end its whole process group is ended, and it
does not outlive us where Linux can promise that.
"""

import asyncio
import os
import resource
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from sanderling.tools.mcp.wire import mended

INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV")
"""What a child has of our environment; keys and tokens are given to it by name."""
_LOG_LINES = 200
_LOG_CHARACTERS = 2_000  # of one line
_GRACE_S = 2.0  # that a server has to end once its input is closed, and again once it is asked to
_LOOK_S = 0.3


@dataclass
class Child:
    """One run of a server: ``async with child.connected() as (read, write)``, as `mcp.Client` takes a transport.

    Raises OSError where the command cannot be started.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # of its environment: its log says them to nobody
    directory: Path | None = None
    memory_bytes: int | None = None  # most of its address space
    reply_bytes: int = 16 << 20  # most of one line that it writes: whoever writes more is ended
    log: deque[str] = field(default_factory=lambda: deque(maxlen=_LOG_LINES))  # of standard error, perhaps of earlier runs too
    last_line: str = ""  # of this run
    pid: int = 0
    ending: str = ""  # why it is no longer there, in words; empty: it runs, or was never started
    over: asyncio.Event = field(default_factory=asyncio.Event)  # set when it no longer speaks

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[TransportStreams]:
        """Start it and hand over its streams; at the end it is gone, with all that it started in its process group."""
        env = _environment(self.env)
        process = await asyncio.create_subprocess_exec(
            *_tied_to_us(self.command, env["PATH"]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=self.directory,
            limit=self.reply_bytes,
            start_new_session=True,
        )
        self.pid, self.ending, self.over = process.pid, "", asyncio.Event()
        if (most := self.memory_bytes) is not None:
            with suppress(ProcessLookupError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))
        received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        assert process.stdin and process.stdout and process.stderr
        async with anyio.create_task_group() as group:
            group.start_soon(_notice_its_end, process)
            group.start_soon(self._keep_log, process.stderr)
            group.start_soon(self._receive, process, received)
            group.start_soon(self._send, process.stdin, to_send)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await _ended(process)
                self.over.set()
                group.cancel_scope.cancel()
                for stream in (read, write, received, to_send):
                    stream.close()

    async def _receive(
        self, process: asyncio.subprocess.Process, received: anyio.abc.ObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Messages as they come, until it ends; the reader is told by the end of the stream."""
        assert process.stdout
        async with received:
            try:
                while line := await process.stdout.readline():
                    if message := self._message(line):
                        await received.send(message)
                with anyio.move_on_after(_GRACE_S):
                    await process.wait()
                self.ending = self.ending or _how(process.returncode)
            except ValueError:  # of ours, or of the reader for a line beyond its limit
                self.ending = self.ending or f"it wrote a line of more than {self.reply_bytes:,} bytes"
                _signal(process, signal.SIGKILL)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens any more
                return
            finally:
                self.over.set()

    def _message(self, line: bytes) -> SessionMessage | None:
        """The message on a line; None: it is none. Raises ValueError for a reply: whoever waits for it would wait for ever."""
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(mended(line), by_name=False))
        except ValueError:
            if line.strip():
                self._note(line, "on standard output, which is for messages: ")
            if line.lstrip()[:1] in (b"{", b"[") and b'"jsonrpc"' in line and (b'"result"' in line or b'"error"' in line):
                self.ending = "it wrote a reply that cannot be read"
                raise
            return None

    async def _send(self, stdin: asyncio.StreamWriter, to_send: anyio.abc.ObjectReceiveStream[SessionMessage]) -> None:
        async with to_send:
            async for message in to_send:
                stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                with suppress(ConnectionError):  # it has ended: its reader says so
                    await stdin.drain()

    async def _keep_log(self, stderr: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await stderr.read(65_536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines[-_LOG_LINES:]:
                self._note(line)
            if len(rest) > _LOG_CHARACTERS:
                self._note(rest)
                rest = b""
        if rest:
            self._note(rest)

    def _note(self, line: bytes, where: str = "") -> None:
        """Keep a line as it can be shown to anybody: without secrets and control characters."""
        text = line.decode("utf-8", "replace")
        for one in self.secrets:
            text = text.replace(one, "***")
        text = "".join(character if character.isprintable() else " " for character in text[:_LOG_CHARACTERS]).rstrip()
        self.last_line = where + text
        self.log.append(self.last_line)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """A child's variables; what was installed beside this Python is found before anything else, ``sanderling`` itself too."""
    own = {name: os.environ[name] for name in INHERITED if name in os.environ}
    path = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), own.get("PATH", os.defpath))))
    return {**own, "PATH": path, **given}


def _tied_to_us(command: tuple[str, ...], path: str) -> tuple[str, ...]:
    """The command, killed when we are, where util-linux is there; otherwise it has to notice that its input has ended."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--", *command) if setpriv and shutil.which(command[0], path=path) else command


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _notice_its_end(process: asyncio.subprocess.Process) -> None:
    """Close what it spoke through once it is gone: what it started may hold that open, and its end would be seen by nobody."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio tells nobody while the streams are open
        await anyio.sleep(_LOOK_S)
    await anyio.sleep(_LOOK_S)  # what it said last is read meanwhile
    process._transport.close()  # pyright: ignore[reportAttributeAccessIssue]


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Close its input, ask it to end, then make it; what else is in its group goes in any case."""
    assert process.stdin
    process.stdin.close()
    for number in (None, signal.SIGTERM):
        if number is not None:
            _signal(process, number)
        with anyio.move_on_after(_GRACE_S):
            await process.wait()
            break
    _signal(process, signal.SIGKILL)
    await process.wait()


def _how(status: int | None) -> str:
    if status is None:
        return "it closed its standard output"
    if status < 0:
        return f"it was killed by {signal.Signals(-status).name}"
    return f"it ended with exit status {status}"
