"""The near side of a sandbox that `runner` works in: starts it, keeps some warm, speaks frames with it, watches what it uses.

Nothing that comes back is more than data: frames are bounded, read as JSON, and checked. A runner ends when its pipe is closed,
so that nothing outlives this process, however that ends.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sanderling.core.frames import Frame, exchanged
from sanderling.tools.python.sandbox import Box, Ran, SandboxError, SandboxLimits, Still, Text
from sanderling.tools.python.seccomp import filter_program

DOCUMENT_BYTES = 16 * 2**20  # of a file that is read as text, and of its text
_START_S, _GRACE_S = 60.0, 10.0  # where many begin at once
_LOOK_S = 0.05  # between two looks at what is in use
_PIECE, _MOST_FRAME = 8 * 2**20, 8 * 2**20  # of a file, in one frame; of a frame beside its bytes
_TICK = os.sysconf("SC_CLK_TCK")
_TELLS_SHARES = Path("/proc/self/smaps_rollup").exists()  # not every kernel does
_RAN, _TEXT = TypeAdapter(Ran), TypeAdapter(Text)


@dataclass(frozen=True)
class Launch:
    """How one runner is started."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])  # of the program that makes the sandbox
    scratch: str = "."
    above: int = 1  # processes above the runner, from the one that is started
    path: Sequence[str] = ()  # where programs find packages
    reader: str = ""  # where what reads documents finds its own
    end: Callable[[], None] = lambda: None  # after the process has ended


class Runners:
    """A sandbox whose boxes are runners; as many as ``warm`` are started before they are asked for."""

    files = True

    def __init__(self, name: str, about: str, limits: SandboxLimits, launch: Callable[[], Launch], *, warm: int = 1) -> None:
        """Raises UserError on machines whose system calls nobody has listed."""
        self.name, self.about = name, about
        self._limits, self._launch, self._warm = limits, launch, warm
        self._setup = {
            "limits": _bounds(limits),
            "filter": filter_program(network=limits.network).hex(),
            "output": limits.output_chars,
            "document": DOCUMENT_BYTES,
        }
        self._pool = deque[asyncio.Task[RunnerBox]]()

    async def open(self, still: Still | None) -> Box:
        while len(self._pool) <= self._warm:
            self._pool.append(asyncio.ensure_future(self._start()))
        starting = self._pool.popleft()
        waited = starting.done()
        try:
            box = await asyncio.shield(starting)  # asyncio loses a process whose start is cancelled
            await box.begin(still)
        except asyncio.CancelledError:
            self._pool.append(starting)
            raise
        except SandboxError:
            if waited:  # it may have ended in the pool
                return await self.open(still)
            raise
        return box

    async def _start(self) -> "RunnerBox":
        launch = None
        try:
            launch = self._launch()
            # No file, variable or terminal of ours goes with it.
            how: dict[str, Any] = {"stdin": -1, "stdout": -1, "stderr": -1, "env": dict(launch.env), "start_new_session": True}
            process = await asyncio.create_subprocess_exec(*launch.argv, limit=2**20, **how)
        except OSError as error:
            if launch is not None:
                launch.end()
            raise SandboxError(f"{self.name} does not start ({error}).") from error
        box = RunnerBox(process, launch, self._limits, self._setup)
        await box.ask(None, seconds=_START_S)  # until it is there
        return box

    async def close(self) -> None:
        while self._pool:
            with contextlib.suppress(SandboxError):
                await (await self._pool.popleft()).close()


