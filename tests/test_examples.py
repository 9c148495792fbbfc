"""Every example runs, is short and uses public names alone; its tool and its model go through a command as well."""

import json
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sanderling
from sanderling import (
    Question,
    ToolContext,
    Trajectory,
    TurnTable,
    UserError,
    ask,
    evaluate_agent,
    open_agent,
    open_estimator,
    open_judge,
    rule_on,
    tool,
)
from sanderling.cli.main import build_app
from sanderling.core.types import ToolStatus
from sanderling.data.questions import write_questions
from sanderling.tools.contract import ToolOutageError

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MODEL = """
def model(messages, key):
    if key.turn == 0:
        return '<think>So.</think><tool_call>{"name": "tides", "arguments": {"place": "Kendal"}}</tool_call>'
    return "<think>Done.</think><answer>Kent</answer>"
"""


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder of notes, a scripted model and questions."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "kent.md").write_text("# Kent\nThe river Kent flows through Kendal.")
    (tmp_path / "notes" / "eden.md").write_text("# Eden\nThe river Eden flows through Carlisle.")
    (tmp_path / "scripted.py").write_text(MODEL)
    write_questions(tmp_path / "q.jsonl", [Question(id=name, text="Which?", answers=(name,)) for name in ("Kent", "Eden")])
    return tmp_path


def ran(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_there_are_ten_examples_none_longer_than_twenty_lines_over_the_public_names() -> None:
    assert len(EXAMPLES) >= 10
    for file in EXAMPLES:
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 20, file
        assert not re.search(r"from sanderling\.|import sanderling\.", text), file


def test_importing_the_package_loads_neither_torch_nor_servers_nor_rooms() -> None:
    code = "import sys, sanderling; print([n for n in sys.modules if n in ('torch', 'httpx', 'starlette', 'pydantic')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert all(getattr(sanderling, name) is not None for name in dir(sanderling))
    with pytest.raises(AttributeError, match="no attribute 'wrold'"):
        sanderling.wrold  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]


def test_a_folder_is_searched_and_asked_about(
    given: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran("world_from_folder", capsys, monkeypatch, given / "notes", "Kendal")
    assert "kent.md" in found.splitlines()[0] and "flows through Kendal" in found
    assert ran("own_model", capsys, monkeypatch, given / "notes").strip()
    model = f"{given / 'scripted.py'}:model"
    told = ran("own_tool", capsys, monkeypatch, model, given / "notes", "Which?")
    assert told == "Kent\n"
    watched = ran("watch_turns", capsys, monkeypatch, model, given / "notes", "Which?")
    assert "TurnStarted\n" in watched and watched.endswith("Ended\nKent\n")
    measured = ran("evaluate", capsys, monkeypatch, model, given / "notes", given / "q.jsonl")
    assert measured.startswith("0.5 ")


async def test_in_a_running_loop_as_in_a_notebook_the_functions_work_as_well(given: Path) -> None:
    agent = open_agent(f"{given / 'scripted.py'}:model", given / "notes", tools=[f"{ROOT / 'examples' / 'own_tool.py'}:tides"])
    assert ask("Which?", agent).answer == "Kent"
    assert evaluate_agent(agent, given / "q.jsonl", lambda answer, accepted: accepted == "Eden").pass_at_k[1].value == 0.5
    with pytest.raises(UserError, match="plain is no tool: put @tool above it"):

        def plain() -> None: ...

        open_agent(f"{given / 'scripted.py'}:model", given / "notes", tools=[plain])  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="3 is no model: give a directory"):
        open_agent(3, given / "notes")  # pyright: ignore[reportArgumentType]


