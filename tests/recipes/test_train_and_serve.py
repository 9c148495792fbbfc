"""Training and serving show an agent the same bytes: one profile, read by the recipe's rollouts and by ``sanderling ask``."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from sanderling.agent.agent import Agent
from sanderling.cli.ask import research
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.policy.contract import ScriptedPolicy
from sanderling.recipes.tiny import TinyConfig, TinyRun
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world

WORDS = " ".join(f"word{number}" for number in range(100))
PAGES = [Page(url=f"https://w.example/{name}", title=name, text=f"# {name}\n{name} flows {WORDS}") for name in ("Kent", "Eden")]
TURNS = (
    '<think>\nx</think><tool_call>{"name": "search", "arguments": {"query": ["Kent", "flows"]}}</tool_call>',
    '<think>\nx</think><tool_call>{"name": "visit", "arguments": {"url": "w.example/Eden", "goal": "word9"}}</tool_call>',
    "<think>\nx</think><answer>Eden</answer>",
)
ASKED = "Which river?"


def observed(trajectory: Trajectory) -> list[bytes]:
    assert trajectory.answer == "Eden"
    return [node.text.encode() for node in trajectory.branch() if node.kind is NodeKind.OBSERVATION]


@pytest.mark.parametrize("profile", ["tiny", "literesearcher-4b"])
async def test_ask_and_the_recipe_show_the_same_bytes(tmp_path: Path, profile: str) -> None:
    run = TinyRun(tmp_path, TinyConfig(profile=profile))
    build_world(run.world_directory(run.held_out[0]), PAGES, name="rivers", source="test")
    opened = open_world(run.world_directory(run.held_out[0]))
    agent = Agent(in_order(), world_tools(opened, get_profile(profile)), get_profile(profile))
    served = await research(ASKED, agent, console=Console(file=io.StringIO()))
    trained = await run.agent(in_order(), run.held_out[0]).run(Question(id="q", text=ASKED))
    assert observed(served) == observed(trained)
    assert len(observed(served)) == 2
    shown = observed(served)[0].count(b"word")
    longest = get_profile(profile).snippet_words
    least = min(longest - 5, 20)  # of words as long as these, no more than 22 are as wide as a snippet may be
    assert 3 * least < shown <= 3 * longest  # Kent for the first query, both rivers for the second


def in_order() -> ScriptedPolicy:
    return ScriptedPolicy(lambda messages, key: TURNS[key.turn], "list")


async def test_the_recipe_hides_near_duplicates_of_what_a_question_masks(tmp_path: Path) -> None:
    run = TinyRun(tmp_path, TinyConfig())
    build_world(run.world_directory(run.held_out[0]), PAGES, name="rivers", source="test")
    question = Question(id="q", text=ASKED, masked_urls=("https://w.example/Kent",))
    masked = await run.agent(in_order(), run.held_out[0]).run(question)
    assert not any(b"flows" in text for text in observed(masked))
