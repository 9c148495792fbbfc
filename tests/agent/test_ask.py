"""``sanderling ask``: what is printed, what is stored, and what Ctrl-C leaves behind."""

import asyncio
import io
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from loop_fakes import call, fake_profile, in_order
from rich.console import Console

from sanderling.agent.agent import Agent
from sanderling.agent.journal import JournalWarning
from sanderling.agent.loop import TextDelta
from sanderling.agent.opening import stop_on_interrupt
from sanderling.cli.ask import Watcher, ask, research
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending, Message
from sanderling.policy.contract import PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.local import LocalWorld

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
def test_ctrl_c_twice_interrupts_after_everything_has_been_closed() -> None:
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
        asyncio.run(stubborn())
    assert closed == [True]


def test_the_same_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Met by an outage, then interrupted: turns that were said are shown again, and not asked for again by the same weights."""
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
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
        assert said == [0, 1]
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


@pytest.mark.parametrize("opening", ["", "<think>"])
@pytest.mark.parametrize("size", [1, 2, 5, 99])
def test_reasoning_is_the_same_however_it_is_cut(opening: str, size: int) -> None:
    text = f"{opening}a < b\n</thin c</think>\n<answer>no</answer>"
    out = io.StringIO()
    watcher = Watcher(Console(file=out, width=200, force_terminal=False))
    for at in range(0, len(text), size):
        watcher(TextDelta(0, text[at : at + size]))
    assert out.getvalue() == "a < b\n</thin c"


# -- ``sanderling ask --record``: the agent's own calls become a world, a replay and a reference from the ------------


def test_a_place_that_cannot_be_recorded_to_is_told_before_the_work(tmp_path, monkeypatch):
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    opened: list[str] = []
    monkeypatch.setattr("sanderling.agent.opening.open_policy", opened.append)
    with pytest.raises(UserError, match="choose another place"):
        ask("Which river?", world=[tmp_path / "world"], model="m", record=tmp_path / "world" / "manifest.json")
    assert opened == []
