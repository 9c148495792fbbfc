"""``sanderling ask``: what is printed, what is stored, and what Ctrl-C leaves behind."""

import asyncio
import io
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from loop_fakes import call, fake_profile, in_order
from rich.console import Console
from typer.testing import CliRunner

from sanderling.agent.agent import Agent
from sanderling.agent.journal import JournalWarning
from sanderling.agent.opening import stop_on_interrupt
from sanderling.cli.ask import ask, research
from sanderling.cli.watch import Reasoning
from sanderling.cli.world import REPLAY_FILE, app
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending, Message
from sanderling.policy.contract import PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.recording import open_recording, read_recording, trajectories_of
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world, open_world
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import ReplayTable, call_key

PAGES = [
    Page(
        url="https://w.example/kent", title="Kent", text="# Kent\nThe river Kent flows through Kendal [bold]not markup[/bold]."
    ),
    Page(url="https://w.example/eden", title="Eden", text="# Eden\nThe river Eden flows through Carlisle."),
]
WORLD = LocalWorld.in_memory(PAGES, name="rivers")


def over_rivers(policy: ScriptedPolicy) -> Agent:
    return Agent(policy, world_tools(WORLD, fake_profile()), fake_profile(), world=WORLD.name, fingerprint=WORLD.fingerprint)


ANSWER = "<think>It is [red]known[/red].</think>\n<answer>The Kent</answer>"


async def shown(turns: Sequence[str]) -> tuple[str, Trajectory]:
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=False)
    done = await research("Which river?", over_rivers(in_order(turns)), console=console)
    return out.getvalue(), done


async def test_nothing_from_outside_controls_the_terminal() -> None:
    evil = "\\u001b[2J\\u0007"
    search = f'<think>\x1b[31mred</think><tool_call>{{"name": "x{evil}", "arguments": {{"{evil}": "{evil}"}}}}</tool_call>'
    text, done = await shown([search, "<think>x</think><answer>\x1b]0;title\x07 Kent</answer>"])
    assert "\x1b" in next(done.turns()).calls[0].name and done.answer == "\x1b]0;title\x07 Kent"  # on record as it was
    assert "\x1b" not in text and "\x07" not in text and "Kent" in text


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
async def test_ctrl_c_ends_with_a_record() -> None:
    def interrupt(messages: Sequence[Message], key: SampleKey) -> str:
        if key.turn == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return "<think>" + call(f"river {key.turn}")

    console = Console(file=io.StringIO())
    done = await research("Which?", over_rivers(ScriptedPolicy(interrupt)), console=console)
    assert done.ending is Ending.CANCELLED and 1 <= len(list(done.turns())) <= 2
    assert asyncio.get_running_loop().remove_signal_handler(signal.SIGINT) is False  # nothing is left behind


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
async def test_ctrl_c_twice_interrupts_after_everything_has_been_closed() -> None:
    closed: list[bool] = []

    async def stubborn() -> None:
        with stop_on_interrupt() as stop:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                await stop.wait()
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()
            finally:
                closed.append(stop.is_set())

    with pytest.raises(KeyboardInterrupt):
        await stubborn()
    assert closed == [True] and asyncio.get_running_loop().remove_signal_handler(signal.SIGINT) is False


