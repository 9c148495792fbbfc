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

from sanderling.agent.session import find_session, sessions
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


def test_a_file_that_is_there_is_not_written_over(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("my own text")
    with pytest.raises(UserError, match=r"own.md is already there: name another file"):
        run("ask", ASKED, "--docs", notes, "--model", "http://localhost:9/v1#m", "--report", tmp_path / "own.md")
    assert (tmp_path / "own.md").read_text() == "my own text"


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


OUTLINES = {
    "# Two towns\n\n## 1. Founding: who\n## Section 2: The **lighthouse**: who": ["Founding", "The lighthouse"],
    "1. Founding: who\n2. 1803 in Kent - what\n\nThat is all.": ["Founding", "1803 in Kent"],
    "**Founding**: who founded it\n\n**The lighthouse**: who built it": ["Founding", "The lighthouse"],
    "# 两座城镇\n\n## 建城：谁建立了肯特\n## 第二章 灯塔：谁": ["建城", "灯塔"],
    "# T\n\n## Founding: who\n### Its walls: how high\n## Eden\n## Sources: list": ["Founding", "Eden"],
    "## Founding: a\n## founding: again\n## A > B: c": ["Founding", "A > B"],
    "# Founding: a\n# Eden: b": ["Founding", "Eden"],
    "I cannot plan this.": [ASKED],
}


@pytest.mark.parametrize("outline", OUTLINES)
def test_outlines_in_the_forms_that_models_give(notes: Path, tmp_path: Path, outline: str) -> None:
    """The list of sources, a heading that is there already, and the first words of 'complete' plan nothing."""
    looks: list[str] = []

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        told, _ = part_of(messages)
        if told.startswith("What is missing?"):
            looks.append(told)
            return answer(f"## Nowhere > {OUTLINES[outline][0].upper()}: again" if looks[1:] else "Complete:\n\n1. The walls")
        return answer(outline if told.startswith(ASKED) else "I could not find out.")

    with openai_server(said) as (url, taken, _):
        run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "a.md")
    lines = (tmp_path / "a.md").read_text().splitlines()
    assert [line.removeprefix("## ").replace("\\", "") for line in lines if line.startswith("##")] == OUTLINES[outline]
    assert "Its walls: how high" in str(taken[-1]["messages"]) or "Its walls" not in outline


MARKDOWN = """\
## Founding

| Town | Year [1] |
|---|---|
| Kent | 1803, by Ada Vell [1] |
| Eden | 1777, by Bob Moss [1] |

# Walls

- **Kent** was founded by Ada Vell in 1803 [1].

```
# x < 1
```

It was **a port <b>for</b> whalers**. ![](http://evil.example/a.png) [here](http://evil.example)"""


def test_the_markdown_of_a_section_stays_within_it(notes: Path, tmp_path: Path) -> None:
    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        told, turns = part_of(messages)
        return answer(MARKDOWN) if told.startswith("Section: Founding") and turns else writer(messages)

    with openai_server(said) as (url, _, _):
        run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "a.md")
    text = (tmp_path / "a.md").read_text()
    assert text.count("## Founding\n") == 1 and "\n### Walls\n" in text and "\n# x < 1\n" in text
    assert "\n| Town | Year |\n|---|---|\n| Kent | 1803, by Ada Vell [1] |\n" in text  # a table for its viewers
    assert "| Eden | 1777, by Bob Moss *(not found in what was read)* |" in text
    run("export", "last", "--to", "html", "--out", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "<th>Town</th>" in page and "<li><strong>Kent</strong> was founded" in page and "<h3>Walls</h3>" in page
    assert '<span class="not_found">It was <strong>a port &lt;b&gt;for&lt;/b&gt; whalers</strong>.</span>' in page
    assert '1777, by Bob Moss <em class="doubt">(not found in what was read)</em></td>' in page
    assert "# x &lt; 1" in page and "<img" not in page and 'href="http://evil' not in page and "⧼" not in page + text


def test_what_keeps_a_report_from_its_end_is_said(notes: Path, tmp_path: Path) -> None:
    """A context that is full, an outline that money did not reach, a place that cannot be written, a question in between."""
    long, has_grown = "Kent was founded by Ada Vell in 1803 [1]. " * 90, list[bool]()

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        told, _ = part_of(messages)
        return answer(long) if told.startswith("Section") and not has_grown else writer(messages)

    def usage(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        sizes = [len(str(one.get("content") or "")) // 3 for one in (*body["messages"], message)]
        return {"prompt_tokens": sum(sizes[:-1]), "completion_tokens": sizes[-1]}

    asking = "ask", ASKED, "--docs", notes, "--report"
    with openai_server(said, usage=usage) as (url, _, _):
        told = run(*asking, tmp_path / "a.md", "--model", f"{url}?context=4096#m", ends=1)
        why = "The conversation so far and question take"
        assert f"a.md ends there: {why}" in told and why in (tmp_path / "a.md").read_text()
        assert "resume and more context (--set agent.max_context=N" in told and "report not finished" in run("history")
        kept = find_session("last").questions()
        assert f"a.md ends there: {why}" in run("resume", ends=1)  # in the same context it gets no further, and adds nothing
        assert [one.id for one in find_session("last").questions()] == [one.id for one in kept]
        run("export", "last", "--to", "capsule", "--out", tmp_path / "a.capsule")
        has_grown.append(True)
        (tmp_path / "own.md").write_text("my own text")
        with pytest.raises(UserError, match=r"own.md is already there"):
            run("resume", "--set", f"report={tmp_path / 'own.md'}")
        told = run("resume", "--set", f"agent.model={url}?context=128000#m")
        assert "a.md is complete" in told and "not finished" not in run("history")
        text = (tmp_path / "a.md").read_text()
        assert "Not written" not in text and text.count("## ") == 4 and why not in text
        assert len({one.text for one in find_session("last").questions()}) == len(find_session("last").questions())
        with pytest.raises(UserError, match="Every question that is kept has ended"):
            run("resume")
    with openai_server(writer, usage=usage) as (url, taken, _):
        model = "--model", f"{url}#m"
        (tmp_path / "b.md").mkdir()
        for place, wrong in (("b.md", "is a folder"), ("notes/kent.md/a.md", "Cannot write")):
            with pytest.raises(UserError, match=wrong):
                run(*asking, tmp_path / place, *model)
        assert taken == []
        run(*asking, tmp_path / "c.md", *model, "--spend", "1tok", ends=1)
        assert "No outline. What may be spent" in (tmp_path / "c.md").read_text() and "not finished" in run("history")
        run("resume", "--spend", "3ktok")
        assert "Not written yet" in (tmp_path / "c.md").read_text()
        run("ask", "--continue", f"{ASKED} Once more, please", "--spend", "")
        assert "go on with sanderling resume" in run("show", "last")
        assert "is complete" in run("resume", "--spend", "900ktok")
    assert (tmp_path / "c.md").read_text().startswith(WHOLE)
