"""What a process of a run opens to act with."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from rl_runs import write_given

from sanderling.core.config import load_config
from sanderling.rl.act import opened_acting
from sanderling.rl.config import RlRecipe, stages_of


@dataclass(frozen=True)
class Team:
    size: int
    rank: int = 0


@pytest.mark.parametrize(("most", "processes", "sessions"), [(None, 4, 4 * 4), (6, 4, 2 * 4), (2, 4, 4), (2, 1, 2 * 4)])
def test_a_process_samples_its_share_of_what_is_under_way_together(
    tmp_path: Path, most: int | None, processes: int, sessions: int
):
    bound = "" if most is None else f"pipeline.most_under_way = {most}\n"
    settings = f"profile = 'tiny'\n[rl]\nquestions_per_step = 16\ngroup_size = 4\n{bound}"
    recipe = load_config(RlRecipe, settings, "a.toml", (), {"worlds": (write_given(tmp_path) / "w1",)})

    async def batch() -> int:
        (stage,) = stages_of(recipe)
        async with opened_acting(recipe, stage, [], tmp_path, tmp_path, Team(processes)) as acting:
            return acting.batch

    assert asyncio.run(batch()) == sessions
