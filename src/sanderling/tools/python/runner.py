"""The program inside a sandbox: a supervisor that starts, feeds, watches, freezes and kills the process that runs code.

It needs the standard library alone, and speaks frames over its standard input and output; once the other side has closed them,
it ends with all that it started. Code runs in a worker of its own, which keeps its variables from call to call; between calls
all processes but this one stand still. The worker has neither the frames' pipes nor any other file of the supervisor, and what
it says of itself is data. As the first process of its namespace, the supervisor cannot be killed from within.
"""

import ctypes
import os
import sys

if __name__ == "__main__":  # without a path to anything but the standard library; more is loaded once it is who it shall be
    if len(sys.argv) > 1:
        if sys.argv[1]:
            os.setgroups([])
            os.setgid(int(sys.argv[1]))
            os.setuid(int(sys.argv[1]))
        kept = ctypes.CDLL(None).personality(0xFFFFFFFF) | 0x0040000  # ADDR_NO_RANDOMIZE: what is printed of addresses is equal
        if ctypes.CDLL(None).personality(kept) != -1:
            os.execv(sys.executable, sys.orig_argv[:-1])
    sys.path.insert(0, __file__.removesuffix("/sanderling/tools/python/runner.py"))

import contextlib
import io
import itertools
import select
import signal
import stat
import time
import traceback
from collections.abc import Callable
from typing import Any

from sanderling.core.frames import read_frame, taken, write_frame
from sanderling.tools.python.worker import confine, still, work

_MOST_LISTED, _MOST_LOOKED_AT = 200, 10_000  # files of one call, and names that are read to find them
_MOST_FILES = 100_000  # at all: in memory each takes some, be it empty
_PR_SET_DUMPABLE = 4


