"""What runs code in a sandbox: the process that a program is, and is confined in."""

import ast
import builtins
import contextlib
import ctypes
import gc
import linecache
import os
import resource
import struct
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import Any

from sanderling.core.frames import read_frame, write_frame

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38


def confine(limits: dict[str, int], filter: str) -> None:
    """What this process and its children may use from now on, for good."""
    os.setsid()
    for name, most in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError):  # gVisor knows some of them alone; elsewhere less is always granted
            resource.setrlimit(kind, (most, most))
    if filter:
        libc = ctypes.CDLL(None)
        program = bytes.fromhex(filter)
        held = ctypes.create_string_buffer(program, len(program))
        # struct sock_fprog: a count, and a pointer
        described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held)))
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, 2, described, 0, 0):
            os._exit(70)


def work(commands: int, replies: int, most: int) -> None:
    """Run what is told, call by call, in one module of variables. ``most``: characters of a value or a traceback."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    builtins.exit = builtins.quit = sys.exit  # type: ignore[attr-defined]  # which come with `site` elsewhere
    sys.modules["__main__"], sys.argv = main, [""]
    own = os.getpid()
    while (frame := read_frame(commands)) is not None:
        reply = _run(frame[0]["code"], main.__dict__, f"<call {frame[0]['number']}>")
        for name, text in reply.items():
            reply[name] = text if len(text) <= most else f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"
        if os.getpid() != own:  # the program made a copy of its process, which is not the one that is asked
            os._exit(0)
        write_frame(replies, {**reply, "number": frame[0]["number"]})


def _run(code: str, names: dict[str, Any], file: str) -> dict[str, str]:
    """Run a program; ``value`` of its last expression, or ``error``: the traceback from its own first line on."""
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    said: dict[str, str] = {}
    try:
        tree = ast.parse(code, file)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, file, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)
            said |= {} if value is None else {"value": repr(value)}
        _save_figures()
    except SystemExit as ended:
        if ended.code not in (None, 0):
            said["error"] = f"SystemExit: {ended.code}"
    except BaseException as error:
        try:
            own = error.__traceback__
            while own is not None and not own.tb_frame.f_code.co_filename.startswith("<call "):
                own = own.tb_next
            said["error"] = "".join(traceback.format_exception(type(error), error, own)).rstrip()
        except BaseException:  # its text cannot be made either
            said["error"] = type(error).__name__
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BaseException as error:
            said.setdefault("error", f"{type(error).__name__} of {stream!r}"[:200])
    return said


def _save_figures() -> None:
    """Open figures of matplotlib as files, as a notebook shows them."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        free = next(name for at in range(1, 10_000) if not os.path.lexists(name := f"figure-{at}.png"))
        pyplot.figure(number).savefig(free)
        pyplot.close(number)


def still(clock: float, seed: int) -> None:
    """Time that moves by being asked and by sleeping alone, and randomness from a seed: runs are equal to the byte."""
    # What waits for others keeps the real clock, which it takes when it is imported.
    import datetime
    import queue  # noqa: F401
    import random
    import selectors
    import subprocess  # noqa: F401

    sys.modules["_uuid"] = None  # type: ignore[assignment]  # in C; without it `uuid` asks for time and randomness as others do
    now, began, stream = [clock], clock, random.Random(f"{seed} of the system")

    def tick() -> float:
        now[0] += 1e-6
        return now[0]

    def sleep(seconds: float, /) -> None:
        now[0] += max(float(seconds), 0.0)

    def since() -> float:
        return tick() - began

    def whole(ask: Callable[[], float]) -> Callable[[], int]:
        return lambda: int(ask() * 1_000_000) * 1_000

    def defaulting(name: str) -> Callable[..., Any]:
        real = getattr(time, name)
        return lambda seconds=None, /: real(tick() if seconds is None else seconds)

    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, defaulting(name))
    strftime, asctime = time.strftime, time.asctime
    time.strftime = lambda form, at=None, /: strftime(form, time.localtime() if at is None else at)
    time.asctime = lambda at=None, /: asctime(time.localtime() if at is None else at)
    time.time, time.sleep, time.time_ns = tick, sleep, whole(tick)
    time.clock_gettime = lambda clock, /: tick() if clock == time.CLOCK_REALTIME else since()
    time.clock_gettime_ns = lambda clock, /: int(time.clock_gettime(clock) * 1_000_000) * 1_000
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, since)
        setattr(time, f"{name}_ns", whole(since))

    for kind, methods in (
        (
            datetime.datetime,
            {
                "now": lambda cls, tz=None: cls.fromtimestamp(tick(), tz),
                "utcnow": lambda cls: datetime.datetime.fromtimestamp(tick(), datetime.UTC).replace(tzinfo=None),
                "today": lambda cls: cls.fromtimestamp(tick()),
            },
        ),
        (datetime.date, {"today": lambda cls: cls.fromtimestamp(tick())}),
    ):
        # In the types themselves, which are written in C and locked: libraries in C know these and no others.
        gc.get_referents(kind.__dict__)[0].update({name: classmethod(method) for name, method in methods.items()})
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    wait = selectors.DefaultSelector.select

    def select(self: Any, timeout: float | None = None) -> Any:
        ready = wait(self, timeout)
        now[0] += 0.0 if ready or not timeout else max(timeout, 0.0)
        return ready

    selectors.DefaultSelector.select = select  # type: ignore[method-assign]
    os.urandom = random._urandom = stream.randbytes  # type: ignore[attr-defined]
    os.getrandom = lambda size, flags=0: stream.randbytes(size)
    reseed = random.Random.seed
    random.Random.seed = lambda self, a=None, version=2: reseed(self, stream.getrandbits(64) if a is None else a, version)
    random.seed(seed)