async def test_a_cancellation_that_nobody_pressed_stays_one() -> None:
    async def waiting() -> None:
        with stop_on_interrupt():
            await asyncio.Event().wait()

    task = asyncio.create_task(waiting())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_same_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Met by an outage, then interrupted: turns that were said are shown again, and not asked for again by the same weights."""
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    (tmp_path / "model").mkdir()
    said: list[int] = []
    troubles: dict[int, BaseException] = {}

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        if key.turn in troubles:
            raise troubles.pop(key.turn)
        said.append(key.turn)
        return "<think>" + call(f"river {key.turn}") if key.turn < 2 else ANSWER

    def again() -> str:
        ask("Which river?", world=[tmp_path / "world"], model=str(tmp_path / "model"), out=tmp_path / "asked.jsonl")
        return capsys.readouterr().out

    monkeypatch.setattr("sanderling.agent.opening.open_policy", lambda model, **how: ScriptedPolicy(reply))
    for trained_again in (False, True):
        said.clear()
        troubles |= {1: PolicyOutageError("down"), 2: KeyboardInterrupt()}
        with pytest.raises(typer.Exit):
            again()
        with pytest.raises(KeyboardInterrupt):
            again()
        assert said == [0, 1] and capsys.readouterr().out.count("Going on with an earlier run") == 1
        (journal,) = tmp_path.glob("asked.jsonl.ask-*.run")
        if trained_again:
            (tmp_path / "model" / "weights").write_text("others")
            with pytest.warns(JournalWarning):
                again()
        else:
            shown = again()
            assert shown.index("river 0") < shown.index("river 1") < shown.index("The Kent")
        assert said == ([0, 1, 0, 1, 2] if trained_again else [0, 1, 2]) and not journal.exists()
    endings = [done.ending for done in TrajectoryStore(tmp_path / "asked.jsonl")]
    assert endings == [Ending.POLICY_OUTAGE, Ending.ANSWERED] * 2


def chunks(text: str, cut: Callable[[int], int]) -> list[str]:
    found, at = [], 0
    while at < len(text):
        size = cut(at)
        found.append(text[at : at + size])
        at += size
    return found


@given(st.sampled_from(["", "<think>"]), st.text(st.sampled_from("ab</think>\n "), max_size=60), st.integers(1, 9))
def test_reasoning_is_the_same_however_it_is_cut(opening: str, middle: str, size: int) -> None:
    text = opening + middle + "</think>\n<answer>no</answer>"
    whole, cut = Reasoning(), Reasoning()
    expected = whole.feed(text)
    assert "".join(cut.feed(piece) for piece in chunks(text, lambda at: 1 + (at + size) % size)) == expected
    assert "</think>" not in expected and "<answer>" not in expected


# -- ``sanderling ask --record``: the agent's own calls become a world, a replay and a reference from the ------------


def asked(path: Path, question: str, query: str) -> None:
    turns = ["<think>" + call(query, think="Look."), ANSWER]
    log = open_recording(path)
    console = Console(file=io.StringIO())
    asyncio.run(research(question, over_rivers(in_order(turns)), console=console, log=log))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_what_an_agent_did_becomes_a_world_a_replay_and_a_reference(tmp_path):
    log = tmp_path / "calls.jsonl"
    asked(log, "Which river?", "river Kendal")
    asked(log, "Which town?", "river Carlisle")
    first, second = read_recording(log)
    assert (first.question, first.ordinal, second.question) == ("Which river?", 0, "Which town?")
    world = tmp_path / "w"
    run("build", "recorded", "--from", log, "--out", world)
    assert open_world(world).page("https://w.example/kent") is not None
    table = ReplayTable.load(world / REPLAY_FILE)
    assert call_key("search", first.arguments) in table.call_keys()
    run("fidelity", world, "--against", log, "--out", tmp_path / "report", "--built-in")
    (part,) = json.loads((tmp_path / "report" / "fidelity.json").read_text())["parts"]
    assert (part["trajectories"], part["questions"], part["searches"]) == (2, 2, 2)
    assert {figure["name"]: figure["value"] for figure in part["figures"]}["coverage"] == 1.0


def test_a_recording_of_outages_alone_builds_nothing(tmp_path):
    log = tmp_path / "calls.jsonl"
    asked(log, "Which river?", "river Kendal")
    line = json.loads(log.read_text())
    log.write_text(json.dumps(line | {"outage": "refused", "status": "outage"}) + "\n")
    with pytest.raises(UserError, match="no call that returned"):
        run("build", "recorded", "--from", log, "--out", tmp_path / "w")


def test_an_episode_that_goes_on_records_each_call_once(tmp_path, monkeypatch):
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    (tmp_path / "model").mkdir()
    troubles = {1: PolicyOutageError("down")}

    def reply(messages, key):
        if key.turn in troubles:
            raise troubles.pop(key.turn)
        return "<think>" + call(f"river {key.turn}") if key.turn < 2 else ANSWER

    def again() -> None:
        where = {"world": [tmp_path / "world"], "out": tmp_path / "asked.jsonl", "record": tmp_path / "calls.jsonl"}
        ask("Which river?", model=str(tmp_path / "model"), **where)

    monkeypatch.setattr("sanderling.agent.opening.open_policy", lambda model, **how: ScriptedPolicy(reply))
    with pytest.raises(typer.Exit):
        again()
    again()
    calls = list(read_recording(tmp_path / "calls.jsonl"))
    assert [(call.ordinal, call.arguments) for call in calls] == [(n, {"query": [f"river {n}"]}) for n in (0, 1)]
    (run_of_both,) = trajectories_of(calls)
    assert run_of_both.question.text == "Which river?"


def test_a_place_that_cannot_be_recorded_to_is_told_before_the_work(tmp_path, monkeypatch):
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    opened: list[str] = []
    monkeypatch.setattr("sanderling.agent.opening.open_policy", opened.append)
    for place in (tmp_path, tmp_path / "world" / "manifest.json", Path("/dev/null")):
        with pytest.raises(UserError, match="choose another place"):
            ask("Which river?", world=[tmp_path / "world"], model="m", record=place)
    assert opened == []