class Output:
    """What was written, up to a limit: its beginning, its end, and how much stood between."""

    def __init__(self, most: int) -> None:
        self._most, self._held, self._cut = most, bytearray(), 0

    def add(self, data: bytes) -> None:
        self._held += data
        if (over := len(self._held) - self._most) > 0:
            del self._held[self._most // 2 : self._most // 2 + over]
            self._cut += over

    def text(self) -> str:
        half = self._most // 2
        cut = f"\n[... {self._cut:,} bytes of output left out ...]\n".encode() if self._cut else b""
        return (self._held[:half] + cut + self._held[half:]).decode("utf-8", "replace")


class Supervisor:
    """Holds the worker of a session."""

    def __init__(self, setup: dict[str, Any], told: int) -> None:
        self._setup, self._told, self._worker, self._fds = setup, told, 0, (0, 0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the first process of a namespace never hears from within
        self._alone = os.getpid() == 1  # the first process of a namespace: all others are the program's
        os.umask(0o022)
        os.chdir(setup["scratch"])
        self._seen: dict[str, tuple[int, int]] = {}
        self._asked, self._scratch = 0, os.open(".", os.O_RDONLY)  # which a program may shut
        self._before = self._inodes()

    def answer(self, asked: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """What a frame asks for."""
        match asked["op"]:
            case "run":
                return self._run(asked["code"], asked["seconds"]), b""
            case "put":
                return self._put(asked["name"], data, asked["more"]), b""
            case "get":
                return self._get(asked["name"], asked["most"])
            case _:
                return self._read(asked["name"], asked["seconds"])

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

    def end(self) -> None:
        """Kill every process but this one."""
        self._signal(signal.SIGKILL)
        for fd in filter(None, self._fds):
            os.close(fd)
        self._worker, self._fds = 0, (0, 0, 0)
        with contextlib.suppress(ChildProcessError):  # all are buried
            while True:
                os.waitpid(-1, 0)

    def _is_alive(self) -> bool:
        """Whether there is a worker, which may have been killed from outside between two calls."""
        with contextlib.suppress(ChildProcessError):
            return bool(self._worker) and os.waitpid(self._worker, os.WNOHANG)[0] == 0
        return False

    def _reap(self) -> bool:
        """Bury orphans, which would count as processes. Whether the worker has ended, which others of its may hide."""
        with contextlib.suppress(ChildProcessError):  # there is none
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if dead.si_pid == self._worker:
                    return True
                os.waitpid(dead.si_pid, 0)
        return False

    def _run(self, code: str, seconds: float) -> dict[str, Any]:
        """Run code in the worker, which is begun where there is none."""
        if not self._is_alive():
            self.end()
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
            self.end()
        return {"status": status, "output": output.text(), "files": self._written(), **said}

    def _watch(
        self, seconds: float, output: Output, command: dict[str, Any], data: bytes = b"", *, most: int = 0
    ) -> tuple[str, dict[str, Any], bytes]:
        """Tell the process a command and wait for its reply, of ``most`` bytes beside a few words.

        Gives ``ok`` with that, ``seconds``, ``files``, or how the process ended.
        """
        tell, heard, written = self._fds
        began, files, reply = time.monotonic(), max(self._inodes(), self._before + _MOST_FILES), bytearray()
        files = files if self._setup["limits"] else sys.maxsize
        poll = select.poll()
        for fd in (heard, written, self._told):
            poll.register(fd, select.POLLIN)
        self._asked += 1
        with contextlib.suppress(BrokenPipeError):  # it has ended, as will be seen
            write_frame(tell, {**command, "number": self._asked}, data)
        while True:
            has_ended = self._reap()  # before it is asked what it said last
            ready = dict(poll.poll(0 if has_ended else 20))
            if self._told in ready:  # nobody asks before there is an answer: the other side has closed
                self.end()
                os._exit(0)
            if written in ready and not self._drain(output):
                poll.unregister(written)
            if heard in ready:
                reply += (part := os.read(heard, 2**16))
                has_ended = not part
                try:
                    while (found := taken(reply, 16 * self._setup["output"] + 2**16, most)) is not None:
                        if found[0].get("number") == self._asked:  # and is not left from an earlier call
                            return "ok", *found
                except (ValueError, RecursionError):
                    return "ended", {}, b""  # nonsense: it is no worker any more
            if has_ended:
                return self._how_it_ended(), {}, b""
            if time.monotonic() - began > seconds:
                return "seconds", {}, b""
            if self._inodes() > files:
                return "files", {}, b""

    def _inodes(self) -> int:
        """How many files the scratch directory's file system holds; what files are called beside counts, too."""
        found = os.fstatvfs(self._scratch)
        return found.f_files - found.f_ffree

    def _how_it_ended(self) -> str:
        """Of a worker that closed its pipe."""
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            child, status = os.waitpid(self._worker, os.WNOHANG)
            if child:
                self._worker = 0
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
        """Files that are new or changed."""
        before, self._seen = self._seen, _files()
        return sorted((name, facts[0]) for name, facts in self._seen.items() if before.get(name) != facts)

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
        """The bytes of a file, of which nothing runs now."""
        try:
            with open(_opened(name), "rb") as file:
                data = file.read(most + 1)
        except (OSError, ValueError):
            return {"problem": "not-found"}, b""
        return ({"problem": "too-large"}, b"") if len(data) > most else ({}, data)

    def _read(self, name: str, seconds: float) -> tuple[dict[str, Any], bytes]:
        """The text of a document, which a process of its own reads."""
        most = self._setup["document"]
        said, data = self._get(name, most)
        if "problem" in said:
            return said, b""

        def read(commands: int, replies: int) -> None:
            given = read_frame(commands)
            sys.path.insert(0, self._setup["reader"])
            from sanderling.tools.files import extracted

            said, text = extracted(name, given[1] if given else b"", most)
            write_frame(replies, {**said, "number": given[0]["number"] if given else 0}, text.encode("utf-8", "replace"))

        worker, fds = self._worker, self._fds
        self._worker, self._fds = self._fork(read)
        status, reply, text = self._watch(seconds, Output(0), {}, data, most=8 * most)
        if self._worker:
            os.kill(self._worker, signal.SIGKILL)
            os.waitpid(self._worker, 0)
        for fd in self._fds:
            os.close(fd)
        self._worker, self._fds = worker, fds
        if status != "ok":
            return {"problem": status}, b""
        return {key: str(reply[key])[:1_000] for key in ("title", "problem") if key in reply}, text


def _files() -> dict[str, tuple[int, int]]:
    """Size and time of regular files, as far as a look takes no time: no deeper than any person goes, and of so many.

    No link is followed, and no hidden name is shown.
    """
    found, folders, left = dict[str, tuple[int, int]](), ["."], _MOST_LOOKED_AT
    while folders and left > 0:
        folder = folders.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            some = sorted(itertools.islice(entries, left), key=lambda entry: entry.name)
            left -= len(some)
            for entry in (entry for entry in some if not entry.name.startswith(".")):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) and len(found) < _MOST_LISTED:
                    found[entry.path[2:].encode("utf-8", "replace").decode()] = facts.st_size, facts.st_mtime_ns
                elif stat.S_ISDIR(facts.st_mode) and folder.count("/") < 8:
                    folders.append(entry.path)
    return found


def _opened(name: str) -> int:
    """A regular file below the scratch directory, on whose path there is no link. Raises an error where there is none."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or any(os.path.islink("/".join(parts[:end])) for end in range(1, len(parts))):  # noqa: PTH114
        raise OSError
    file = os.open("/".join(parts), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError
    return file


def main() -> None:
    """Serve frames until the other side closes."""
    del sys.path[0]
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # nobody looks into this process, or writes into it
    told, tell = os.dup(0), os.dup(1)
    write_frame(tell, {"here": True})
    first = read_frame(told)
    if first is None:
        return
    sys.path += first[0]["path"]
    supervisor = Supervisor(first[0], told)
    write_frame(tell, {"ready": True})
    while (frame := read_frame(told)) is not None:
        write_frame(tell, *supervisor.answer(*frame))
    supervisor.end()


if __name__ == "__main__":
    main()
