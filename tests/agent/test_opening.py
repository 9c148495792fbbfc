"""The settings from which every stage opens its agent: what goes together, several worlds, a tool and a model of one's own."""

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from loop_fakes import call, fake_profile, in_order
from rich.console import Console
from typer.testing import CliRunner

from sanderling.agent.agent import Agent
from sanderling.agent.journal import JournalWarning
from sanderling.agent.loop import TextDelta
from sanderling.agent.opening import (
    AgentConfig,
    AskConfig,
    check_agent,
    journal_identity,
    opened_agent,
    price_of,
    profile_of,
    stop_on_interrupt,
)
from sanderling.agent.places import PlaceConfig, ReaderConfig, opened_places, opened_reader
from sanderling.cli.ask import as_question, ask, print_answer, research
from sanderling.cli.main import build_app
from sanderling.cli.showing import Watcher
from sanderling.core.config import check_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import TINY
from sanderling.core.record import NodeKind, Question
from sanderling.core.types import Ending, Message, ToolStatus
from sanderling.policy.budget import BudgetConfig, Prices, Spending
from sanderling.policy.contract import Completion, PolicyOutageError, SampleKey, ScriptedPolicy, ScriptedSession
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.local import LocalWorld

MINE = """
from dataclasses import replace

from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.world.contract import SearchReply
from sanderling.world.filters import Filter, with_hits
from sanderling.tools.contract import ToolResult

class Tides:
    spec = ToolSpec(name="tides", description="When the sand is dry.", parameters={"type": "object", "properties": {}})

    async def __call__(self, arguments, context):
        return ToolResult(text="at noon")

class Shouting:
    async def read_visits(self, visit, replies, goal, max_words, seconds):
        whole = [await visit(url, 10_000) for url, _ in replies]
        return [replace(page, text=f"{goal}: {page.text.upper()}") for page in whole]

def nothing(world):
    return None

class OneByOne(Filter):
    async def search(self, query, **how):
        reply = await super().search(query, **how)
        return with_hits(reply, [hit for hit in reply.hits if "Kent" not in hit.title], lambda url: False)

class Twice(OneByOne):
    async def search_many(self, queries, **how):
        return await super().search_many(queries, **how)

class Mute(Filter):
    def __init__(self, world):
        super().__init__(world, world.fingerprint + " mute")

    async def search_many(self, queries, **how):
        return tuple([SearchReply(query, (), ToolStatus.EMPTY) for query in queries])

def model(messages, key):
    if key.turn == 0:
        return '<think>So.</think><tool_call>{"name": "tides", "arguments": {}}</tool_call>'
    if key.turn == 1:
        return '<think>Look.</think><tool_call>{"name": "search", "arguments": {"query": ["river"]}}</tool_call>'
    return "<think>Done.</think><answer>" + messages[-1].content.split("river ")[1].split()[0] + "</answer>"
"""


