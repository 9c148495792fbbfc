"""read_file: which files are read, how long ones are, what is said of those that cannot be, and GAIA's attached files."""

import asyncio
import io
import json
import os
import signal
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from programs import needs_bubblewrap
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import FILES, Question
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.files import ReadFileTool, extracted
from sanderling.tools.python.process import Runners, tree
from sanderling.tools.python.rungs import bare, bubblewrap
from sanderling.tools.python.sandbox import SandboxLimits
from sanderling.tools.python.sessions import Sessions, files_of
from sanderling.tools.python.tool import PythonTool
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.sources.documents import files_below

LIMITS = SandboxLimits(seconds=10.0, files_mb=32)
HERE = ToolContext(question="q", session="s")
SANDBOXES = [pytest.param(bubblewrap, id="bubblewrap", marks=needs_bubblewrap), pytest.param(bare, id="bare")]


def workbook(rows: list[list[str]]) -> bytes:
    """The least that is an Excel file."""

    def cell(text: str) -> str:
        return f'<c t="inlineStr"><is><t>{text}</t></is></c>'

    cells = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("xl/workbook.xml", '<workbook><sheets><sheet name="Birds"/></sheets></workbook>')
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet><sheetData>{cells}</sheetData></worksheet>")
    return held.getvalue()


@asynccontextmanager
async def reading(sandbox: Runners, folder: Path, limits: SandboxLimits = LIMITS) -> AsyncIterator[ReadFileTool]:
    """The tool, with the files of a folder."""
    question = Question(id="q", text="?", meta={FILES: [file.name for file in files_below(folder) if isinstance(file, Path)]})
    sessions = Sessions(sandbox, None, files_of([question], folder))
    try:
        yield ReadFileTool(sessions, get_profile("general"), limits)
    finally:
        await sessions.close()
        await sandbox.close()


@pytest.mark.parametrize("make", SANDBOXES)
async def test_files_of_a_question_are_read_as_pages_are(make: type, tmp_path: Path) -> None:
    (tmp_path / "birds.xlsx").write_bytes(workbook([["bird", "seen"], ["tern", "3"]]))
    (tmp_path / "data.csv").write_text("place,depth\nKent,12\n")
    (tmp_path / "long.txt").write_text("".join(f"Line {n} tells of the sea.\n\n" for n in range(4_000)) + "The tern is last.\n")
    async with reading(make(LIMITS), tmp_path) as tool:
        book = await tool({"path": "birds.xlsx"}, HERE)
        assert "## Birds" in book.text and "| tern | 3 |" in book.text and book.status is ToolStatus.OK
        assert book.provenance == ("file:birds.xlsx",) and book.spans  # it can be cited
        assert "Kent,12" in (await tool({"path": "/scratch/data.csv"}, HERE)).text
        found = await tool({"path": "long.txt", "goal": "the tern"}, HERE)
        assert "The tern is last" in found.text and "#page=1" in found.text
        second = await tool({"path": "long.txt#page=2"}, HERE)
        assert "Line 399 " in second.text or "Line 400 " in second.text
        assert (await tool({"path": "long.txt#page=99"}, HERE)).status is ToolStatus.NOT_FOUND
        missing = await tool({"path": "other.pdf"}, HERE)
        assert missing.status is ToolStatus.NOT_FOUND and "birds.xlsx" in missing.text
        assert (await tool({"goal": "x"}, HERE)).status is ToolStatus.BAD_ARGUMENTS


async def test_while_a_long_text_is_searched_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"Line {n} tells of the sea.\n\n" for n in range(30_000)))
    async with reading(bare(LIMITS), tmp_path) as tool:
        await tool({"path": "long.txt"}, HERE)  # from here on it is known
        asked = asyncio.ensure_future(tool({"path": "long.txt", "goal": "the tern"}, HERE))
        turns = 0
        while not asked.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100