CELL = """
import asyncio, sys
from sanderling import ask, open_agent, tool

@tool
async def tides(place: str) -> str:
    'When the tide is high.'
    print("begun", flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        print("ended", flush=True)

async def cell():
    ask("Which?", open_agent(sys.argv[1] + "/scripted.py:model", sys.argv[1] + "/notes", tools=[tides]))

try:
    asyncio.new_event_loop().run_until_complete(cell())  # asyncio.run would hear the interrupt itself
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_in_a_notebook_ends_the_work_that_its_thread_does(given: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CELL, str(given)], stdout=subprocess.PIPE, text=True) as cell:
        assert cell.stdout is not None and cell.stdout.readline() == "begun\n"
        cell.send_signal(signal.SIGINT)
        assert sorted(cell.communicate(timeout=120)[0].split()) == ["ended", "interrupted"]


def test_an_evaluation_does_not_go_on_with_other_code(given: Path) -> None:
    command("world", "build", "from", given / "notes", "--out", given / "w")
    words = "eval", "run", "jsonl", given / "q.jsonl", "--model", f"{given / 'scripted.py'}:model", "--world", given / "w"
    words = *words, "--judge", "contains", "--out", given / "run", "--profile", "dr-venus-4b"
    assert command(*words).exit_code == 0
    assert command(*words, "--attempts", 2).exit_code == 0
    (given / "scripted.py").write_text(MODEL.replace("Kent", "Eden"))
    with pytest.raises(UserError, match=r"was made with other settings \(code\..*scripted\.py was"):
        command(*words, "--attempts", 3)


@pytest.mark.parametrize(
    ("score", "said"), [("7.5", "gave 7.5"), ("float('nan')", "gave nan"), ("'my own'", "gave str"), ("None", "gave NoneType")]
)
async def test_what_is_no_score_is_neither_right_nor_wrong(tmp_path: Path, score: str, said: str) -> None:
    done = Trajectory(
        id="t", question=Question(id="q", text="?", answers=("Kent",)), nodes=(), leaf=None, ending=None, answer="x"
    )
    (tmp_path / "mine.py").write_text(
        f"def by(answer, accepted):\n    return {score}\ndef one(answer): ...\nasync def later(a, b): ...\n"
    )
    with pytest.raises(UserError, match=rf"by {said}: a score is a number from 0 to 1"):
        await rule_on(done, open_judge(f"{tmp_path / 'mine.py'}:by"))
    with pytest.raises(UserError, match=r"one cannot be called with 2 arguments"):
        open_judge(f"{tmp_path / 'mine.py'}:one")
    with pytest.raises(UserError, match=r"later is async"):
        open_judge(f"{tmp_path / 'mine.py'}:later")


def test_a_judge_is_a_function(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran("own_judge", capsys, monkeypatch) == "lenient True\nexact False\n"
    with pytest.raises(UserError, match="There is no judge 'exactly'"):
        open_judge("exactly")


def command(*words: object) -> Any:
    return CliRunner().invoke(build_app(str(words[0])), [*map(str, words)], catch_exceptions=False, env={"COLUMNS": "200"})


def test_a_tool_and_a_model_of_ones_own_go_through_ask(given: Path) -> None:
    tools = json.dumps([f"{ROOT / 'examples' / 'own_tool.py'}:tides"])
    command("world", "build", "from", given / "notes", "--out", given / "w")
    place = ["--world", given / "w", "--model", f"{given / 'scripted.py'}:model", "--profile", "dr-venus-4b"]
    done = command("ask", "Which?", *place, "--set", f"agent.tools={tools}")
    assert done.exit_code == 0 and "the sand is dry at noon" in done.output and "Kent" in done.output


async def test_a_tool_answers_what_does_not_fit_its_signature() -> None:
    @tool
    async def add(a: int, b: int = 2, *, context: ToolContext) -> str:
        """Add."""
        return f"{a + b} at {context.ordinal}"

    assert add.spec.parameters["required"] == ["a"] and "title" not in json.dumps(add.spec.parameters)
    assert (await add({"a": 1}, ToolContext(ordinal=3))).text == "3 at 3"
    wrong = await add({"a": "x", "c": 1}, ToolContext())
    assert wrong.status is ToolStatus.BAD_ARGUMENTS and "a: " in wrong.text and "c: " in wrong.text
    with pytest.raises(ToolOutageError, match="half raised ZeroDivisionError: division by zero"):

        @tool
        def half(a: int) -> float:
            """Half of nothing."""
            return a / 0

        await half({"a": 1}, ToolContext())

    @tool
    def nothing() -> None:
        """Say nothing."""

    with pytest.raises(ToolOutageError, match="nothing returned nothing: let it return a text"):
        await nothing({}, ToolContext())
    with pytest.raises(ValueError, match="takes any more: name each argument"):

        @tool
        def open_ended(*more: str) -> str:
            """Take what comes."""
            return ""

    with pytest.raises(ValueError, match="needs a docstring"):
        tool(lambda: "")


def test_an_estimator_is_a_function_of_a_table() -> None:
    two, yes, zero = np.arange(2), np.ones(2, dtype=bool), np.zeros(2)
    table = TurnTable(
        trajectory=two, group=0 * two, turn=0 * two, state=0 * two, tokens=1 + two, tool=np.array(["search", "search"]),
        outcome=np.array([1.0, 0.0]), scored=yes, gain=zero, gain_scored=~yes, penalty=zero, trained=yes, capped=~yes,
    )  # fmt: skip
    mine = open_estimator(f"{ROOT / 'examples' / 'own_estimator.py'}:above_average")
    assert mine(table).tolist() == [0.5, -0.5]
    assert open_estimator("leave_one_out")(table).tolist() == [1.0, -1.0]
    with pytest.raises(UserError, match=r"this call has no setting estimator\.gama: did you mean estimator\.gamma"):
        open_estimator("igpo", gama=0.9)


def test_wrong_settings_of_an_agent_are_told(given: Path) -> None:
    with pytest.raises(UserError, match="There is no model at 'nowhere'"):
        open_agent("nowhere", given / "notes")
    with pytest.raises(UserError, match="In this call, max_turns: input should be greater than or equal to 1"):
        open_agent("nowhere", given / "notes", max_turns=0)


@pytest.mark.parametrize("setting", ["faults", "reader", "prompt_injection", "seed", "concurrency"])
def test_an_agent_takes_no_setting_that_it_would_not_heed(given: Path, setting: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{setting}'"):
        open_agent(lambda *_: "", given / "notes", **{setting: None})  # pyright: ignore[reportArgumentType]
