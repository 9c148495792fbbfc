"""The program inside a sandbox: a supervisor that starts, feeds, watches, freezes and kills the process that runs code.

It needs the standard library alone, and speaks frames over its standard input and output. Code runs in a worker of its own,
which keeps its variables from call to call; between calls all processes but this one stand still. The worker has neither the
frames' pipes nor any other file of the supervisor, and what it says of itself is data. As the first process of its namespace,
the supervisor cannot be killed from within.
"""

import contextlib
import ctypes
import io
import json
import os
import select
import signal
import stat
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from sanderling.tools.python.worker import confine, read_frame, still, work, write_frame

_MOST_LISTED = 200  # files of one call
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


class Output:
    """What was written, up to a limit: its beginning, its end, and how much stood between."""

    def __init__(self, most: int) -> None:
        self._most, self._head, self._tail, self._cut = most, b"", b"", 0

    def add(self, data: bytes) -> None:
        room = self._most // 2 - len(self._head)
        self._head += data[: max(room, 0)]
        tail = self._tail + data[max(room, 0) :]
        over = max(len(tail) - self._most // 2, 0)
        self._cut, self._tail = self._cut + over, tail[over:]

    def text(self) -> str:
        cut = f"\n[... {self._cut:,} bytes of output left out ...]\n".encode() if self._cut else b""
        return (self._head + cut + self._tail).decode("utf-8", "replace")


class Supervisor:
    """Holds the worker of a session."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._setup, self._worker, self._fds = setup, 0, (-1, -1, -1)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the first process of a namespace never hears from within
        self._alone = os.getpid() == 1  # the first process of a namespace: all others are the program's
        os.umask(0o022)
        os.chdir(setup["scratch"])
        self._seen: dict[str, tuple[int, int]] = {}
        self._asked = 0

    def answer(self, asked: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """What a frame asks for."""
        match asked["op"]:
            case "run":
                return self._run(asked["code"], asked["seconds"]), b""
            case "put":
                return self._put(asked["name"], data, asked["more"]), b""
            case "get":
                return self._get(asked["name"], asked["most"])
            case "read":
                return self._read(asked["name"], asked["seconds"], asked.get("stamp"))
            case other:
                return {"problem": f"unknown op {other}"}, b""

    def _signal(self, number: int) -> None:
        """To every process but this one."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left, or none of ours
            if self._alone:
                os.kill(-1, number)
            elif self._worker:
                os.killpg(self._worker, number)

    def _fork(self, work: Callable[[int, int], None]) -> tuple[int, tuple[int, int, int]]:
        """A confined process, with pipes for what it is told, replies, and writes."""
        pipes = [os.pipe() for _ in range(3)]
        (told, tell), (heard, reply), (output, write) = pipes
        child = os.fork()
        if child:
            for fd in (told, reply, write):
                os.close(fd)
            os.set_blocking(output, False)
            return child, (tell, heard, output)
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(write, 1)
            os.dup2(write, 2)
            top = max(told, reply) + 1
            os.dup2(told, top)
            os.dup2(reply, top + 1)
            os.closerange(3, top)
            os.closerange(top + 2, 256)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_IGN)
            how = {"encoding": "utf-8", "errors": "backslashreplace", "line_buffering": True}
            sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), **how) for fd in (1, 2))
            confine(self._setup["limits"], self._setup["filter"])
            work(top, top + 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(71)

    def _begin(self) -> None:
        def begin(commands: int, replies: int) -> None:
            if self._setup["clock"] is not None:
                still(self._setup["clock"], self._setup["seed"])
            work(commands, replies, self._setup["output"])

        self._worker, self._fds = self._fork(begin)

    def _end(self) -> None:
        """Kill every process but this one."""
        self._signal(signal.SIGKILL)
        if self._worker:
            for fd in self._fds:
                os.close(fd)
        self._worker = 0
        with contextlib.suppress(ChildProcessError):  # all are buried
            while True:
                os.waitpid(-1, 0)

    def _reap(self) -> None:
        """Bury orphans, which would count as processes."""
        with contextlib.suppress(ChildProcessError):  # there is none
            while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid != self._worker:
                os.waitpid(dead.si_pid, 0)

    def _run(self, code: str, seconds: float) -> dict[str, Any]:
        """Run code in the worker, which is begun where there is none."""
        fresh = not self._worker
        if fresh:
            self._begin()
        output, said = Output(self._setup["output"]), dict[str, Any]()
        self._signal(signal.SIGCONT)
        status, reply, _ = self._watch(seconds, output, {"code": code})
        if status == "ok":
            self._signal(signal.SIGSTOP)
            self._drain(output)
            self._reap()
            said = {name: str(reply[name])[: 2 * self._setup["output"]] for name in ("value", "error") if name in reply}
            status = "failed" if "error" in said else "ok"
        else:
            self._end()
        return {"status": status, "fresh": fresh, "output": output.text(), "files": self._written(), **said}

    def _watch(
        self, seconds: float, output: Output, command: dict[str, Any], data: bytes = b"", *, most: int = 0
    ) -> tuple[str, dict[str, Any], bytes]:
        """Tell the process a command and wait for its reply, of ``most`` bytes beside a few words.

        Gives ``ok`` with that, ``seconds``, ``cpu``, or how the process ended.
        """
        tell, heard, written = self._fds
        began, used, reply = time.monotonic(), _cpu(self._worker), bytearray()
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        poll.register(written, select.POLLIN)
        self._asked += 1
        with contextlib.suppress(BrokenPipeError):  # it has ended, as will be seen
            write_frame(tell, {**command, "number": self._asked}, data)
        while True:
            ready = dict(poll.poll(20))
            if written in ready and not self._drain(output):
                poll.unregister(written)
            if heard in ready:
                part = os.read(heard, 2**16)
                reply += part
                try:
                    while (found := _taken(reply, 16 * self._setup["output"] + 2**16, most)) is not None:
                        if found[0].get("number") == self._asked:  # and is not left from an earlier call
                            return "ok", *found
                except (ValueError, RecursionError, TypeError, KeyError):
                    return "ended", {}, b""  # nonsense: it is no worker any more
                if not part:
                    return self._how_it_ended(), {}, b""
            if time.monotonic() - began > seconds:
                return "seconds", {}, b""
            if _cpu(self._worker) - used > self._setup["cpu"]:
                return "cpu", {}, b""
            self._reap()

    def _how_it_ended(self) -> str:
        """Of a worker that closed its pipe."""
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            child, status = os.waitpid(self._worker, os.WNOHANG)
            if child:
                return signal.Signals(-code).name if (code := os.waitstatus_to_exitcode(status)) < 0 else f"exit {code}"
            time.sleep(0.005)
        return "ended"

    def _drain(self, output: Output) -> bool:
        """Take what was written so far; False: nothing will come any more."""
        for _ in range(64):
            try:
                data = os.read(self._fds[2], 2**16)
            except BlockingIOError:
                return True
            if not data:
                return False
            output.add(data)
        return True

    def _written(self) -> list[tuple[str, int]]:
        """Regular files that are new or changed, by name; names that begin with a full stop are left out."""
        found, before = dict[str, tuple[int, int]](), self._seen
        for name, entry in _walk(".", [_MOST_LISTED * 50]):
            found[name] = (entry.st_size, entry.st_mtime_ns)
            if len(found) == _MOST_LISTED:
                break
        self._seen = found
        return sorted((name, facts[0]) for name, facts in found.items() if before.get(name) != facts)

    def _put(self, name: str, data: bytes, more: bool) -> dict[str, Any]:
        """Keep a file, or ``more`` of one; no program has run yet."""
        try:
            with open(name, "ab" if more else "xb") as file:  # noqa: PTH123
                file.write(data)
        except OSError as error:
            return {"problem": error.strerror}
        facts = os.stat(name)  # noqa: PTH116
        self._seen[name] = (facts.st_size, facts.st_mtime_ns)
        return {}

    def _get(self, name: str, most: int) -> tuple[dict[str, Any], bytes]:
        """The bytes of a regular file in the scratch directory."""
        file = _opened(name)
        if isinstance(file, str):
            return {"problem": file}, b""
        with open(file, "rb") as opened:  # noqa: PTH123
            size = os.fstat(file).st_size
            return ({"problem": "too-large"}, b"") if size > most else ({}, opened.read(most))

    def _read(self, name: str, seconds: float, stamp: list[int] | None) -> tuple[dict[str, Any], bytes]:
        """The text of a document, which a process of its own reads, unless it is as it was (``stamp``)."""
        file = _opened(name)
        if isinstance(file, str):
            return {"problem": file}, b""
        facts = os.fstat(file)
        now = [facts.st_size, facts.st_mtime_ns]
        if now == stamp:
            os.close(file)
            return {"stamp": now, "same": True}, b""
        with open(file, "rb") as opened:  # noqa: PTH123
            data = opened.read(self._setup["document"] + 1)

        def read(commands: int, replies: int) -> None:
            given = read_frame(commands)
            sys.path[:0] = self._setup["reader"]
            from sanderling.tools.files import extracted

            said, text = extracted(name, given[1] if given else b"", self._setup["document"])
            write_frame(replies, {**said, "number": given[0]["number"] if given else 0}, text.encode("utf-8", "replace"))

        worker, fds = self._worker, self._fds
        self._worker, self._fds = self._fork(read)
        status, reply, text = self._watch(seconds, Output(0), {}, data, most=8 * self._setup["document"])
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it has ended, and was buried
            os.kill(self._worker, signal.SIGKILL)
            os.waitpid(self._worker, 0)
        for fd in self._fds:
            os.close(fd)
        self._worker, self._fds = worker, fds
        if status != "ok":
            return {"problem": status}, b""
        return {"stamp": now, **{key: str(reply[key])[:1_000] for key in ("title", "problem") if key in reply}}, text

    def close(self) -> None:
        self._end()


def _taken(reply: bytearray, most: int, most_bytes: int) -> tuple[dict[str, Any], bytes] | None:
    """Take the first frame out of what a process has written, once it is whole. Raises an error for what will be none."""
    size = struct.unpack(">I", reply[:4])[0] if len(reply) >= 4 else 0
    if size > most:
        raise ValueError("more than a few words")
    if len(reply) < 4 or len(reply) < 4 + size:
        return None
    said = json.loads(reply[4 : 4 + size])
    if not isinstance(said, dict) or not 0 <= said["bytes"] <= most_bytes:
        raise ValueError("no frame")
    end = 4 + size + said["bytes"]
    if len(reply) < end:
        return None
    data = bytes(reply[4 + size : end])
    del reply[:end]
    return said, data


def _cpu(process: int) -> float:
    """Seconds of processor time that a process has used."""
    try:
        return time.clock_gettime((~process << 3) | 2)  # the kernel's number for the clock of a process
    except OSError:
        return 0.0


def _walk(folder: str, left: list[int], depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
    """Regular files below a folder, in the order of names and no deeper than any person goes; no link is followed."""
    if depth > 8:
        return
    entries = []
    try:
        with os.scandir(folder) as found:
            for entry in found:
                left[0] -= 1
                if left[0] < 0:
                    break
                entries.append(entry)
    except OSError:
        return
    for entry in sorted(entries, key=lambda one: os.fsencode(one.name)):
        name = entry.name if folder == "." else f"{folder}/{entry.name}"
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if entry.name.startswith("."):
            continue
        if stat.S_ISREG(facts.st_mode):
            yield name.encode("utf-8", "replace").decode(), facts
        elif stat.S_ISDIR(facts.st_mode):
            yield from _walk(name, left, depth + 1)


def _opened(name: str) -> int | str:
    """A regular file below the scratch directory, each part of whose path is what it says; or why not."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return "not-found"
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return "not-found"
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return "not-found"


def main() -> None:
    """Serve frames until the other side closes."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # nobody looks into this process, or writes into it
    told, tell = os.dup(0), os.dup(1)
    write_frame(tell, {"here": True})
    first = read_frame(told)
    if first is None:
        return
    sys.path += first[0]["path"]
    supervisor = Supervisor(first[0])
    write_frame(tell, {"ready": True})
    while (frame := read_frame(told)) is not None:
        write_frame(tell, *supervisor.answer(*frame))
    supervisor.close()
