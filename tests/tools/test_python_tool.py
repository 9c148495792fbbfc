"""The python tool: what a program's result is, what lasts, what is equal in two runs, and how it is switched on."""

import asyncio
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import pytest
from programs import needs_bubblewrap
from typer.testing import CliRunner

from sanderling.agent.journal import Journal
from sanderling.agent.opening import AgentConfig, opened_agent
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult
from sanderling.tools.python.opening import chosen
from sanderling.tools.python.process import Launch, Runners, tree
from sanderling.tools.python.rungs import bare, bubblewrap
from sanderling.tools.python.sandbox import Rung, Sandbox, SandboxLimits
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.sources.documents import files_below

NOON = 1_700_000_000.0
SCRIPT = """
def model(messages, key):
    if key.turn == 0:
        code = "open('sum.csv', 'w').write('word,count\\\\\\\\ntern,3\\\\\\\\n')"
        return '<think>x</think><tool_call>{"name": "python", "arguments": {"code": "%s"}}</tool_call>' % code
    if key.turn == 1:
        return '<think>x</think><tool_call>{"name": "read_file", "arguments": {"path": "sum.csv"}}</tool_call>'
    assert "tern,3" in messages[-1].content, messages[-1].content
    return "<think>x</think><answer>3</answer>"
"""


async def called(
    sandbox: Sandbox, *codes: str, limits: SandboxLimits | None = None, clock: float | None = None
) -> list[ToolResult]:
    """The results of calls of one session."""
    sessions = Sessions(sandbox, clock, {})
    tool = PythonTool(sessions, limits or SandboxLimits())
    results = [await tool({"code": code}, ToolContext(session="s", episode_seed=3)) for code in codes]
    await sessions.leave("s")
    await sandbox.close()
    return results


