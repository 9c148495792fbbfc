"""None of many attempts gets out of the sandbox, and each would without its guard."""

import asyncio
import os
import pickle
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from escapes import ATTEMPTS, PRELUDE, TIGHT, WIDE, Attempt
from programs import box_of, needs_bubblewrap

from sanderling.tools.python import process
from sanderling.tools.python.process import Launch, Runners
from sanderling.tools.python.rungs import bare, bubblewrap
from sanderling.tools.python.sandbox import Ran, SandboxError, SandboxLimits

pytestmark = [
    needs_bubblewrap,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the attempts name system calls by their numbers on x86-64"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """What attempts are after: a folder, a process, sockets."""
    outside = tmp_path_factory.mktemp("o")
    (outside / "secret").write_text("secret")
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    name = f"sanderling-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX) as two,
    ):
        one.bind(str(outside / "socket"))
        two.bind(f"\0{name}")
        one.listen(50)
        two.listen(50)
        yield {"outside": outside, "victim": victim.pid, "port": port.getsockname()[1], "abstract": name}
    victim.kill()
    victim.wait()


def program(attempt: Attempt, world: dict[str, object], long_s: float = 600) -> str:
    """``long_s``: for how long it loops, from now on, so that it has to be longer than a sandbox takes to begin."""
    code = attempt.code
    for name, value in {**world, "later": time.monotonic() + long_s}.items():
        code = code.replace(f"{{{name}}}", str(value))
    return PRELUDE + code


async def outcome(sandbox: Runners, code: str, seconds: float) -> Ran:
    """What became of an attempt, once a further call has shown that the session still stands."""
    async with box_of(sandbox) as box:
        try:
            ran = await box.run(code, seconds)
            after = await box.run("6 * 7", 10)
        except SandboxError:
            return Ran("lost")
        assert after.value == "42"
        return ran


def has_escaped(ran: Ran, limits: SandboxLimits) -> bool:
    too_much = 3 * limits.output_chars + 200
    return ran.status == "lost" or ran.value == "True" or len(ran.output) > too_much or len(ran.value) > too_much


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_no_attempt_escapes(name: str, world: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDERLING_SECRET", "secret")
    attempt = ATTEMPTS[name]
    ran = await outcome(bubblewrap(attempt.limits, warm=0), program(attempt, world), attempt.limits.seconds)
    assert not has_escaped(ran, attempt.limits), ran


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_each_attempt_escapes_without_its_guard(
    name: str, world: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = ATTEMPTS[name]
    if attempt.root and os.geteuid():
        pytest.skip("only root succeeds")
    monkeypatch.setenv("SANDERLING_SECRET", "secret")
    ran = await outcome(_without(attempt, monkeypatch), program(attempt, world, 4), 30)
    if attempt.rare and not has_escaped(ran, TIGHT):
        pytest.skip("this kernel is built without it")
    assert has_escaped(ran, TIGHT), ran


def _without(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> Runners:
    """A sandbox in which one guard is missing; or none at all, a process of this machine."""
    if attempt.without in ("plain", "filter"):
        monkeypatch.setattr("sanderling.tools.python.process.filter_program", lambda network: b"")
    if attempt.without in ("plain", "limits"):
        monkeypatch.setattr("sanderling.tools.python.process._bounds", lambda limits: {})
    if attempt.without == "plain":
        return _plain()
    return bubblewrap(WIDE if attempt.without == "wide" else attempt.limits, warm=0)


def _plain() -> Runners:
    guarded = bare(WIDE)

    def launch() -> Launch:
        found = guarded._launch()
        return replace(found, env={**found.env, **os.environ})

    return Runners("plain", "", WIDE, launch, warm=0)


# -- the near side, and time after the reply --------------------------------------------------------------------------------

FRAME = "os.write(fd, (struct.pack('>I', len(f)) + f) * 1)"
FORGED = {
    "a frame without end": ("", "os.write(fd, b'\\xff\\xff\\xff\\xff')"),
    "no JSON": ("", "os.write(fd, b'\\0\\0\\0\\4spam')"),
    "a frame that is nested": ("f = b'[' * 20_000", FRAME),
    "a frame that is no object": ("f = b'[]'", FRAME),
    "more bytes than there are": ("""f = b'{"bytes": 99999999999, "number": 1}'""", FRAME),
    "other kinds of values": ("""f = b'{"bytes": 0, "number": 1, "value": {"a": [1]}}'""", FRAME),
    "a reply of another call": ("""f = b'{"bytes": 0, "number": 7, "value": "1"}'""", FRAME),
    "many replies": ("""f = b'{"bytes": 0, "number": 1}'""", FRAME.replace("* 1", "* 900")),
}


@pytest.mark.parametrize("name", FORGED)
async def test_what_a_program_writes_into_its_pipes_is_data(name: str) -> None:
    made, deed = FORGED[name]
    code = f"{PRELUDE}{made}\nfor fd in range(3, 256):\n    try: {deed}\n    except OSError: pass\n'spoken'"
    ran = await outcome(bubblewrap(TIGHT, warm=0), code, 5)
    assert ran.status in ("ok", "ended") and not ran.value.startswith("True")


@pytest.mark.parametrize(
    "code",
    [
        "os._exit(3)", "os.abort()", "ctypes.string_at(0)", "os.closerange(0, 256)", "os.kill(os.getpid(), 9)",
        "sys.exit('no')",
        "os.execv('/usr/bin/env', ['env'])", "class Bad(BaseException):\n    def __str__(self): raise self\nraise Bad",
        "class Bad:\n    def __repr__(self): return 7\nBad()", "sys.stdout.close()",
        "sys.setrecursionlimit(10**9)\nf = lambda: f()\nf()",
        "import builtins; del builtins.repr, builtins.len; 1", "sys.modules.clear()", "x = '\\ud800'; print(x); x", "code\0",
        "raise SystemExit(object())", "os.chdir('/usr')",
        "import threading; threading.Thread(target=time.sleep, args=(60,)).start()",
        "os.makedirs('/'.join(['deep'] * 200))", "[open(f'f{n}', 'w').close() for n in range(3000)] and None",
        "os.rmdir('/scratch')", "os.chmod('.', 0)",
    ],
)  # fmt: skip
async def test_a_session_outlives_what_its_programs_do_to_themselves(code: str) -> None:
    ran = await outcome(bubblewrap(SandboxLimits(), warm=0), PRELUDE + code, 10)
    assert ran.status != "lost"


STAYS = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        marker = b'{marker}'
        for n in range(100):
            open('count', 'a').write('.')
            time.sleep(0.05)
    os._exit(0)
time.sleep(0.2)
"""


async def test_what_a_program_leaves_behind_stands_still_between_calls_and_ends_with_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = []
    for sandbox in (bubblewrap(SandboxLimits(), warm=0), _plain()):
        async with box_of(sandbox) as box:
            await box.run(PRELUDE + STAYS, 10)
            before = await box.get("count", 100) or b""
            for _ in range(10 if not counts else 100):  # where nothing holds it, it goes on sooner or later
                await asyncio.sleep(0.05)
                more = len(await box.get("count", 100) or b"") - len(before)
                if counts and more > 5:
                    break
            counts.append(more)
    assert counts[0] == 0 and counts[1] > 5


def running(word: str) -> list[int]:
    """Processes of this machine with an argument."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and word in (folder / "cmdline").read_text(errors="replace").split("\0"):
                found.append(int(folder.name))
    return found


async def test_what_is_left_behind_does_not_hide_that_a_program_ended() -> None:
    async with box_of(bubblewrap(SandboxLimits(), warm=0)) as box:
        await box.run(PRELUDE + STAYS, 10)
        assert (await box.run("os._exit(3)", 10)).status == "exit 3"
        assert (await box.run("6 * 7", 10)).value == "42"


SLEEPS = """
import os
begun, begins = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{seconds}"])
    os._exit(0)
os.close(begins)
os.read(begun, 1) == b''  # once it is another program, which has not this end
"""


async def test_nothing_outlives_its_session() -> None:
    async with box_of(bubblewrap(SandboxLimits(), warm=0)) as box:
        assert (await box.run(SLEEPS.format(seconds=61.625), 10)).value == "True"
        assert len(running("61.625")) == 1
    assert running("61.625") == []
    async with box_of(_plain()) as box:
        await box.run(SLEEPS.format(seconds=62.625), 10)
    (left,) = running("62.625")
    os.kill(left, 9)


def test_nothing_outlives_a_killed_process() -> None:
    held = subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert held.stdout and held.stdout.readline() == "ready\n"
    assert len(running("63.625")) == 1
    held.kill()
    held.wait()
    held.stdout.close()
    deadline = time.monotonic() + 60
    while running("63.625") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running("63.625") == []


HOLDS = f"""
import asyncio
from sanderling.tools.python.rungs import bare, bubblewrap
from sanderling.tools.python.sandbox import SandboxLimits

async def hold():
    box = await bubblewrap(SandboxLimits(), warm=0).open(None)
    await box.run({SLEEPS.format(seconds=63.625)!r}, 10)
    running = asyncio.ensure_future(box.run("import time; time.sleep(600)", 600))
    await asyncio.sleep(0.5)
    print("ready", flush=True)
    await running

asyncio.run(hold())
"""


async def test_the_near_side_reads_regular_files_of_the_session_alone(world: dict[str, object]) -> None:
    secret = f"{world['outside']}/secret"
    code = (
        f"os.symlink({secret!r}, 'link'); os.symlink({str(world['outside'])!r}, 'folder'); os.mkfifo('pipe')\n"
        "os.symlink('/etc', 'etc'); open('own', 'w').write('own'); os.symlink('own', 'to-own'); os.mkdir('real')\n"
        "open('big', 'wb').truncate(5 << 20); socket.socket(socket.AF_UNIX).bind('sock'); open('-x\\n\\x1b[2J', 'w').write('1')"
    )
    asked = [
        "link",
        "folder/secret",
        "pipe",
        "to-own",
        "real",
        "sock",
        "../../../etc/passwd",
        "/etc/passwd",
        secret,
        "",
        "..",
        "big",
    ]
    async with box_of(bubblewrap(TIGHT, warm=0)) as box:
        ran = await box.run(PRELUDE + code, 10)
        assert [name for name, _ in ran.files] == ["-x\n\x1b[2J", "big", "own"]
        assert [await box.get(name, 1 << 20) for name in asked] == [None] * len(asked)
        assert [(await box.read(name, 10)).text for name in asked] == [""] * len(asked)
        assert await box.get("own", 100) == b"own"
    # A near side that opened the folder itself would follow them.
    plain = _plain()
    async with box_of(plain) as box:
        await box.run(PRELUDE + code, 10)
        where = (await box.run("os.getcwd()", 10)).value.strip("'")
        assert (Path(where) / "link").read_text() == (Path(where) / "folder" / "secret").read_text() == "secret"


async def test_a_value_is_its_text_and_never_an_object_of_ours(world: dict[str, object]) -> None:
    code = (
        f"class P:\n    def __reduce__(self): return (os.system, ('touch {world['outside']}/pwned',))\n    __str__ = None\nP()"
    )
    async with box_of(bubblewrap(TIGHT, warm=0)) as box:
        ran = await box.run(PRELUDE + code, 10)
    assert ran.value.startswith("<__main__.P object at 0x")
    assert not (Path(str(world["outside"])) / "pwned").exists()
    assert pickle.loads(pickle.dumps(Reduced())) == os.getpid()  # as a pickle it would have run here


class Reduced:
    def __reduce__(self) -> tuple[object, ...]:
        return os.getpid, ()


async def test_only_its_own_files_are_open_in_a_program() -> None:
    code = "[fd for fd in range(300) if libc.fcntl(fd, 1) >= 0]"
    async with box_of(bubblewrap(TIGHT, warm=0)) as box:
        fds = eval((await box.run(PRELUDE + code, 10)).value)
    assert fds[:3] == [0, 1, 2] and len(fds) == 5  # and what it is told, and replies


async def test_memory_is_watched_where_the_kernel_does_not_tell_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TELLS_SHARES", False)
    ran = await outcome(bubblewrap(TIGHT, warm=0), PRELUDE + ATTEMPTS["much memory of several processes"].code, 10)
    assert ran.status == "memory"


async def test_memory_of_all_processes_together_is_watched() -> None:
    ran = await outcome(bubblewrap(TIGHT, warm=0), PRELUDE + ATTEMPTS["much memory of several processes"].code, 10)
    assert ran.status == "memory"
    ends = "if not os.fork(): time.sleep(0.02); os._exit(0)"
    forks = f"for _ in range(10):\n    for _ in range(4):\n        {ends}\n    for _ in range(4): os.wait()"
    shared = f"a = b'x' * (40 << 20)\n{forks}\nlen(a)"  # now and then somebody ends while it is being looked at
    for _ in range(3):
        assert (await outcome(bubblewrap(TIGHT, warm=0), PRELUDE + shared, 10)).value == str(40 << 20)


async def test_processor_time_of_all_processes_together_is_watched() -> None:
    limits = SandboxLimits(cpu_seconds=0.5)
    code = "if os.fork() == 0:\n    while True: pass\ntime.sleep(20)"
    assert (await outcome(bubblewrap(limits, warm=0), PRELUDE + code, 10)).status == "cpu"


async def test_of_this_python_its_own_folders_alone_are_there() -> None:
    async with box_of(bubblewrap(TIGHT, warm=0)) as box:
        ran = await box.run("import os, sys; sorted(os.listdir(sys.base_prefix))", 10)
    assert sys.base_prefix.startswith("/usr") or set(eval(ran.value)) <= {"bin", "lib", "lib64"}


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5_000, "d/" * 3_000])
async def test_names_that_no_file_can_have_are_not_found(name: str) -> None:
    async with box_of(bubblewrap(TIGHT, warm=0)) as box:
        assert (await box.read(name, 5)).problem == "not-found"
        assert (await box.run("1", 5)).value == "1"


def test_who_is_not_root_has_the_same() -> None:
    """By the kernel's own namespaces of users, in which this process is somebody."""
    somebody = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") is None or subprocess.run([*somebody, "true"], check=False).returncode:
        pytest.skip("nobody else can be become here")
    said = subprocess.run([*somebody, sys.executable, "-c", UNROOTED], capture_output=True, text=True, check=False)
    assert said.stdout == "65534\nTrue\n42\n", said.stderr


UNROOTED = """
import asyncio
from sanderling.tools.python.rungs import bubblewrap
from sanderling.tools.python.sandbox import SandboxLimits

async def run():
    box = await bubblewrap(SandboxLimits(), warm=0).open(None)
    for code in ("import os; os.getuid()", "os.chmod('.', 0); True", "6 * 7"):
        print((await box.run(code, 10)).value)
    await box.close()

asyncio.run(run())
"""
