"""What ``sanderling ask`` prints, and where: the answer on standard output, and all else on standard error."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openai_server import call, openai_server
from test_reports import ASKED, writer
from test_sessions import FIRST, KENT, researcher
from typer.testing import CliRunner, Result

from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.documents import ENDINGS, FolderSource, Kind

ANSWER = "Ada Vell founded Kent in 1803 [1]. It has nine mills. (not found in what was read)\n\n[1] Kent\n    "


def run(*words: object) -> Result:
    told = list(map(str, words))
    return CliRunner().invoke(build_app(told[0]), told, env={"COLUMNS": "60"}, catch_exceptions=False)


def test_the_answer_with_its_sources_is_all_of_standard_output(notes: Path, tmp_path: Path) -> None:
    with openai_server(researcher) as (url, _, _):
        asked = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
        run("export", "last", "--out", tmp_path / "a.capsule")
        replayed = run("replay", tmp_path / "a.capsule", "--model", f"{url}#m")
    for done, place in ((asked, notes / "kent.md"), (replayed, "local://notes/kent.md")):
        assert done.stdout.startswith(f"{ANSWER}{place}\n") and "“Kent was founded by Ada Vell in 1803" in done.stdout
        assert done.stdout.splitlines()[-1].startswith("Of 2 sentences that can be checked: 1 supported")
        for told in ("turn 1", "→ search", "answered · 3 turns"):
            assert told in done.stderr and told not in done.stdout
    assert asked.stderr.count("    Kent local://notes/kent.md") == 2, "pages have their titles, listed and read"
    assert "reading what is new" in asked.stderr and "Kept as session" in asked.stderr
    assert "every byte is as it was made" in replayed.stderr and "is in the capsule" in replayed.stderr
    with pytest.raises(UserError, match=r"a\.capsule is a capsule: sanderling replay .*a\.capsule runs it again"):
        run("show", tmp_path / "a.capsule")
    shown = run("show", "last")  # which says how it came about, too, since that is what is asked for
    assert ANSWER in shown.stdout and "answered · 3 turns" in shown.stdout and shown.stderr == ""


@pytest.mark.parametrize("tools", ["", "?tools=text"])
@pytest.mark.parametrize("given", [None, "0", "1.0"])
def test_a_temperature_that_is_set_is_sent_and_else_the_server_decides(
    notes: Path, tmp_path: Path, given: str | None, tools: str
) -> None:
    with openai_server(researcher) as (url, taken, refused):
        options = [] if given is None else ["--set", f"agent.temperature={given}"]
        run("ask", FIRST, "--docs", notes, "--model", f"{url}{tools}#m", *options)
        run("export", "last", "--out", tmp_path / "a.capsule")
        run("replay", tmp_path / "a.capsule", "--model", f"{url}{tools}#m")
    wanted = {} if given is None else {"temperature": float(given)}
    assert len(taken) >= 6 and refused == []
    assert all({key: body[key] for key in ("temperature", "top_p") if key in body} == wanted for body in taken)


def test_an_answer_is_kept_though_nobody_reads_it(notes: Path, tmp_path: Path) -> None:
    with openai_server(researcher) as (url, _, _):
        words = "ask", FIRST, "--docs", notes, "--model", f"{url}#m", "--out", tmp_path / "a.jsonl"
        command = [sys.executable, "-m", "sanderling", *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as asked:
            assert asked.stdout is not None
            asked.stdout.close()
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1
    assert ANSWER in (told := run("show", "last").stdout) and "not ended" not in told


def test_without_an_answer_what_was_found_is_the_result_and_why_is_not(notes: Path) -> None:
    with openai_server(lambda messages: researcher(messages) if len(messages) < 4 else {"content": ""}) as (url, _, _):
        done = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
    assert done.exit_code == 1 and done.stdout.startswith("No answer.\n\nFound so far:\n")
    assert "could not be read" in done.stderr and "could not be read" not in done.stdout


def test_of_a_report_standard_output_has_where_it_is(notes: Path, tmp_path: Path) -> None:
    with openai_server(writer) as (url, _, _):
        done = run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "a.md")
    assert done.stdout == f"{tmp_path / 'a.md'} is complete.\n" and "Tom Vell in 1851 [1]" in done.stderr


def test_no_name_becomes_a_picture(notes: Path, tmp_path: Path) -> None:
    place = notes.rename(tmp_path / "at 10:100:20")
    with openai_server(researcher) as (url, _, _):
        assert f"{place.name}: reading what is new" in run("ask", FIRST, "--docs", place, "--model", f"{url}#m").stderr
        assert run("export", "last", "--to", "md", "--out", tmp_path / "a:100:.md").stdout == f"{tmp_path}/a:100:.md\n"


def test_what_goes_on_says_so_beside_the_answer(notes: Path) -> None:
    with openai_server(lambda messages: {"status": 503}) as (down, _, _), openai_server(researcher) as (url, _, _):
        assert run("ask", FIRST, "--docs", notes, "--model", f"{down}?retries=0#m").exit_code == 1
        done = run("resume", "--set", f"agent.model={url}#m")
    assert done.stdout.startswith(ANSWER) and FIRST in done.stderr.splitlines()[0]


def test_the_sources_of_documents_are_files_to_click_on(notes: Path, tmp_path: Path) -> None:
    """In what a person reads; a capsule, which is for anybody, has no place of this machine."""
    odd = notes / "the [old] <town> 100%.html"
    odd.write_text("<title>Old</title><p>Ada Vell founded Kent in 1803, says the plate on the town hall of Kent.</p>")
    (page,) = (one.url for one in FolderSource(notes).items() if isinstance(one, Page) and "old" in one.url)

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if len(messages) < 3:
            return {"tool_calls": [call("visit", {"url": [page, KENT]})]}
        return {
            "content": "<answer>The plate says that Ada Vell founded Kent in 1803 [1]. It lies on the river Quoll [2].</answer>"
        }

    with openai_server(said) as (url, _, _):
        told = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m").stdout
    link = f"{odd.as_uri()}#:~:text=Ada%20Vell%20founded%20Kent%20in%201803%2C%20says%20the"
    assert f"\n    {odd}\n" in told and f"\n    {notes / 'kent.md'}\n" in told and "local://" not in told
    for to, linked in (("md", f"[Old](<{link}>)"), ("html", f'<a href="{link}" rel="noreferrer">Old</a>')):
        run("export", "last", "--to", to, "--out", tmp_path / f"a.{to}")
        text = (tmp_path / f"a.{to}").read_text()
        assert linked in text and f"{(notes / 'kent.md').as_uri()}" in text and f"{notes / 'kent.md'}" in text
    for to in ("capsule", "jsonl"):
        run("export", "last", "--to", to, "--out", tmp_path / f"a.{to}")
    with ZipFile(tmp_path / "a.capsule") as capsule:
        kept = [capsule.read(name) for name in capsule.namelist()]
    assert all(str(tmp_path).encode() not in one for one in [*kept, (tmp_path / "a.jsonl").read_bytes()])
    (notes / "kent.md").rename(notes / "gone.md")
    assert f"\n    {odd}\n" in (told := run("show", "last").stdout) and f"\n    {KENT}\n" in told  # no file to lead to


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name, word in (("ada", "heron"), ("tom", "plover")):
        (tmp_path / name / "notes").mkdir(parents=True)
        (tmp_path / name / "notes" / "birds.md").write_text(f"# Birds\n\nThe bird on the door of {name} is a {word}.\n")
    folders = [word for name in ("ada", "tom") for word in ("--docs", tmp_path / name / "notes")]

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if len(messages) < 3:
            return {"tool_calls": [call("search", {"query": ["bird on the door"]})]}
        if len(messages) < 5:
            return {"tool_calls": [call("visit", {"url": re.findall(r"local://\S+", messages[-1]["content"])[:1]})]}
        return {"content": "<answer>The bird on the door is a plover [1].</answer>"}

    with openai_server(said) as (url, taken, _):
        words = "ask", "Which bird?", *folders, "--model", f"{url}#m", "--set"
        told = run(*words, "agent.only=tom/notes").stdout
        assert f"\n    {tmp_path / 'tom' / 'notes' / 'birds.md'}\n" in told and "ada" not in str(taken[1]["messages"])
        run(*words, "agent.prefer=ada/notes")
        assert "local://ada" in str(taken[-1]["messages"]) and "local://tom" not in str(taken[-1]["messages"])
        run(*words, "agent.only=notes")
        assert "local://ada" in str(taken[-1]["messages"]) and "local://tom" in str(taken[-1]["messages"])
        with pytest.raises(UserError, match="choose of ada/notes, docs, notes, tom/notes"):
            run(*words, "agent.only=eve/notes")


def test_files_of_a_kind_that_can_be_read_by_now_are_read(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (notes / "old.quill").write_text("The plover is on the door.")
    with openai_server(researcher) as (url, _, _):
        words = "ask", FIRST, "--docs", notes, "--model", f"{url}#m"
        assert "1 other kind" in run(*words).stderr
        monkeypatch.setitem(ENDINGS, ".quill", Kind.TEXT)
        told = run(*words).stderr
    assert "reading what is new" in told and "other kind" not in told
