"""On real input: a recorded DR-Venus trajectory's actions drive the loop over replayed tools, and every observation matches.

Needs the recordings that ``SANDERLING_RECORDED`` points to.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from loop_fakes import CLOCK_DAY, FakeTool, in_order

from sanderling.agent.agent import Agent
from sanderling.core.profiles import DR_VENUS_4B, Budgets, Guards, Profile
from sanderling.core.prompts import default_specs
from sanderling.core.record import NodeKind, Seeds, Trajectory
from sanderling.core.types import Ending, FixedClock
from sanderling.data.importing import import_all
from sanderling.tools.contract import ToolContext
from sanderling.world.recorded import ReplayTable

ROOT = os.environ.get("SANDERLING_RECORDED", "")
FOLDERS = ("dr-venus-rl", "dr-venus-sft")
pytestmark = pytest.mark.skipif(not ROOT, reason="SANDERLING_RECORDED does not name a directory of recorded trajectories")

PATIENT: Profile = DR_VENUS_4B.model_copy(
    update={
        "budgets": Budgets(max_context_tokens=10_000_000),
        "guards": Guards(max_retries=0, max_repeated_calls=1_000),  # a recording is said once, whatever it repeats
    }
)


@pytest.fixture(scope="module")
def recorded() -> list[Trajectory]:
    return [trajectory for folder in FOLDERS for trajectory in import_all(Path(ROOT) / folder).trajectories]


@pytest.fixture(scope="module")
def table(recorded: list[Trajectory]) -> ReplayTable:
    return ReplayTable.from_trajectories(recorded)


def replaying(table: ReplayTable, name: str, id: str) -> FakeTool:
    """A tool that returns what was recorded."""

    def reply(arguments: dict[str, Any], context: ToolContext) -> str:
        text = table.lookup(name, arguments, id, occurrence=context.occurrence, ordinal=context.ordinal)
        assert text is not None, (id, name, arguments)
        return text

    return FakeTool(name, reply)


async def test_every_observation_is_the_recorded_one(recorded: list[Trajectory], table: ReplayTable) -> None:
    assert recorded
    for source in recorded:
        tools = {spec.name: replaying(table, spec.name, source.id) for spec in default_specs(PATIENT)}
        replayed = await Agent(in_order([turn.text for turn in source.turns()]), tools, PATIENT, FixedClock(CLOCK_DAY)).run(
            source.question, Seeds(), id=source.id
        )
        assert (replayed.ending, replayed.answer) == (Ending.ANSWERED, source.answer), source.id
        expected = [node.text for node in source.branch() if node.kind is not NodeKind.SYSTEM]
        found = [node.text for node in replayed.branch() if node.kind is not NodeKind.SYSTEM]
        assert found == expected, source.id
        assert all(node.kind is not NodeKind.HINT for node in replayed.nodes)