@pytest.fixture
def worlds(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, river in (("north", "Kent"), ("south", "Eden")):
        page = Page(url=f"https://w.example/{river}", title=river, text=f"# {river}\nThe river {river} is long.")
        build_world(tmp_path / name, [page], name=name, source="x")
        found[name] = tmp_path / name
    (tmp_path / "mine.py").write_text(MINE)
    return found


async def test_each_question_is_asked_in_its_world_by_a_model_with_a_tool_of_ones_own(worlds: dict[str, Path]) -> None:
    mine = worlds["north"].parent / "mine.py"
    config = AgentConfig(model=f"{mine}:model", worlds=tuple(worlds.values()), tools=(f"{mine}:Tides",), profile="dr-venus-4b")
    questions = [Question(id=name, text="Which?", meta={"world": name}) for name in worlds]
    async with opened_agent(config, questions) as agent:
        done = [await agent.run(question) for question in questions]
        assert agent.as_json()["worlds"].keys() == worlds.keys()
        identity = journal_identity(config, agent)
        assert str(mine) in identity and agent.places["south"].fingerprint in identity
    assert [(one.ending, one.world, one.answer) for one in done] == [
        (Ending.ANSWERED, "north", "Kent"),
        (Ending.ANSWERED, "south", "Eden"),
    ]
    system, observed = done[0].nodes[0], [node.text for node in done[0].nodes if node.kind is NodeKind.OBSERVATION]
    assert "When the sand is dry." in system.text and "at noon" in observed[0]
    build_world(mine.parent / "again", PAGES, name="south", source="x")
    for changed, asked, said in (
        ({}, [Question(id="q", text="Which?")], "'q' names no world: give one with --world"),
        ({"prefer": "south"}, questions, "only and prefer choose among several places that every question has"),
        ({"worlds": (*config.worlds, mine.parent / "again")}, questions, "are both worlds named 'south': leave one out"),
    ):
        with pytest.raises(UserError, match=said):
            async with opened_agent(config.model_copy(update=changed), asked):
                pass


async def test_a_filter_of_ones_own_hides_pages(worlds: dict[str, Path]) -> None:
    mine = worlds["north"].parent / "mine.py"
    place = PlaceConfig(worlds=(worlds["north"],), filters=(f"{mine}:Mute",), faults="calm")
    found = []
    for config in (place, place.model_copy(update={"filters": ()})):
        async with opened_places(config, TINY) as places:
            reply = await places[""].tools["search"]({"query": ["river"]}, ToolContext())
            found.append((reply.status, places[""].fingerprint))
    assert [status for status, _ in found] == [ToolStatus.EMPTY, ToolStatus.OK] and found[0][1] != found[1][1]
    for name in ("OneByOne", "Twice"):
        async with opened_places(place.model_copy(update={"filters": (f"{mine}:{name}",)}), TINY) as places:
            reply = await places[""].tools["search"]({"query": ["river", "Kent"]}, ToolContext())
        assert reply.status is ToolStatus.EMPTY
    assert places[""].fingerprint not in {fingerprint for _, fingerprint in found}
    with pytest.raises(UserError, match=r"mine.py:nothing is no filter: give a function"):
        async with opened_places(place.model_copy(update={"filters": (f"{mine}:nothing",)}), TINY):
            pass


async def test_a_page_reader_of_ones_own_reads_visited_pages(worlds: dict[str, Path]) -> None:
    mine = worlds["north"].parent / "mine.py"
    config = AgentConfig(model=f"{mine}:model", worlds=(worlds["north"],), reader=ReaderConfig(model=f"{mine}:Shouting"))
    async with opened_agent(config) as agent:
        seen = await agent.tools["visit"]({"url": ["https://w.example/Kent"], "goal": "how long"}, ToolContext())
        assert "how long: # KENT" in seen.text and "mine.py:Shouting" in journal_identity(config, agent)
        assert "mine.py:Shouting" in str(agent.as_json()["reader"])
    with pytest.raises(UserError, match=r"mine.py:Tides is no page reader: let it be of the type Reader in"):
        async with opened_reader(ReaderConfig(model=f"{mine}:Tides")):
            pass


async def test_one_world_is_everybodys_and_its_account_is_kept(worlds: dict[str, Path]) -> None:
    mine = worlds["north"].parent / "mine.py"
    config = AgentConfig(model=f"{mine}:model", worlds=(worlds["north"],), tools=(f"{mine}:Tides",), price="1,2")
    spending = Spending(worlds["north"].parent / "run", BudgetConfig(max_tokens=10_000_000))
    question = Question(id="q", text="Which?", meta={"world": "south"})
    with pytest.warns(UserWarning, match=r"made for another world \(south\) are asked in .*north"):
        async with opened_agent(config, [question], spending=spending) as agent:
            assert (await agent.run(question)).answer == "Kent"
    assert spending.ledger.here.calls == 3 and spending.ledger.here.cost > 0 and "3 calls" in str(spending)


async def test_the_scripted_teacher_is_a_model(worlds: dict[str, Path]) -> None:
    async with opened_agent(AgentConfig(model="teacher:40/7", worlds=(worlds["north"],))) as agent:
        assert agent.policy.name == "scripted-teacher" and agent.place == "teacher:40/7"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"web": True, "faults": "flaky"}, "are a world's: leave them out without --world"),
        ({"worlds": ["w"], "live": {"allowed_hosts": ["docs.test"]}}, "live is the live web's: give --web with it"),
        ({"price": "free"}, "is no price"),
        ({"reader": {"model": "some/where"}}, "there is no page reader 'some/where': write http"),
        ({"device": "tpu"}, "device: string should match pattern"),
        ({"max_turns": 0}, "greater than or equal to 1"),
    ],
)
def test_what_does_not_go_together_is_told(values: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_config(AgentConfig, {"model": "m", **values}, "the command")
    with pytest.raises(UserError, match="'twenty' is no amount to spend: write"):
        check_config(AskConfig, {"spend": "twenty"}, "the command")


async def test_a_model_and_a_place_are_needed_and_an_endpoint_has_the_general_profile() -> None:
    with pytest.raises(UserError, match="There is no model to ask: give --model"):
        async with opened_agent(AgentConfig(worlds=(Path("w"),))):
            pass
    with pytest.raises(UserError, match="Name a place to search"):
        async with opened_agent(AgentConfig(model="m")):
            pass
    with pytest.raises(UserError, match="Name a place to search"):
        async with opened_places(PlaceConfig(), TINY):
            pass
    assert profile_of(AgentConfig(model="http://h/v1#m")).name == "general"
    with pytest.raises(UserError, match=r"A context of 100 tokens leaves no room: general keeps \d+ for an answer"):
        profile_of(AgentConfig(model="http://h/v1#m", max_context=100))


def test_opening_an_agent_loads_no_torch() -> None:
    code = (
        "import sys, sanderling.agent.opening, sanderling.judge.opening; print('torch' in sys.modules, 'httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")


def test_a_wrong_model_profile_and_world_are_told_at_once(tmp_path: Path) -> None:
    config = AgentConfig(model=str(tmp_path / "no model"), profile="tinny", worlds=(tmp_path / "no world",))
    with pytest.raises(UserError) as caught:
        check_agent(config)
    first, *others = str(caught.value).splitlines()
    assert first == "3 things are wrong:" and len(others) == 3
    assert "no model" in others[0] and "did you mean 'tiny'" in others[1] and "no world" in others[2]
    (tmp_path / "a.md").touch()
    for place, said in (("a.md", r"documents, not one of them\.$"), ("none", r"documents\.$")):
        with pytest.raises(UserError, match=f"There is no folder .*{place}': give --docs the folder that holds your {said}"):
            check_agent(AgentConfig(model="http://h/v1#m", docs=(tmp_path / place,)))
    with pytest.raises(UserError, match="Name a place to search"):
        check_agent(AgentConfig(model="http://h/v1#m"))


# -- ``sanderling ask``: what is printed, what is stored, and what Ctrl-C leaves behind ------------------------------------

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


async def test_nothing_from_outside_controls_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\\u001b[2J\\u0007"
    search = f'<think>\x1b[31mred</think><tool_call>{{"name": "x{evil}", "arguments": {{"{evil}": "{evil}"}}}}</tool_call>'
    turns = search, "<think>x</think><answer>\x1b]0;title\x07 Kent</answer>"
    print_answer(done := await research(as_question("Which river?"), over_rivers(in_order(turns))))
    text = "".join(capsys.readouterr())
    assert "\x1b" in next(done.turns()).calls[0].name and done.answer == "\x1b]0;title\x07 Kent"  # on record as it was
    assert "\x1b" not in text and "\x07" not in text and "Kent" in text


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
async def test_ctrl_c_asks_for_the_answer_and_then_ends_with_a_record() -> None:
    def answers(messages: Sequence[Message], key: SampleKey) -> str:
        if key.turn == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return "<think>x</think><answer>Kent</answer>" if key.turn == 2 else "<think>" + call(f"river {key.turn}")

    asked = await research(as_question("Which?"), over_rivers(ScriptedPolicy(answers)))
    assert asked.ending is Ending.ANSWERED_AT_BUDGET and asked.answer == "Kent"

    class Slow(ScriptedSession):
        async def _speak(self, *asked: Any) -> Completion:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05 if not self._branch else 60)
            return await super()._speak(*asked)

    class SlowPolicy(ScriptedPolicy):
        def open(self, key: SampleKey) -> Slow:
            return Slow(self)

    policy = SlowPolicy(lambda messages, key: "<think>" + call("river"))
    done = await research(as_question("Which?"), over_rivers(policy))
    assert done.ending is Ending.CANCELLED and 1 <= len(list(done.turns())) <= 3
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
        said = capsys.readouterr()
        return said.err + said.out

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


def test_what_a_model_costs_stands_in_the_users_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config = AgentConfig(model="http://127.0.0.1:1/v1#qwen3-4b")
    assert price_of(config) is None
    table = tmp_path / "sanderling" / "prices.toml"
    table.parent.mkdir()
    table.write_text('"qwen3-4b" = "0.15,0.60"\n"other" = "cheap"\n')
    assert price_of(config) == Prices(0.15, 0.60)
    assert price_of(config.model_copy(update={"price": "1,2"})) == Prices(1, 2)  # what is given counts before it
    assert price_of(AgentConfig(model="http://127.0.0.1:1/v1#third")) is None
    with pytest.raises(UserError, match="'cheap' is no price"):
        price_of(AgentConfig(model="http://127.0.0.1:1/v1#other"))
    table.write_text("qwen3-4b: 0.15")
    with pytest.raises(UserError, match=r"prices\.toml is not TOML"):
        price_of(config)


def test_device_and_precision_are_of_a_model_that_is_here(tmp_path: Path) -> None:
    for options in (
        ["--device", "cuda", "--model", "http://127.0.0.1:1/v1#m"],
        ["--dtype", "float8", "--model", str(tmp_path)],
    ):
        shown = CliRunner().invoke(build_app("ask"), ["ask", "Which?", "--world", str(tmp_path), *options])
        assert isinstance(shown.exception, UserError)
        assert "leave them out for a server" in str(shown.exception) or "dtype" in str(shown.exception)


async def test_research_on_a_past_day(tmp_path: Path) -> None:
    """The prompt has the day, and what is dated later is in no list and cannot be read; what has no date stays."""
    dates = {"old": "2019-05-01", "new": "Mar 5, 2024", "same": "4 March 2024", "undated": "", "either": "12/1/2024"}
    later = ("31.12.2024", "12/31/2024", "2024/12/31", "2024年12月31日", "5th of March 2024", "March 5th, 2024")
    dates |= {f"later{place}": date for place, date in enumerate(later)}
    text = "# A river\n\nThe river rises in the hills."
    pages = [Page(url=f"https://w.example/{name}", title=name, text=text, date=date) for name, date in dates.items()]
    build_world(tmp_path / "w", pages, name="rivers", source="test")
    given = {"model": "http://127.0.0.1:1/v1#m", "worlds": [tmp_path / "w"], "as_of": "2024-03-04"}
    config = AgentConfig.model_validate(given)
    read_it = '<tool_call>{"name": "visit", "arguments": {"url": ["https://w.example/new"]}}</tool_call>'
    read_it = f"<think>\nx</think>{read_it}"  # first as a link leads there, before any list
    policy = in_order([read_it, call("river"), "<think>\nx</think><answer>no</answer>"])
    async with opened_agent(config, policy=policy) as agent:
        done = await agent.run(Question(id="q", text="Which?"))
    read, listed = [node for node in done.branch() if node.kind is NodeKind.OBSERVATION]
    assert {url.rpartition("/")[2] for url in listed.events[0].provenance} == {"old", "same", "undated", "either"}
    assert read.events[0].status is ToolStatus.NOT_FOUND and agent.clock.today().isoformat() == "2024-03-04"


async def test_of_several_places_some_alone_or_first(tmp_path: Path) -> None:
    for name in ("north", "south"):
        text = f"# {name}\n\nThe river rises in the {name}."
        build_world(tmp_path / name, [Page(url=f"https://{name}.example/", title=name, text=text)], name=name, source="test")
    given = {"model": "http://127.0.0.1:1/v1#m", "worlds": [tmp_path / "north", tmp_path / "south"]}

    async def found(query: str, **chosen: str) -> list[str]:
        config = AgentConfig.model_validate(given | chosen)
        policy = in_order([call(query), "<think>\nx</think><answer>no</answer>"])
        async with opened_agent(config, policy=policy) as agent:
            done = await agent.run(Question(id="q", text="Which?"))
        return [url for node in done.branch() for event in node.events for url in event.provenance]

    assert await found("river") == ["https://north.example/", "https://south.example/"]
    assert await found("river", prefer="south") == ["https://south.example/"]
    assert await found("north", prefer="south") == ["https://north.example/"]  # where the first find nothing
    assert await found("north", only="south") == []
    with pytest.raises(UserError, match="There is no place 'web' to ask: choose of north, south, worlds"):
        await found("river", only="web")