@pytest.mark.parametrize("make", SANDBOXES)
async def test_what_cannot_be_read_is_said(make: type, tmp_path: Path) -> None:
    files = {
        "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
        "broken.pdf": b"%PDF-1.7\nnothing",
        "empty.csv": b"",
        "old.xlsx": b"\xd0\xcf\x11\xe0" + bytes(100),
        "large.txt": b"x" * (17 << 20),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    async with reading(make(LIMITS), tmp_path) as tool:
        said = {name: await tool({"path": name}, HERE) for name in files}
    assert {name: result.text for name, result in said.items()} == {
        "picture.png": "picture.png is not text.",
        "broken.pdf": "broken.pdf is damaged.",
        "empty.csv": "empty.csv holds no text; it may be a scan.",
        "old.xlsx": "old.xlsx is of a kind that cannot be read as text.",
        "large.txt": "large.txt is too large to be read.",
    }
    assert {result.status for result in said.values()} == {ToolStatus.NOT_TEXT}


@pytest.mark.parametrize("make", SANDBOXES)
async def test_a_document_that_takes_all_there_is_harms_nothing(make: type, tmp_path: Path) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", "<a>" * 3_000_000)
    (tmp_path / "bomb.docx").write_bytes(bomb.getvalue())
    (tmp_path / "good.txt").write_text("All is well.")
    limits = LIMITS.model_copy(update={"memory_mb": 128, "seconds": 5.0})
    async with reading(make(limits), tmp_path, limits) as tool:
        programs = PythonTool(tool.tool, LIMITS)
        await programs({"code": "x = bytearray(60 << 20)"}, HERE)
        assert (await tool({"path": "bomb.docx"}, HERE)).status in (ToolStatus.NOT_TEXT, ToolStatus.TIMEOUT)
        assert (await programs({"code": "len(x)"}, HERE)).text == str(60 << 20)
        assert "All is well" in (await tool({"path": "good.txt"}, HERE)).text


async def test_a_reader_that_is_ended_from_outside_is_an_outage_and_no_damage(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("All is well.")
    earlier = {pid for pid, _ in tree(os.getpid())}
    async with reading(bare(LIMITS), tmp_path) as tool:
        await tool({"path": "one.txt"}, HERE)
        (runner,) = (pid for pid, _ in tree(os.getpid()) if pid not in earlier)
        os.kill(runner, signal.SIGSTOP)
        asked = asyncio.ensure_future(tool({"path": "two.txt"}, HERE))
        await asyncio.sleep(0.1)
        os.kill(runner, signal.SIGKILL)
        with pytest.raises(ToolOutageError, match="gone"):
            await asked
        assert "All is well" in (await tool({"path": "two.txt"}, HERE)).text


async def test_a_file_that_is_too_large_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(8 << 20))
    async with reading(bare(LIMITS.model_copy(update={"files_mb": 4})), tmp_path) as tool:
        with pytest.raises(ToolOutageError, match=r"agent\.sandbox\.files_mb"):
            await tool({"path": "large"}, HERE)


SCRIPT = """
def model(messages, key):
    question = next(one.content for one in messages if one.role == "user")
    assert "attached file is birds.xlsx" in question, question
    if key.turn == 0:
        return '<think>x</think><tool_call>{"name": "read_file", "arguments": {"path": "birds.xlsx"}}</tool_call>'
    assert "| tern | 3 |" in messages[-1].content, messages[-1].content
    return "<think>x</think><answer>3</answer>"
"""


def test_questions_of_gaia_with_files_are_tried_by_an_agent_that_opens_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build_world(tmp_path / "w", [Page(url="https://w.example/tern", title="Tern", text="A bird.")], name="w", source="test")
    (tmp_path / "scripted.py").write_text(SCRIPT)
    folder = tmp_path / "gaia"
    folder.mkdir()
    (folder / "birds.xlsx").write_bytes(workbook([["bird", "seen"], ["tern", "3"]]))
    rows = [
        {"task_id": str(n), "Question": "How many terns?", "Final answer": "3", "Level": "1", "file_name": name}
        for n, name in enumerate(("birds.xlsx", "gone.mp3"))
    ]
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ["eval", "run", "gaia", "gaia/metadata.jsonl", "--world", "w", "--model", "scripted.py:model", "--no-progress"]
    refused = CliRunner().invoke(build_app("eval"), [*words, "--out", "none"])
    assert refused.exit_code and "2 about an attached file" in str(refused.exception) + refused.output
    done = CliRunner().invoke(build_app("eval"), [*words, "--out", "run", "--set", "agent.read_file=true"])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    assert "1 about an attached file" in done.output and "100" in done.output


def test_questions_open_files_of_one_folder_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "set" / "more").mkdir(parents=True)
    (tmp_path / "set" / "more" / "birds.csv").write_text("tern\n")

    def found(name: object) -> dict[str, dict[str, Path]]:
        return files_of([Question(id="q", text="?", meta={FILES: [name]}), Question(id="r", text="?")], tmp_path / "set")

    assert found("more/birds.csv") == {"q": {"birds.csv": tmp_path / "set" / "more" / "birds.csv"}}
    (tmp_path / "set" / "link").symlink_to(tmp_path / "secret")
    for other in ("link", "../secret", str(tmp_path / "secret"), "gone.csv", "more", 3):
        with pytest.raises(UserError, match="put it there"):
            found(other)


def test_a_reader_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    said, text = extracted("a.pdf", b"%PDF-1.7", 1_000)
    assert "pip install" in said["problem"] and not text
