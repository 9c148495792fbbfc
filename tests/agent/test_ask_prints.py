"""What ``sanderling ask`` prints, and where: the answer on standard output, and all else on standard error."""

from pathlib import Path

import pytest
from openai_server import openai_server
from test_reports import ASKED, writer
from test_sessions import FIRST, researcher
from typer.testing import CliRunner, Result

from sanderling.cli.main import build_app

ANSWER = "Ada Vell founded Kent in 1803 [1]. It has nine mills. (not found in what was read)\n\n[1] Kent\n    local://notes/kent.md\n"


def run(*words: object) -> Result:
    told = list(map(str, words))
    return CliRunner().invoke(build_app(told[0]), told, env={"COLUMNS": "60"}, catch_exceptions=False)


def test_the_answer_with_its_sources_is_all_of_standard_output(notes: Path, tmp_path: Path) -> None:
    with openai_server(researcher) as (url, _, _):
        asked = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
        run("export", "last", "--out", tmp_path / "a.capsule")
        replayed = run("replay", tmp_path / "a.capsule", "--model", f"{url}#m")
    for done in (asked, replayed):
        assert done.stdout.startswith(ANSWER) and "“Kent was founded by Ada Vell in 1803" in done.stdout
        assert done.stdout.splitlines()[-1].startswith("Of 2 sentences that can be checked: 1 supported")
        for told in ("turn 1", "→ search", "answered · 3 turns"):
            assert told in done.stderr and told not in done.stdout
    assert "reading what is new" in asked.stderr and "Kept as session" in asked.stderr
    assert "every byte is as it was made" in replayed.stderr and "is in the capsule" in replayed.stderr
    shown = run("show", "last")  # which says how it came about, too, since that is what is asked for
    assert ANSWER in shown.stdout and "answered · 3 turns" in shown.stdout and shown.stderr == ""


@pytest.mark.parametrize("given", [None, "0", "0.4", "1.0"])
def test_a_temperature_that_is_set_is_sent_and_else_the_server_decides(notes: Path, tmp_path: Path, given: str | None) -> None:
    with openai_server(researcher) as (url, taken, refused):
        options = [] if given is None else ["--set", f"agent.temperature={given}"]
        run("ask", FIRST, "--docs", notes, "--model", f"{url}#m", *options)
        run("export", "last", "--out", tmp_path / "a.capsule")
        run("replay", tmp_path / "a.capsule", "--model", f"{url}#m")
    wanted = {} if given is None else {"temperature": float(given)}
    assert len(taken) == 6 and refused == []
    assert all({key: body[key] for key in ("temperature", "top_p") if key in body} == wanted for body in taken)


def test_without_an_answer_what_was_found_is_the_result_and_why_is_not(notes: Path) -> None:
    with openai_server(lambda messages: researcher(messages) if len(messages) < 4 else {"content": ""}) as (url, _, _):
        done = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m")
    assert done.exit_code == 1 and done.stdout.startswith("No answer.\n\nFound so far:\n")
    assert "could not be read" in done.stderr and "could not be read" not in done.stdout


def test_of_a_report_standard_output_has_where_it_is(notes: Path, tmp_path: Path) -> None:
    with openai_server(writer) as (url, _, _):
        done = run("ask", ASKED, "--docs", notes, "--model", f"{url}#m", "--report", tmp_path / "a.md")
    assert done.stdout == f"{tmp_path / 'a.md'} is complete.\n" and "Tom Vell in 1851 [1]" in done.stderr


def test_what_goes_on_says_so_beside_the_answer(notes: Path) -> None:
    with openai_server(lambda messages: {"status": 503}) as (down, _, _), openai_server(researcher) as (url, _, _):
        assert run("ask", FIRST, "--docs", notes, "--model", f"{down}?retries=0#m").exit_code == 1
        done = run("resume", "--set", f"agent.model={url}#m")
    assert done.stdout.startswith(ANSWER) and FIRST in done.stderr.splitlines()[0]