class RunnerBox(Box):
    """One runner, and the session that it serves."""

    def __init__(
        self, process: asyncio.subprocess.Process, launch: Launch, limits: SandboxLimits, setup: Mapping[str, Any]
    ) -> None:
        self._process, self._launch, self._limits, self._setup = process, launch, limits, setup
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_there(self) -> bool:
        return self._process.returncode is None

    async def begin(self, still: Still | None) -> None:
        """Tell it its limits. Raises SandboxError."""
        launch, time = self._launch, {"clock": None, "seed": 0} if still is None else vars(still)
        places = {"scratch": launch.scratch, "path": list(launch.path), "reader": launch.reader}
        await self.ask({**self._setup, **time, **places}, seconds=_START_S)

    async def run(self, code: str, seconds: float) -> Ran:
        over: list[str] = []
        watch = asyncio.ensure_future(self._watch(over))
        try:
            said, _ = await self.ask({"op": "run", "code": code, "seconds": seconds}, seconds=seconds + _GRACE_S)
        finally:
            watch.cancel()
        ran = await self._checked(_RAN, said)
        return Ran(over[0], ran.output, files=ran.files) if over else ran

    async def put(self, name: str, file: Path) -> None:
        if await asyncio.to_thread(lambda: file.stat().st_size) > self._limits.files_mb * 2**20:
            raise SandboxError(f"{file} is larger than {self._limits.files_mb} MB: give agent.sandbox.files_mb more.")
        with file.open("rb") as opened:
            more = False
            while (data := await asyncio.to_thread(opened.read, _PIECE)) or not more:
                said, _ = await self.ask({"op": "put", "name": name, "more": more}, data, seconds=_START_S)
                if "problem" in said:
                    raise SandboxError(f"{file} cannot be laid into the sandbox ({said['problem']}).")
                more = True

    async def get(self, name: str, most: int) -> bytes | None:
        said, data = await self.ask({"op": "get", "name": name, "most": most}, seconds=_START_S, most=most)
        return None if "problem" in said else data

    async def read(self, name: str, seconds: float) -> Text:
        asked = {"op": "read", "name": name, "seconds": seconds}
        said, data = await self.ask(asked, seconds=seconds + _GRACE_S, most=8 * DOCUMENT_BYTES)
        return await self._checked(_TEXT, {**said, "text": data.decode("utf-8", "replace")})

    async def _checked(self, kind: TypeAdapter[Any], said: dict[str, Any]) -> Any:
        try:
            return kind.validate_python(said)
        except ValidationError as error:
            await self.close()
            raise SandboxError("the sandbox answered nonsense.") from error

    async def ask(self, said: dict[str, Any] | None, data: bytes = b"", *, seconds: float, most: int = 0) -> Frame:
        """One frame there (or none) and one back, within a time; what fails is closed. Raises SandboxError."""
        words = 100 * self._limits.output_chars + _MOST_FRAME
        try:
            async with asyncio.timeout(seconds):
                return await exchanged(self._process, said, data, most=words, most_bytes=most)
        except (TimeoutError, EOFError, OSError, ValueError, RecursionError) as error:
            why = await self._complaint()
            await self.close()
            raise SandboxError(why or f"the sandbox has gone ({type(error).__name__}).") from error
        except BaseException:
            await self.close()
            raise

    async def _complaint(self) -> str:
        """The last line of what its maker said, which has ended or is ended now."""
        self._kill()
        said = b""
        if self._process.stderr is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    said = await self._process.stderr.read(4_096)
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return f"{lines[-1][:300].rstrip('.')}." if lines else ""

    async def _watch(self, over: list[str]) -> None:
        """Kill what the runner started when all of it together uses too much; ``over`` is told of what."""
        most, before = self._limits.memory_mb * 2**20, None
        while self._setup["limits"]:
            memory, cpu, found = await asyncio.to_thread(used, self._process.pid, most)
            before = cpu if before is None else before
            if memory > most or cpu - before > self._limits.cpu_seconds:
                over.append("memory" if memory > most else "cpu")
                _kill([pid for pid, depth in found if depth > self._launch.above])
            await asyncio.sleep(_LOOK_S)

    def _kill(self) -> None:
        """Kill the runner and all below it; what made the sandbox ends then, after all of them."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.transport.abort()
        if self.is_there:
            found = list(tree(self._process.pid))
            _kill([pid for pid, depth in found if depth >= self._launch.above] or [self._process.pid])

    async def close(self) -> None:
        """Kill it and drop its files, also where whoever waits for that is cancelled."""
        self._kill()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(_GRACE_S):
                await self._process.wait()
        except TimeoutError:
            _kill([pid for pid, _ in tree(self._process.pid)])
        await asyncio.to_thread(self._launch.end)


def _bounds(limits: SandboxLimits) -> dict[str, int]:
    """What the kernel holds each process of a box to."""
    mb = 2**20
    return {
        "RLIMIT_AS": 4 * limits.memory_mb * mb,  # much is reserved and never used
        "RLIMIT_DATA": limits.memory_mb * mb,
        "RLIMIT_FSIZE": limits.files_mb * mb,
        "RLIMIT_NPROC": limits.processes,
        "RLIMIT_NOFILE": 256,
        **dict.fromkeys(("RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"), 0),
    }


def tree(pid: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    """A process and all below it, as this machine numbers them, each with its depth."""
    yield pid, depth
    with contextlib.suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child), depth + 1)


def used(pid: int, most: int) -> tuple[int, float, list[tuple[int, int]]]:
    """Bytes of memory and seconds of processor time of a process and all below it, and these.

    Files that are mapped do not count; what processes share counts once where it matters, since only more than ``most`` is
    looked at closely. Whoever ends during a look leaves a larger share to those that are read after it, so the smaller of two
    looks counts.
    """
    found = list(tree(pid))
    memory = sum(_held(one, "status", ("RssAnon:", "RssShmem:")) for one, _ in found)
    if memory > most and _TELLS_SHARES:
        with contextlib.suppress(PermissionError):  # without the right to look closely the sum counts
            memory = min(sum(_held(one, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for one, _ in found) for _ in range(2))
    return memory, sum(_cpu(one) for one, _ in found), found


def _held(pid: int, file: str, names: tuple[str, ...]) -> int:
    """Nothing, where the process has ended."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        lines = (line.split() for line in Path(f"/proc/{pid}/{file}").read_text().splitlines())
        return sum(int(words[1]) * 1024 for words in lines if words and words[0] in names)
    return 0


def _cpu(pid: int) -> float:
    """Of a process, and of those below it that have ended."""
    with contextlib.suppress(OSError, ValueError):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) / _TICK
    return 0.0


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, 9)
