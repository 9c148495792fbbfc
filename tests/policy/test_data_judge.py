"""``sanderling data judge`` against a real server that answers, talks nonsense, fails and bills; limits, kills, odd replies."""

import asyncio
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from billing_server import billing

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.cli import UNFINISHED
from sanderling.cli.data import generate as generate_
from sanderling.cli.data import judge
from sanderling.core.profiles import get_profile
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending, FixedClock
from sanderling.data.questions import write_questions
from sanderling.evaluate.attempts import Made, Watch
from sanderling.evaluate.result import Episode
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import verdict_of
from sanderling.policy.budget import Ledger, MeteredPolicy
from sanderling.policy.endpoint import ChatEndpointPolicy, HttpClient
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.synth.generate import generate
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.local import LocalWorld

COMMAND = [sys.executable, "-c", "from sanderling.cli.main import main; main()", "data", "judge"]


def store(path: Path, answers: list[str | None]) -> Path:
    made = TrajectoryStore(path)
    for number, answer in enumerate(answers):
        question = Question(id=f"q{number}", text=f"Number {number}?", answers=("42",))
        ending = Ending.ANSWERED if answer else Ending.TURN_LIMIT
        made.append(Trajectory(id=f"t{number}", question=question, nodes=(), leaf=None, ending=ending, answer=answer))
    return path


def number_in(messages: list[dict[str, str]]) -> int:
    return int(messages[1]["content"].split("Number ")[1].split("?")[0])


def verdicts(out: Path) -> list[bool | None]:
    return [verdict_of(found) for found in TrajectoryStore(out)]


def test_two_forms_of_one_model_are_two_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = store(tmp_path / "in.jsonl", ["a", "b"]), tmp_path / "out.jsonl"
    with billing(lambda messages, _: "B" if "single letter" in messages[0]["content"] else "CORRECT") as server:
        for form, correct in (("word", True), ("simpleqa", False), ("word", True)):
            judge(file, out, [f"{server.url}#m"], form=form, sets=[f"budget.cache={tmp_path / 'cache'}"])
            assert verdicts(out) == [correct, correct]
        assert len(server.asked) == 4


@pytest.mark.parametrize("kills", [(9,), pytest.param((6, 15, 27), marks=pytest.mark.slow)])
def test_killed_amid_judging_no_verdict_is_paid_twice(tmp_path: Path, kills: tuple[int, ...]) -> None:
    """What was answered is in the books, and at most what was under way is asked for again."""
    file, out = store(tmp_path / "in.jsonl", [f"answer {number}" for number in range(40)]), tmp_path / "out.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def say(messages: list[dict[str, str]], _: int) -> str:
        if len(server.asked) >= kill_at:
            struck.wait(60)
        return '{"correct": "no", "confidence": 10}' if number_in(messages) % 3 else '{"correct": "yes"}'

    with billing(say) as server:
        where = ["--out", str(out), "--set", f"budget.cache={tmp_path / 'cache'}", "--set", "concurrency=2", "--form", "hle"]
        command = [*COMMAND, str(file), "--judge", f"{server.url}#m", *where]
        for kill_at in kills:
            struck = threading.Event()
            running = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            while len(server.asked) < kill_at and running.poll() is None:
                time.sleep(0.002)
            running.send_signal(signal.SIGKILL)
            assert running.wait() == -signal.SIGKILL and not out.exists()
            struck.set()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        assert 40 <= len(server.asked) <= 40 + 2 * len(kills)
    assert verdicts(out) == [number % 3 == 0 for number in range(40)]


# -- ``sanderling data generate``: resumable to the turn, within its budget, masked, against a real server on loopback -----

PAGES = [
    Page(url=f"https://w.example/{name}", title=f"River {name}", text=f"The river {name} flows to Oslo.")
    for name in ("kent", "tay")
]
QUESTIONS = [Question(id=f"q{n}", text=f"Where does river number {n} flow?", answers=("Oslo",)) for n in range(6)]
PROFILE = get_profile("tiny")
CALL = '<tool_call>{"name": "search", "arguments": {"query": ["river"]}}</tool_call>'


def after(left: int, stop: asyncio.Event) -> Watch:
    """Stops a run after so many attempts."""
    ended: list[Episode] = []

    def hear(episodes: Sequence[Episode], note: str) -> None:
        ended.extend(episodes)
        if len(ended) >= left:
            stop.set()

    return hear


def turn(messages: list[dict[str, str]], _: int) -> str:
    """Two searches, then an answer; wrong for odd questions."""
    said = sum(message["role"] == "assistant" for message in messages)
    number = int(messages[1]["content"].split("number ")[1].split()[0])
    if said < 2:
        return f"<think>turn {said}</think>{CALL.replace('river', f'river {said}')}"
    return f"<think>done</think><answer>{'Oslo' if number % 2 == 0 else 'Rome'}</answer>"


def agent_at(url: str, ledger: Ledger | None = None, pages: list[Page] | None = None) -> Agent:
    policy = ChatEndpointPolicy(HttpClient(url, retries=1, backoff_s=0.001), "m")
    world = LocalWorld.in_memory(pages or PAGES, name="w")
    clock = FixedClock(datetime.date(2026, 3, 1))
    return Agent(MeteredPolicy(policy, ledger or Ledger()), world_tools(world, PROFILE), PROFILE, clock, "w")


async def run(out: Path, teach: Agent, **options) -> Made:
    with Journal(out.with_suffix(".journal")) as journal:
        settings = {"pauses": (), "judge": rule_judge("exact"), "questions": QUESTIONS, "attempts": 2, **options}
        return await generate(out=out, agent=teach, journal=journal, **settings)


def content(out: Path) -> list[Trajectory]:
    """Without what wall time decides."""
    plain = []
    for found in TrajectoryStore(out):
        nodes = tuple(
            node.model_copy(
                update={"seconds": 0.0, "events": tuple(event.model_copy(update={"latency_s": 0.0}) for event in node.events)}
            )
            for node in found.nodes
        )
        plain.append(found.model_copy(update={"seconds": 0.0, "nodes": nodes}))
    return plain


async def test_a_stop_stores_nothing_half_and_goes_on(tmp_path: Path) -> None:
    out, stop = tmp_path / "t.jsonl", asyncio.Event()
    with billing(turn) as server:
        made = await run(out, agent_at(server.url), cancel=stop, watch=after(5, stop))
        assert made.cancelled and made.stopped and 5 <= len(made.episodes) < 12
        assert all(found.ending is Ending.ANSWERED for found in TrajectoryStore(out))
        await run(out, agent_at(server.url))
        await run(tmp_path / "whole.jsonl", agent_at(server.url))
    assert content(out) == content(tmp_path / "whole.jsonl")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    build_world(tmp_path / "w", PAGES, name="w", source="test")
    write_questions(tmp_path / "questions.jsonl", QUESTIONS)
    code = "from sanderling.cli.main import main; main()"
    where = ["--world", str(tmp_path / "w"), "--profile", "tiny", "--attempts", "2", "--judge", "exact", "--concurrency", "2"]
    return [sys.executable, "-c", code, "data", "generate", str(tmp_path / "questions.jsonl"), *where]


def test_a_spent_budget_has_its_own_exit_status(command: list[str], tmp_path: Path) -> None:
    with billing(turn) as server, pytest.raises(typer.Exit) as left:
        said = {"world": [tmp_path / "w"], "judges": ["exact"], "profile": "tiny", "max_tokens": 10}
        generate_(tmp_path / "questions.jsonl", tmp_path / "t.jsonl", f"{server.url}#m", **said)
    assert left.value.exit_code == UNFINISHED and not server.asked
