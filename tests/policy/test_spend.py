"""What an answer may take, through the command line: it holds, and it ends with an answer or with what was found."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from openai_server import call, openai_server
from test_sessions import EDEN, FIRST, KENT, SECOND, kept, run

from sanderling.core.profiles import PROFILES
from sanderling.core.types import Ending, SystemClock


def tireless(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Calls until it is asked for its answer."""
    if PROFILES["general"].force_hint in messages[-1]["content"]:
        return {"content": "Ada Vell founded Kent in 1803."}
    number = len(messages)
    if number % 4 == 0:
        return {"tool_calls": [call("search", {"query": [f"Kent {number}"]})]}
    return {"tool_calls": [call("visit", {"url": [KENT, EDEN], "goal": f"{number}"})]}


def counting(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": len(json.dumps(message)) // 4}


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have passed, which pass as the model says: a busy machine takes others."""
    seconds = [0.0]
    monkeypatch.setattr(SystemClock, "monotonic", lambda self: seconds[0])
    return seconds


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("spend", ["500tok", "3ktok", "10ktok", "60ktok", "0.01usd", "0.1usd", "0.9s"])
def test_what_may_be_spent_holds_and_ends_with_an_answer(notes: Path, spend: str, counts: bool, passed: list[float]) -> None:
    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        passed[0] += 0.2
        return tireless(messages)

    how = ("--spend", spend, "--set", "agent.price=1,5")
    with openai_server(said, usage=counting if counts else None) as (url, _, refused):
        shown = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m", *how, ends=1 if spend == "500tok" else 0)
    (record,), spent = kept()[1], kept()[0].spent()
    assert refused == []
    if spend == "500tok":  # a turn takes more than that
        assert "Found so far:" in shown and KENT in shown and record.answer is None
        return
    assert "Kent was founded by Ada Vell in 1803" in shown
    assert record.ending is Ending.ANSWERED_AT_BUDGET and "nearly used up" in record.detail
    if counts and spend.endswith("ktok"):  # else it is charged more than was sent
        assert spent.tokens <= int(spend.removesuffix("ktok")) * 1_000
    elif counts and spend.endswith("usd"):
        assert spent.cost <= float(spend.removesuffix("usd"))
    assert record.seconds < 1.1 or not spend.endswith("s")


def test_a_budget_that_the_first_reply_used_up_leaves_what_was_found(notes: Path, tmp_path: Path) -> None:
    def usage(message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        return {"prompt_tokens": 500, "completion_tokens": 90_000 if len(body["messages"]) < 4 else 10}

    with openai_server(tireless, usage=usage) as (url, taken, refused):
        shown = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m", "--spend", "50ktok", ends=1)
        assert len(taken) == 1 and "Found so far:" in shown and "Kent was founded by Ada Vell in 1803" in shown
        for to in ("md", "html"):
            run("export", "last", "--to", to, "--out", tmp_path / f"a.{to}")
            assert "Kent was founded by Ada Vell in 1803" in (tmp_path / f"a.{to}").read_text()
        assert "Ada Vell founded Kent" in run("ask", "--continue", SECOND, "--spend", "50ktok")
    assert refused == [] and [message["role"] for message in taken[1]["messages"]][-3:] == ["assistant", "tool", "user"]


def test_seconds_are_counted_over_all_processes(notes: Path, passed: list[float]) -> None:
    """Two turns before an outage leave time for one more, and the last."""
    down: list[bool] = [True]

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if PROFILES["general"].force_hint not in messages[-1]["content"] and (len(messages) < 6 or not down[0]):
            passed[0] += 1.5 if len(messages) < 6 else 2.2
        return {"content": 7} if down[0] and len(messages) == 6 else tireless(messages)

    with openai_server(said) as (url, taken, _):
        run("ask", FIRST, "--docs", notes, "--model", f"{url}?retries=0#m", "--spend", "6s", ends=1)
        before, down[0] = len(taken), False
        run("resume")
    assert before == 3 and len(taken) <= before + 2 and kept()[1][0].ending is Ending.ANSWERED_AT_BUDGET


def test_what_goes_on_long_after_its_time_is_given_up(notes: Path, passed: list[float]) -> None:
    over = threading.Event()

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if len(messages) > 4:
            passed[0] += 3
            over.wait(60)
        return tireless(messages)

    with openai_server(said) as (url, _, _):
        shown = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m", "--spend", "0.5s", ends=1)
        over.set()
    assert "Its time was long over" in shown and "Found so far:" in shown and kept()[0].questions()[-1].is_open


def test_ctrl_c_once_never_stops(notes: Path) -> None:
    """Not while the answer is asked for anyway."""

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if PROFILES["general"].force_hint in messages[-1]["content"]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        return tireless(messages)

    with openai_server(said, usage=counting) as (url, _, _):
        shown = run("ask", FIRST, "--docs", notes, "--model", f"{url}#m", "--spend", "5ktok")
    assert "Ctrl-C once more stops" in shown and kept()[1][0].ending is Ending.ANSWERED_AT_BUDGET


def test_what_was_read_is_shown_though_the_question_has_no_words(notes: Path) -> None:
    """``And when?`` has none to look for: what was read stands there, once, and nothing that was only listed."""

    def said(messages: list[dict[str, Any]]) -> dict[str, Any]:
        turns = sum(message["role"] == "assistant" for message in messages)
        return {"tool_calls": [call("visit", {"url": [KENT]}, f"v{turns}")]} if turns < 2 else {"content": ""}

    with openai_server(said) as (url, _, _):
        shown = run("ask", "And when?", "--docs", notes, "--model", f"{url}#m", ends=1)
    assert shown.split("Found so far:")[1].count("founded by Ada Vell") == 1 and "listed, not read" not in shown
