"""None of many attempts gets out of the sandbox, and each would without its guard."""

import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from escapes import ATTEMPTS, PRELUDE, TIGHT, WIDE, Attempt
from programs import box_of, needs_bubblewrap

from sanderling.tools.python.bubblewrap import bubblewrap
from sanderling.tools.python.limits import SandboxLimits
from sanderling.tools.python.process import ALL, Launch, Runners, bare
from sanderling.tools.python.sandbox import Ran, SandboxError

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


def program(attempt: Attempt, world: dict[str, object]) -> str:
    code = attempt.code
    for name, value in {**world, "later": time.monotonic() + 4}.items():
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
    ran = await outcome(_without(attempt), program(attempt, world), 30)
    if attempt.rare and not has_escaped(ran, TIGHT):
        pytest.skip("this kernel is built without it")
    assert has_escaped(ran, TIGHT), ran


def _without(attempt: Attempt) -> Runners:
    """A sandbox in which one guard is missing; or none at all, a process of this machine."""
    if attempt.without == "plain":
        return _plain()
    limits = WIDE if attempt.without == "wide" else attempt.limits
    return bubblewrap(limits, warm=0, guards=ALL - {attempt.without})


def _plain() -> Runners:
    guarded = bare(WIDE, guards=frozenset())

    def launch() -> Launch:
        found = guarded._launch()
        return Launch(found.argv, {**found.env, **os.environ}, found.scratch, found.above, found.path, found.reader, found.end)

    return Runners("plain", "", WIDE, launch, warm=0, guards=frozenset())
