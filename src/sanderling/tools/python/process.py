"""The near side of a sandbox that `runner` works in: starts it, keeps some warm, speaks frames with it, watches its memory.

Nothing that comes back is more than data: frames are bounded, read as JSON, and checked.
"""

import asyncio
import base64
import contextlib
import json
import os
import platform
import shutil
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sanderling.tools.python import inside
from sanderling.tools.python.cgroup import Cgroup
from sanderling.tools.python.limits import SandboxLimits
from sanderling.tools.python.sandbox import Box, Ran, SandboxError, Still, Text
from sanderling.tools.python.seccomp import filter_program, is_known

DOCUMENT_BYTES = 16 * 2**20  # of a file that is read as text, and of its text
_START_S, _GRACE_S = 10.0, 2.0
_PIECE = 8 * 2**20  # of a file, in one frame
_LOOK_S = 0.05  # between two looks at the memory in use
_RAN, _TEXT = TypeAdapter(Ran), TypeAdapter(Text)


Guards = frozenset[str]
ALL: Guards = frozenset({"limits", "filter"})


@dataclass(frozen=True)
class Launch:
    """How one runner is started."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])  # of the program that makes the sandbox
    scratch: str = inside.SCRATCH
    above: int = 1  # processes above the runner, from the one that is started
    threads: int = 0  # that what makes the sandbox needs beside it
    path: Sequence[str] = ()
    reader: Sequence[str] = ()
    end: Callable[[], None] = lambda: None  # after the process has ended


class Runners:
    """A sandbox whose boxes are runners; as many as ``warm`` are started before they are asked for."""

    def __init__(
        self, name: str, about: str, limits: SandboxLimits, launch: Callable[[], Launch], *, warm: int = 1, guards: Guards = ALL
    ) -> None:
        """``guards``: what is kept to inside; less than all is for tests, which show what each is for."""
        self.name, self.about, self.files = name, about, True
        self._limits, self._launch, self._warm, self._guards = limits, launch, warm, guards
        self._ready: deque[RunnerBox] = deque()
        self._starting: asyncio.Task[None] | None = None

    async def open(self, still: Still | None) -> Box:
        try:
            box = self._ready.popleft() if self._ready else await self._start()
        finally:
            if self._warm and (self._starting is None or self._starting.done()):
                self._starting = asyncio.ensure_future(self._fill())
        try:
            await box.begin(still)
        except BaseException:
            await box.close()
            raise
        return box

    async def _fill(self) -> None:
        with contextlib.suppress(SandboxError):  # whoever needs one will hear it
            while len(self._ready) < self._warm:
                self._ready.append(await self._start())

    async def _start(self) -> "RunnerBox":
        launch = self._launch()
        try:
            # No file, variable or terminal of ours goes with it.
            how = {"stdin": -1, "stdout": -1, "stderr": -1, "env": dict(launch.env), "start_new_session": True}
            process = await asyncio.create_subprocess_exec(*launch.argv, limit=2**20, **how)
        except OSError as error:
            launch.end()
            raise SandboxError(f"{launch.argv[0]} does not start ({error.strerror}).") from error
        box = RunnerBox(process, launch, self._limits, self._guards)
        try:
            await box.hear()
        except BaseException:
            await box.close()
            raise
        return box

    async def close(self) -> None:
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        while self._ready:
            await self._ready.popleft().close()


def bare(limits: SandboxLimits, *, guards: Guards = ALL) -> Runners:
    """A process under limits and the filter of system calls alone, for reading documents where there is no sandbox."""

    def launch() -> Launch:
        folder = tempfile.mkdtemp(prefix="sanderling-")
        argv = [str(inside.interpreter()), *inside.OPTIONS, str(inside.START), ""]
        env, path = {**inside.ENVIRONMENT, "HOME": folder}, list(map(str, inside.packages()))
        end = partial(shutil.rmtree, folder, ignore_errors=True)
        return Launch(argv, env, folder, above=0, path=path, reader=[str(inside.OWN.parent)], end=end)

    return Runners("bare", "", limits, launch, warm=0, guards=guards)


class RunnerBox:
    """One runner, and the session that it serves."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch, limits: SandboxLimits, guards: Guards) -> None:
        self._process, self._launch, self._limits, self._guards = process, launch, limits, guards
        self._cgroup: Cgroup | None = None
        self._over = False  # whether it was killed for its memory

    async def hear(self) -> None:
        """Wait for it to be there, and count what it uses from now on. Raises SandboxError."""
        await self._ask(None, seconds=_START_S)
        if "limits" in self._guards:
            self._cgroup = Cgroup.made(
                self._limits.memory_mb + self._limits.files_mb, self._limits.processes + self._launch.threads
            )
            if self._cgroup is not None:
                self._cgroup.take(pid for pid, _ in tree(self._process.pid))

    async def begin(self, still: Still | None) -> None:
        """Tell it its limits. Raises SandboxError."""
        limits, mb = self._limits, 2**20
        if "filter" in self._guards and not is_known():
            raise SandboxError(f"there is no filter of system calls for {platform.machine()}.")
        bounds = {
            "RLIMIT_AS": 4 * limits.memory_mb * mb,  # much is reserved and never used
            "RLIMIT_DATA": limits.memory_mb * mb,
            "RLIMIT_FSIZE": limits.files_mb * mb,
            "RLIMIT_CPU": int(10 * limits.cpu_seconds) + 1,  # of a process's whole life
            "RLIMIT_NPROC": limits.processes,
            "RLIMIT_NOFILE": 256,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_MSGQUEUE": 0,
        }
        filter = base64.b64encode(filter_program(network=limits.network)).decode() if "filter" in self._guards else ""
        setup = {
            "limits": bounds if "limits" in self._guards else {}, "filter": filter,
            "clock": None if still is None else still.clock, "seed": 0 if still is None else still.seed,
            "scratch": self._launch.scratch, "path": list(self._launch.path), "reader": list(self._launch.reader),
            "output": limits.output_chars, "document": DOCUMENT_BYTES, "cpu": limits.cpu_seconds,
        }  # fmt: skip
        await self._ask(setup, seconds=_START_S)

    async def run(self, code: str, seconds: float) -> Ran:
        asked = {"op": "run", "code": code, "seconds": seconds}
        said, _ = await self._ask(asked, seconds=seconds + _GRACE_S)
        ran = self._checked(_RAN, said)
        over = self._over or (ran.status == "SIGKILL" and self._cgroup is not None and self._cgroup.has_killed())
        self._over = False
        return Ran("memory", ran.output, files=ran.files, fresh=ran.fresh) if over else ran

    async def put(self, name: str, file: Path) -> None:
        if await asyncio.to_thread(lambda: file.stat().st_size) > self._limits.files_mb * 2**20:
            raise SandboxError(f"{file} is larger than {self._limits.files_mb} MB: give agent.sandbox.files_mb more.")
        with file.open("rb") as opened:
            more = False
            while (data := await asyncio.to_thread(opened.read, _PIECE)) or not more:
                said, _ = await self._ask({"op": "put", "name": name, "more": more}, data, seconds=_START_S)
                if "problem" in said:
                    raise SandboxError(f"{file} cannot be laid into the sandbox ({said['problem']}).")
                more = True

    async def get(self, name: str, most: int) -> bytes | None:
        said, data = await self._ask({"op": "get", "name": name, "most": most}, seconds=_START_S, most=most)
        return None if "problem" in said else data

    async def read(self, name: str, seconds: float, known: Text | None = None) -> Text:
        stamp = list(known.stamp) if known is not None else None
        asked = {"op": "read", "name": name, "seconds": seconds, "stamp": stamp}
        said, data = await self._ask(asked, seconds=seconds + _GRACE_S, most=8 * DOCUMENT_BYTES)
        if known is not None and said.get("same") is True:
            return known
        return self._checked(_TEXT, {**said, "text": data.decode("utf-8", "replace")})

    def _checked(self, kind: TypeAdapter[Any], said: dict[str, Any]) -> Any:
        try:
            return kind.validate_python({name: value for name, value in said.items() if name != "bytes"})
        except ValidationError as error:
            self._process.kill()
            raise SandboxError("the sandbox answered nonsense.") from error

    async def _ask(
        self, said: dict[str, Any] | None, data: bytes = b"", *, seconds: float, most: int = 0
    ) -> tuple[dict[str, Any], bytes]:
        """One frame there (or none) and one back, within a time; what fails is killed. Raises SandboxError."""
        watch = asyncio.ensure_future(self._watch())
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(said, data, most)
        except (TimeoutError, EOFError, OSError, ValueError, RecursionError) as error:
            why = await self._complaint()
            raise SandboxError(why or f"the sandbox has gone ({type(error).__name__}).") from error
        except asyncio.CancelledError:
            self._process.kill()
            raise
        finally:
            watch.cancel()

    async def _exchange(self, said: dict[str, Any] | None, data: bytes, most: int) -> tuple[dict[str, Any], bytes]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        if said is not None:
            text = json.dumps({**said, "bytes": len(data)}).encode("ascii")
            stdin.write(struct.pack(">I", len(text)) + text + data)
            await stdin.drain()
        size = struct.unpack(">I", await stdout.readexactly(4))[0]
        if size > 100 * self._limits.output_chars + 2**20:
            raise ValueError("a frame beyond all limits")
        answer = json.loads(await stdout.readexactly(size))
        if not isinstance(answer, dict) or not isinstance(answer.get("bytes"), int) or not 0 <= answer["bytes"] <= most:
            raise ValueError("no frame")
        return answer, await stdout.readexactly(answer["bytes"])

    async def _complaint(self) -> str:
        """Kill it, and give the last line of what its maker said."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        said = b""
        if self._process.stderr is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    said = await self._process.stderr.read(4_096)
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return f"{lines[-1][:300].rstrip('.')}." if lines else ""

    async def _watch(self) -> None:
        """Kill what the runner started when all of it together holds too much; a control group does it where there is one."""
        while "limits" in self._guards and self._cgroup is None:
            await asyncio.sleep(_LOOK_S)
            found = list(tree(self._process.pid))
            if sum(resident(pid) for pid, _ in found) > self._limits.memory_mb * 2**20:
                self._over = True
                below = [pid for pid, depth in found if depth > self._launch.above]
                for pid in below or [self._process.pid]:
                    with contextlib.suppress(OSError):
                        os.kill(pid, 9)

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        for pid, _ in list(tree(self._process.pid)) if self._process.returncode is None else ():
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        await self._process.wait()
        await asyncio.to_thread(self._launch.end)
        if self._cgroup is not None:
            await self._cgroup.drop()


def tree(pid: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    """A process and all below it, as this machine numbers them, each with its depth."""
    yield pid, depth
    with contextlib.suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child), depth + 1)


def resident(pid: int) -> int:
    """Bytes of memory that a process holds beside files that are mapped."""
    with contextlib.suppress(OSError, ValueError):
        lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(words[1]) * 1024 for words in lines if words and words[0] in ("RssAnon:", "RssShmem:"))
    return 0
