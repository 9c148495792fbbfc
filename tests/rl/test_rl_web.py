"""RL over the live web, as DR-Venus trains: rollouts search and read through services, here our own server of a world."""

from pathlib import Path

import pytest
from loopback import world_served
from rl_led import Way, asked, led, write_led
from rl_runs import silent

from sanderling.core.config import load_config
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind
from sanderling.core.types import ToolStatus
from sanderling.rl.config import RlRecipe
from sanderling.rl.launch import Order, run_rl_command
from sanderling.runs.run import reading, records
from sanderling.train.metrics import read_metrics
from sanderling.world.web.live import LIVE_WEB

pytestmark = pytest.mark.slow
SETTINGS = """
title = "web"
profile = "dr-venus-4b"
web = true

[live]
age_h = 0

[rollout]
context_tokens = 6000
answer_reserve_tokens = 500
max_turns = 4

[rl]
steps = 1
questions_per_step = 1
group_size = 2
selection = { every = 0 }
estimator = { kind = "grpo" }
trainer = { micro_batch_tokens = 8192 }
pipeline = { placement = "served" }
"""


def test_rollouts_go_over_the_live_web(tmp_path: Path) -> None:
    questions = write_led(tmp_path, 1)
    ways = [Way(("search", "visit", "right")), Way(("search", "wrong"))]
    given = {"profile": get_profile("dr-venus-4b"), "ways": ways, "questions": questions}
    with (
        world_served(tmp_path / "world") as url,
        led(tmp_path, **given, choose=lambda one, attempt, taken: attempt % 2) as (at, _),
    ):
        sets = {"live.urls.serper": url, "live.urls.jina": url, "sampler.endpoint": at, "sampler.served": "m"}
        sets |= {"model": str(tmp_path / "base"), "questions": [str(asked(tmp_path, "q.jsonl", questions))]}
        sets |= {"live.prices.serper": "0.25"}
        recipe = load_config(RlRecipe, SETTINGS, "a recipe", (), sets)
        run_rl_command(Order(recipe, tmp_path / "out", 1), silent())
    made = list(records(tmp_path / "out"))
    assert [one.world for one in made] == [LIVE_WEB] * 2
    (right,) = (one for one in made if one.answer == questions[0].answers[0])
    events = [event for node in right.nodes if node.kind is not NodeKind.TURN for event in node.events]
    assert [event.status for event in events] == [ToolStatus.OK] * 2, "it searched and read"
    with reading(tmp_path / "out") as tables:
        assert [value for _, value in tables("spent")[0].items()] == [[0, 0.25]] * 2, "the run paid for its searches"
    assert len(read_metrics(tmp_path / "out" / "metrics.jsonl")) == 1
