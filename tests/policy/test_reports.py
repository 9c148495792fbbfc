"""Reports through the command line: planned, written part by part, deepened, interrupted, resumed, and run again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from openai_server import call, openai_server
from test_sessions import EDEN, KENT, run

from sanderling.agent.session import sessions
from sanderling.core.errors import UserError

ASKED = "How did the two towns begin?"
OUTLINE = (
    "# Two towns\n\n## Founding: who founded Kent, and when\n## **The lighthouse**: who built it\n## Eden [1]: where it lies"
)
WHOLE = """\
# Two towns

Kent was founded in 1803 by Ada Vell [1]. Eden was founded by settlers in 1820 [2].

## Founding

Kent was founded by Ada Vell in 1803 [1]. It was a port for whalers. *(not found in what was read)*

### The river

Kent lies on the north bank of the river Quoll [1].

## The lighthouse

The lighthouse was built by Tom Vell in 1851 [1].

## Eden

Eden lies forty miles south of Kent [2].

## Sources
"""


def writer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A model that plans three sections, reads a page for the first and the last, and once finds one missing."""
    told, turns = part_of(messages)
    if told.startswith(ASKED):
        return {"tool_calls": [call("search", {"query": ["Kent Eden"]})]} if turns == 0 else answer(OUTLINE)
    if told.startswith("Section: Founding") and turns == 0:
        return {"tool_calls": [call("visit", {"url": [KENT], "goal": "founder"}, "v")]}
    if told.startswith("Section: Eden") and turns == 0:
        return {"tool_calls": [call("visit", {"url": [EDEN], "goal": "where"}, "w")]}
    texts = {
        "Section: Founding": "Kent was founded by Ada Vell in 1803 [1]. It was a port for whalers [2].",
        "Section: The river": "Kent lies on the north bank of the river Quoll [1].",
        "Section: The lighthouse": "The lighthouse was built by Tom Vell in 1851 [2].",
        "Section: Eden": "Eden lies forty miles south of Kent [3].",
        "What is missing?": "complete" if "The river" in told else "## founding > The river: on which bank Kent lies",
        "Summary": "Kent was founded in 1803 by Ada Vell [1]. Eden was founded by settlers in 1820 [3].",
    }
    return answer(texts[told.partition("\n")[0]])


def part_of(messages: list[dict[str, Any]]) -> tuple[str, int]:
    """How the part under way was asked for, and the turns since."""
    begins = ASKED, "Section: ", "What is missing?", "Summary"
    asked = [message["role"] == "user" and message["content"].startswith(begins) for message in messages]
    at = max(place for place, is_asked in enumerate(asked) if is_asked)
    return messages[at]["content"], sum(message["role"] == "assistant" for message in messages[at:])


def answer(text: str) -> dict[str, Any]:
    return {"content": f"<answer>{text}</answer>"}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    place.mkdir()
    (place / "kent.md").write_text(
        "# Kent\n\nKent was founded by Ada Vell in 1803, on the north bank of the river Quoll.\n\n"
        "The lighthouse was built by her grandson Tom Vell in 1851.\n"
    )
    (place / "eden.md").write_text("# Eden\n\nEden lies forty miles south of Kent and was founded by settlers in 1820.\n")
    return place


def test_a_report_is_planned_written_and_deepened(notes: Path, tmp_path: Path) -> None:
    with openai_server(writer) as (url, taken, refused):
        run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "a.md")
    assert refused == [] and (tmp_path / "a.md").read_text().startswith(WHOLE)
    first, last = taken[0]["messages"], taken[-1]["messages"]
    assert last[: len(first)] == first and "Eden lies forty miles" in str(last)  # one conversation: all was in view
    assert run("history").count(ASKED) == 1 and "Two towns" in run("show", "last")
    run("export", "last", "--to", "html", "--out", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert page.index(">Founding</h2>") < page.index(">The river</h3>") < page.index(">The lighthouse</h2>")
    run("export", "last", "--to", "capsule", "--out", tmp_path / "a.capsule")
    assert run("replay", tmp_path / "a.capsule").count("the same record, bit for bit") == 8


@pytest.mark.parametrize("interrupt", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_report_is_readable_and_goes_on(notes: Path, tmp_path: Path, interrupt: signal.Signals) -> None:
    """Killed, or asked for an end, while the third part is written."""
    sent: list[int] = []

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if part_of(messages)[0].startswith("Section: The lighthouse") and not sent:
            sent.append(process.pid)
            os.kill(process.pid, interrupt)
            time.sleep(0.5)
        return writer(messages)

    with openai_server(said) as (url, _, refused):
        command = [sys.executable, "-m", "sanderling", "ask", ASKED, "--docs", str(notes), "--model", f"{url}#m"]
        command += ["--report", "a.md"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes)
        told, _ = process.communicate(timeout=120)
        part = (tmp_path / "a.md").read_text()
        assert process.returncode == (0 if interrupt is signal.SIGINT else -signal.SIGKILL), told
        assert "Ada Vell in 1803 [1]" in part and "## Eden\n\n*Not written yet.*" in part
        assert ("built by Tom Vell in 1851 [1]" in part) is (interrupt is signal.SIGINT)
        assert "not ended: go on with sanderling resume" in run("show", "last") and len(sessions()) == 1
        run("resume")
    assert refused == [] and (tmp_path / "a.md").read_text().startswith(WHOLE) and len(sessions()) == 1
    with pytest.raises(UserError, match="Every question that is kept has ended"):
        run("resume")


def test_spent_money_ends_a_report_with_what_there_is(notes: Path, tmp_path: Path) -> None:
    with openai_server(writer) as (url, _, _):
        model = f"{url}?context=4096#m"
        told = run("ask", ASKED, "--docs", notes, "--model", model, "--report", tmp_path / "a.md", "--spend", "750tok")
    part = (tmp_path / "a.md").read_text()
    assert "## Founding\n\nKent was founded" in part and "Not written yet" in part
    assert "has the sections that are finished" in told


def test_what_a_model_does_not_write_is_said(notes: Path, tmp_path: Path) -> None:
    """A section without text, an outline without headings, and a place for the report that is none."""

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if part_of(messages)[0].startswith("Section: The lighthouse"):
            return {"content": ""}
        return writer(messages)

    with openai_server(said) as (url, _, _):
        run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "a.md")
        assert "## The lighthouse\n\n*Not written. 2 turns in a row could not be read." in (tmp_path / "a.md").read_text()
        for name, more in (("a.pdf", []), ("a.md", ["--no-save"]), ("a.md", ["--out", tmp_path / "b.jsonl"])):
            with pytest.raises(UserError, match=r"ends in \.md or \.html|kept as a session"):
                run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / name, *more)
    with openai_server(lambda messages: answer("I could not find out.")) as (url, _, _):
        run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "b.md")
    assert f"## {ASKED}\n\nI could not find out." in (tmp_path / "b.md").read_text()
