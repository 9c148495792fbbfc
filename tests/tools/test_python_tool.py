"""The python tool: what a program's result is, what lasts, what is equal in two runs, and how it is switched on."""

from pathlib import Path

from programs import needs_bubblewrap
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolResult
from sanderling.tools.python.bubblewrap import bubblewrap
from sanderling.tools.python.limits import SandboxLimits
from sanderling.tools.python.sandbox import Sandbox
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world

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
    await tool.leave("s")
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
async def test_a_result_is_what_is_printed_the_last_value_the_error_and_the_files() -> None:
    results = await called(
        bubblewrap(SandboxLimits()),
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\nx = 20\nx + 1",
        "def f():\n    return x / 0\nf()",
        "open('out.txt', 'w').write('abc')\nNone",
        "x = 1",
    )
    assert [result.text for result in results] == [
        "one\ntwo\n21",
        'Traceback (most recent call last):\n  File "<call 2>", line 3, in <module>\n    f()\n  File "<call 2>", line 2, in f\n'
        "    return x / 0\n           ~~^~~\nZeroDivisionError: division by zero",
        "Files written: out.txt (3 bytes)",
        "(Nothing was printed, and the last line has no value.)",
    ]
    assert [result.status for result in results] == [ToolStatus.OK, ToolStatus.FAILED, ToolStatus.OK, ToolStatus.OK]