@needs_bubblewrap
def test_ask_runs_programs_and_reads_what_they_wrote(tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://w.example/tern", title="Tern", text="A bird.")], name="w", source="test")
    (tmp_path / "scripted.py").write_text(SCRIPT)
    words = ["ask", "How many?", "--world", str(tmp_path / "w"), "--model", f"{tmp_path / 'scripted.py'}:model", "--no-save"]
    done = CliRunner().invoke(build_app("ask"), [*words, "--set", "agent.python=auto", "--set", "agent.read_file=true"])
    assert done.exit_code == 0, done.output
    assert "Files written: sum.csv (18 bytes)" in done.output


@needs_bubblewrap
def test_an_answer_cites_what_a_program_printed(tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://w.example/tern", title="Tern", text="A bird.")], name="w", source="test")
    said = """
import json
def model(messages, key):
    if key.turn == 0:
        call = {"name": "python", "arguments": {"code": "print(6 * 207, 'terns')"}}
        return f"<tool_call>{json.dumps(call)}</tool_call>"
    return "There are 1,242 terns. [1] There are 9,999 gulls. [1]"
"""
    (tmp_path / "scripted.py").write_text(said)
    place = ["--world", str(tmp_path / "w"), "--model", f"{tmp_path / 'scripted.py'}:model", "--no-save"]
    words = ["ask", "How many?", *place, "--profile", "general", "--set", "agent.python=auto"]
    done = CliRunner().invoke(build_app("ask"), words)
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "[1] 1242 terns" in told, "the model is shown a number"
    assert "There are 1,242 terns. [1]" in told and "python: print(6 * 207, 'terns')" in told, "a reader sees the program"
    assert "1 supported" in told and "1 not found in what was read" in told


@needs_bubblewrap
def test_programs_of_ask_have_the_files_of_a_folder(tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://w.example/tern", title="Tern", text="A bird.")], name="w", source="test")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "towns.csv").write_text("town,people\nOrlo,300\nBrand,900\n")
    said = """
import json
def model(messages, key):
    if key.turn == 0:
        assert "(The attached files are towns.csv.)" in messages[-1].content
        call = {"name": "python", "arguments": {"code": "print(open('towns.csv').read())"}}
        return f"<tool_call>{json.dumps(call)}</tool_call>"
    return "Brand has 900 people. [1]"
"""
    (tmp_path / "scripted.py").write_text(said)
    place = [
        "--world",
        str(tmp_path / "w"),
        "--model",
        f"{tmp_path / 'scripted.py'}:model",
        "--no-save",
        "--profile",
        "general",
    ]
    files = ["--set", "agent.python=auto", "--set", f"agent.files={tmp_path / 'tables'}"]
    done = CliRunner().invoke(build_app("ask"), ["ask", "Which town is the largest?", *place, *files])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "Brand,900" in done.output
    done = CliRunner().invoke(build_app("ask"), ["ask", "Which?", *place, "--set", f"agent.files={tmp_path / 'no'}"])
    assert "name a folder of files" in str(done.exception)


@needs_bubblewrap
async def test_a_result_is_what_is_printed_the_last_value_the_error_and_the_files() -> None:
    results = await called(
        bubblewrap(SandboxLimits()),
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\nx = 20\nx + 1",
        "def f():\n    return x / 0\nf()",
        "open('out.txt', 'w').write('abc')\nNone",
        "x = 1",
        "print('bye'); exit()",
    )
    assert [result.text for result in results] == [
        "one\ntwo\n21",
        'Traceback (most recent call last):\n  File "<call 2>", line 3, in <module>\n    f()\n  File "<call 2>", line 2, in f\n'
        "    return x / 0\n           ~~^~~\nZeroDivisionError: division by zero",
        "Files written: out.txt (3 bytes)",
        "(Nothing was printed, and the last line has no value.)",
        "bye",
    ]
    assert [result.status is ToolStatus.OK for result in results] == [True, False, True, True, True]


@needs_bubblewrap
async def test_variables_and_files_last_for_a_session_and_no_longer() -> None:
    sessions = Sessions(bubblewrap(SandboxLimits()), None, {})
    tool, one, two = PythonTool(sessions, SandboxLimits()), ToolContext(session="one"), ToolContext(session="two")
    await tool({"code": "x = 1\nopen('f', 'w').write('1')"}, one)
    assert (await tool({"code": "x, open('f').read()"}, one)).text == "(1, '1')"
    assert "NameError" in (await tool({"code": "x"}, two)).text
    assert "FileNotFoundError" in (await tool({"code": "open('f')"}, two)).text
    await sessions.leave("one")
    assert "NameError" in (await tool({"code": "x"}, one)).text
    await sessions.close()
    await sessions.sandbox.close()


@needs_bubblewrap
async def test_a_program_that_takes_too_much_is_stopped_and_its_files_are_kept() -> None:
    limits = SandboxLimits(seconds=3, memory_mb=64)  # more than the others take on a busy machine
    codes = "x = 1\nopen('f', 'w').write('kept')", "print('so far')\nwhile True: pass", "open('f').read()", "x"
    results = await called(bubblewrap(limits), *codes, limits=limits)
    assert results[1].text == "so far\nStopped after 3 seconds. Variables are gone, files are kept."
    assert results[1].status is ToolStatus.TIMEOUT
    assert results[2].text == "'kept'" and "NameError" in results[3].text


@needs_bubblewrap
async def test_a_call_ends_before_its_deadline_and_a_given_up_one_at_once() -> None:
    sessions = Sessions(bubblewrap(SandboxLimits()), None, {})
    tool = PythonTool(sessions, SandboxLimits())
    await tool({"code": "1"}, ToolContext(session="s"))  # what it takes to begin is no part of what is measured
    late = await tool({"code": "import time\ntime.sleep(60)"}, ToolContext(session="s", deadline_s=0.6))
    assert late.status is ToolStatus.TIMEOUT and late.text.startswith("Stopped after 0.")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await tool({"code": "import time\ntime.sleep(60)"}, ToolContext(session="s"))
    again = await tool({"code": "1"}, ToolContext(session="s"))
    assert again.text == "1\n(A new sandbox: variables and files of earlier calls are gone.)"
    await sessions.close()
    await sessions.sandbox.close()


@needs_bubblewrap
async def test_calls_of_one_turn_share_their_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.tools.python.sessions._IN_TIME", 0.5)  # a busy machine needs the rest to give up a call
    sessions = Sessions(bubblewrap(SandboxLimits()), None, {})
    tool, here = PythonTool(sessions, SandboxLimits()), ToolContext(session="s")
    await tool({"code": "open('f', 'w').write('kept')"}, here)
    turn = ToolContext(session="s", deadline_s=8.0)
    async with asyncio.timeout(8.0):
        one, two = await asyncio.gather(*(tool({"code": "import time\ntime.sleep(2.1)"}, turn) for _ in range(2)))
    assert (one.status, two.status) == (ToolStatus.OK, ToolStatus.TIMEOUT)
    assert (await tool({"code": "open('f').read()"}, here)).text == "'kept'"
    await sessions.close()
    await sessions.sandbox.close()


def below(before: Collection[int] = ()) -> list[int]:
    """Processes that this one has started, but for those of earlier tests."""
    return [pid for pid, depth in tree(os.getpid()) if depth and pid not in before]


def left_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


@needs_bubblewrap
async def test_a_sandbox_that_is_ended_from_outside_is_no_mistake_of_a_program() -> None:
    earlier, sandbox = below(), bubblewrap(SandboxLimits())
    sessions = Sessions(sandbox, None, {})
    tool, here = PythonTool(sessions, SandboxLimits()), ToolContext(session="s")
    await tool({"code": "1"}, here)
    await asyncio.wait(sandbox._pool)  # which has one
    for pid in below(earlier):
        with suppress(ProcessLookupError):  # it ended with another
            os.kill(pid, 9)
    box = sessions._held["s"].box
    async with asyncio.timeout(60):
        while box is not None and box.is_there:  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.02)
    with pytest.raises(ToolOutageError, match="from outside"):
        await tool({"code": "1"}, here)
    assert (await tool({"code": "1"}, here)).text.startswith("1\n(A new sandbox")
    assert (await tool({"code": "1"}, ToolContext(session="other"))).text == "1"
    await sessions.close()
    await sandbox.close()
    assert below(earlier) == []


@needs_bubblewrap
@pytest.mark.parametrize("make", [bubblewrap, bare])
async def test_a_start_that_is_given_up_leaves_nothing(
    make: Callable[[SandboxLimits], Runners], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    earlier = below()
    for part in range(12):
        sandbox = make(SandboxLimits())
        sessions = Sessions(sandbox, None, {})
        with suppress(TimeoutError):
            async with asyncio.timeout(part / 100):
                await PythonTool(sessions, SandboxLimits())({"code": "1"}, ToolContext())
        await sessions.close()
        await sandbox.close()
    assert below(earlier) == left_in(tmp_path) == []


@needs_bubblewrap
async def test_a_sandbox_in_which_nothing_begins_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.tools.python.process.filter_program", lambda network: bytes(8))
    with pytest.raises(UserError, match="do not begin"):
        await chosen(Rung.BUBBLEWRAP, SandboxLimits())


@needs_bubblewrap
async def test_calls_of_one_turn_run_one_after_another() -> None:
    sessions = Sessions(bubblewrap(SandboxLimits()), None, {})
    tool, here = PythonTool(sessions, SandboxLimits()), ToolContext(session="s")
    await tool({"code": "import time\nseen = []"}, here)
    code = "seen.append({0}); time.sleep(0.1); seen.append({0})"
    await asyncio.gather(*(tool({"code": code.format(n)}, here) for n in range(3)))
    assert (await tool({"code": "seen"}, here)).text == "[0, 0, 1, 1, 2, 2]"
    await sessions.close()
    await sessions.sandbox.close()


SAME = """
import asyncio, datetime, os, queue, random, tempfile, time, uuid
import numpy, pandas
print(random.random(), random.Random().random(), numpy.random.default_rng().random(), numpy.random.rand())
print(uuid.uuid4(), uuid.uuid1())
print(time.time(), time.monotonic(), time.strftime('%c'), datetime.datetime.now(), datetime.date.today())
print(pandas.Timestamp.now())
print(os.urandom(4), hash('tern'), {'a', 'b', 'c', 'd'}, object(), tempfile.mkdtemp(), os.getpid())
before = time.time()
time.sleep(3600)
asyncio.run(asyncio.sleep(0.01))
print(time.time() - before > 3600, isinstance(datetime.datetime.now(), datetime.datetime))
try: queue.Queue().get(timeout=0.05)
except queue.Empty: print('empty')
"""


@needs_bubblewrap
async def test_two_runs_of_an_episode_are_equal_to_the_byte_in_an_offline_world() -> None:
    runs = [await called(bubblewrap(SandboxLimits(), warm=0), SAME, SAME, clock=NOON) for _ in range(2)]
    assert runs[0] == runs[1]
    assert "2023-11-14" in runs[0][0].text and runs[0][0].status is ToolStatus.OK
    assert runs[0][0].text != runs[0][1].text  # time and randomness go on
    live = [(await called(bubblewrap(SandboxLimits(), warm=0), "import random; random.random()"))[0].text for _ in range(2)]
    assert live[0] != live[1]  # where the world is not offline


@needs_bubblewrap
async def test_what_a_terminal_would_obey_is_shown_as_its_picture() -> None:
    code = r"open('a\x1b[2Jb\n', 'w').close(); print('\x1b]0;title\x07\x9b2J')"
    (result,) = await called(bubblewrap(SandboxLimits()), code)
    assert result.text == "\u241b]0;title\u2407\ufffd2J\nFiles written: a\u241b[2Jb (0 bytes)"


@needs_bubblewrap
async def test_figures_are_kept_as_files() -> None:
    """Without matplotlib, which need not be installed: what is asked of it at the end of a call."""
    code = """
import sys, types
class Figure:
    def savefig(self, name): open(name, 'w').write('png')
plots = types.SimpleNamespace(get_fignums=lambda: [1, 2], figure=lambda n: Figure(), close=lambda n: None)
sys.modules['matplotlib.pyplot'] = plots
"""
    results = await called(bubblewrap(SandboxLimits()), code)
    assert results[0].text == "Files written: figure-1.png (3 bytes), figure-2.png (3 bytes)"


async def test_a_sandbox_that_does_not_start_is_an_outage() -> None:
    broken = Runners("broken", "", SandboxLimits(), lambda: Launch(["/nowhere/bwrap"]), warm=0)
    with pytest.raises(ToolOutageError, match="does not start"):
        await PythonTool(Sessions(broken, None, {}), SandboxLimits())({"code": "1"}, ToolContext())
    ends = Runners("ends", "", SandboxLimits(), lambda: Launch(["/bin/sh", "-c", "echo 'No space left.' >&2; exit 1"]), warm=0)
    with pytest.raises(ToolOutageError, match="No space left"):
        await PythonTool(Sessions(ends, None, {}), SandboxLimits())({"code": "1"}, ToolContext())


async def test_arguments_that_are_none_are_said() -> None:
    tool = PythonTool(Sessions(bare(SandboxLimits()), None, {}), SandboxLimits())
    wrongs: list[dict[str, object]] = [{}, {"code": 3}, {"code": " "}, {"code": "x" * 300_000}]
    for wrong in wrongs:
        assert (await tool(wrong, ToolContext())).status is ToolStatus.BAD_ARGUMENTS


@needs_bubblewrap
async def test_an_oci_runtime_does_the_same() -> None:
    try:
        sandbox = await chosen(Rung.OCI, SandboxLimits())
    except UserError as error:
        pytest.skip(str(error))
    codes = "x = 2\nprint('hi')", "x ** 10", "import os\nos.listdir('/proc/1/fd')", "open('/usr/x', 'w')"
    results = await called(sandbox, *codes)
    assert [result.text for result in results[:2]] == ["hi", "1024"]
    assert "Permission" in results[2].text and "OSError" in results[3].text


def test_a_rung_that_is_not_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for rung, install in ((Rung.BUBBLEWRAP, "apt-get install bubblewrap"), (Rung.OCI, "apt-get install crun")):
        with pytest.raises(UserError, match=install):
            asyncio.run(chosen(rung, SandboxLimits()))


INTERRUPTED = """
from pathlib import Path

def call(name, arguments):
    return '<think>x</think><tool_call>{"name": "%s", "arguments": {%s}}</tool_call>' % (name, arguments)

def model(messages, key):
    if key.turn == 0:
        return call("python", '"code": "open(\\'a.txt\\', \\'w\\').write(\\'kept\\')"')
    if key.turn == 1:
        if not Path("again").exists():
            raise RuntimeError("killed")
        return call("read_file", '"path": "a.txt"')
    return "<think>x</think><answer>%s</answer>" % ("kept" if "kept" in messages[-1].content else messages[-1].content)
"""


@needs_bubblewrap
async def test_an_interrupted_episode_has_its_files_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripted.py").write_text(INTERRUPTED)
    build_world(tmp_path / "w", [Page(url="https://w.example/tern", title="Tern", text="A bird.")], name="w", source="test")
    config = AgentConfig(model="scripted.py:model", worlds=(tmp_path / "w",), python=Rung.BUBBLEWRAP, read_file=True)
    for last in (False, True):
        with Journal(tmp_path / "j") as journal:
            async with opened_agent(config) as agent:
                running = agent.run(Question(id="q", text="What?"), journal=journal)
                if not last:
                    with pytest.raises(RuntimeError, match="killed"):
                        await running
                    (tmp_path / "again").touch()
                    continue
                assert (await running).answer == "kept"


@needs_bubblewrap
async def test_what_programs_wrote_can_be_kept_and_lies_nowhere_else(tmp_path: Path) -> None:
    sessions = Sessions(bubblewrap(SandboxLimits()), None, {}, tmp_path / "kept" / "here")
    code = (
        "import os\nos.makedirs('plots/x')\nopen('plots/a.png', 'wb').write(b'png')\n"
        "open('plots/x/b\\n\\x1b[2J', 'w').write('1'); open('c\\\\d', 'w').write('2'); os.symlink('/etc/passwd', 'e')\n"
        "open('gone', 'w'); open('later', 'w')\n"
        "os.mkdir('p:q'); open('p:q/x', 'w'); open('p_q', 'w').write('3')\n"  # of one name, once each is plain
        "for n in range(5): open(f'sparse{n}', 'wb').truncate(100 << 20)"
    )
    tool, here = PythonTool(sessions, SandboxLimits()), ToolContext(session="s", question="../q/1", attempt=2)
    await tool({"code": code}, here)
    await tool({"code": "import os\nos.remove('gone'); os.remove('later'); os.symlink('/usr/bin/env', 'later')"}, here)
    await sessions.leave("s")
    await sessions.sandbox.close()
    found = {str(one.relative_to(tmp_path)): one.read_bytes() for one in files_below(tmp_path) if isinstance(one, Path)}
    assert sum("sparse" in name for name in found) == 2  # more would be more than all files may take
    assert "kept/here/_q_1-2/p_q/x" in found
    assert {name: data for name, data in found.items() if "sparse" not in name and "p_q" not in name} == {
        "kept/here/_q_1-2/c_d": b"2",
        "kept/here/_q_1-2/plots/x/b_\u241b[2J": b"1",
        "kept/here/_q_1-2/plots/a.png": b"png",
    }


@needs_bubblewrap
async def test_of_many_files_some_are_named() -> None:
    code = "for n in range(250): open(f'{n:03}' + 'x' * 200, 'w').close()"
    (result,) = await called(bubblewrap(SandboxLimits()), code)
    assert result.text.endswith(", and 180 more") and result.text.count("(0 bytes)") == 20 and len(result.text) < 5_000
