"""An episode that lives through weight updates goes on after a kill: each turn keeps the versions it was said under."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from journal_fakes import PLAIN, Killed, Life, Speaker, live

from sanderling.agent.journal import Journal, JournalWarning
from sanderling.core.record import Trajectory

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from loop_fakes import CLOCK_DAY, FakeTool, TokenPolicy, TokenSession, answer, call, fake_profile
from sanderling.agent.journal import Journal
from sanderling.agent.agent import Agent
from sanderling.core.types import FixedClock
from sanderling.core.record import Question, Seeds

directory, version, kill = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

class Session(TokenSession):
    async def generate(self, delta, sampling, key, on_text=None):
        turn = f"turn {key.turn}"
        if turn == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        with (directory / "said").open("a") as file:
            file.write(f"{turn} of {self.policy.version}\\n")
        self.policy.turns = [answer(str(len(self.ids))) if key.turn == 3 else call(f"{key.turn}")]
        done = await super().generate(delta, sampling, key, on_text)
        self.policy.version += 1  # an update after each turn
        return done

class Policy(TokenPolicy):
    def open(self, key):
        return Session(self)

policy = Policy([])
policy.version = version

async def main():
    with Journal(directory / "journal", across_versions=True) as journal:
        tools = {"search": FakeTool("search", lambda a, c: f"{a}")}
        agent = Agent(policy, tools, fake_profile(), FixedClock(CLOCK_DAY))
        done = await agent.run(Question(id="q", text="?"), id="e", journal=journal)
        (directory / "record").write_text(done.model_dump_json())
        journal.stored(done)

asyncio.run(main())
"""


def test_kill_9_amid_an_episode_that_spans_updates(tmp_path: Path) -> None:
    """Versions 0 and 1, killed in the third turn; goes on under version 7 and is killed again; ends under version 9."""
    outcomes = []
    for version, kill in ((0, "turn 2"), (7, "turn 3"), (9, "none")):
        command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path), str(version), kill]
        outcomes.append(subprocess.run(command, timeout=120, check=False).returncode)
    assert outcomes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert (tmp_path / "said").read_text() == "turn 0 of 0\nturn 1 of 1\nturn 2 of 7\nturn 3 of 9\n"
    done = Trajectory.model_validate_json((tmp_path / "record").read_text())
    assert [set(turn.versions or ()) for turn in done.turns()] == [{0}, {1}, {7}, {9}]
    assert not (tmp_path / "journal").exists()


async def half(directory: Path, *, across: bool) -> None:
    with Journal(directory, across_versions=across) as journal, pytest.raises(Killed):
        await live(Speaker(PLAIN, Life(15)), journal)


@pytest.mark.parametrize("across", [False, True])
async def test_by_default_another_version_is_another_policy(tmp_path: Path, across: bool) -> None:
    await half(tmp_path / "j", across=across)
    speaker = Speaker(PLAIN, Life())
    speaker.version = 4
    with Journal(tmp_path / "j", across_versions=across) as journal:
        if across:
            done = await live(speaker, journal)
        else:
            with pytest.warns(JournalWarning, match="left out"):
                done = await live(speaker, journal)
    assert (speaker.life.said[0] == (0, 0)) is not across
    assert repr(done) == repr(await live(Speaker(PLAIN, Life())))


async def test_the_two_kinds_are_not_mixed(tmp_path: Path) -> None:
    await half(tmp_path / "j", across=False)
    speaker = Speaker(PLAIN, Life())
    with Journal(tmp_path / "j", across_versions=True) as journal, pytest.warns(JournalWarning, match="left out"):
        await live(speaker, journal)
    assert speaker.life.said[0] == (0, 0)
