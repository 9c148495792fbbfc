"""The RL recipes of the three systems carry the published settings: each typed here once more, from notes on the sources."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sanderling import recipes
from sanderling.core.config import load_config
from sanderling.recipes.find import find_rl_recipe, recipe_names
from sanderling.recipes.tiny import TinyConfig
from sanderling.rl.config import RlRecipe, stages_of

DR_VENUS = {
    "profile": "dr-venus-4b",
    "rollout.temperature": 1.0,
    "rollout.turn_tokens": 8192,
    "rollout.context_tokens": 261_000,
    "rollout.answer_reserve_tokens": 8192,
    "rollout.max_turns": 200,
    "rollout.tool_timeout_s": 150.0,
    "rollout.force_answer": True,
    "rollout.stop": (),
    "rl.steps": 62,
    "rl.questions_per_step": 16,
    "rl.group_size": 8,
    "rl.updates_per_step": 1,
    "rl.estimator.kind": "igpo",
    "rl.estimator.mode": "scaled_separate",
    "rl.estimator.assignment": "code",
    "rl.estimator.discount": "per_segment",
    "rl.estimator.penalty_form": "own_turn",
    "rl.estimator.gamma": 0.95,
    "rl.estimator.outcome_floor": 0.3,
    "rl.estimator.max_scale": 10.0,
    "rl.estimator.penalty_weight": 1.0,
    "rl.gain.form": "logprob",
    "rl.gain.answers": "first",
    "rl.gain.tools": frozenset({"visit", "both"}),
    "rl.loss.kind": "ppo",
    "rl.loss.clip_low": 0.2,
    "rl.loss.clip_high": 0.2,
    "rl.loss.dual_clip": 3.0,
    "rl.loss.ratio_to": "proximal",
    "rl.loss.kl_coef": 0.001,
    "rl.loss.kl_form": "k3",
    "rl.trainer.lr": 1e-6,
    "rl.trainer.schedule": "constant",
    "rl.trainer.weight_decay": 0.01,
    "rl.trainer.grad_clip": 1.0,
    "rl.trainer.temperature": 1.0,
    "rl.pipeline.max_staleness": 0,
    "rl.pipeline.straggler": "cut_off",
    "rl.pipeline.cut_off_share": 0.9,
    "rl.pipeline.placement": "served",
    "rollout.max_seconds": 0,
    "rl.drop_zero_advantage": False,
    "rl.estimator.gain_weight": 1.0,
    "rl.gain.baseline": "last_scored",
    "rl.trainer.aggregation": "trajectory_mean",
    "rl.trainer.precision": "bfloat16",
    "rl.trainer.micro_batch_tokens": 1,
    "parallel.kind": "fsdp",
    "sampler.sleeps": True,
}
LITERESEARCHER = {
    "profile": "literesearcher-4b",
    "rollout.force_answer": False,
    "rollout.max_malformed": 1,
    "rl.group_size": 8,
    "rl.drop_zero_advantage": False,
    "rl.estimator.kind": "grpo",
    "rl.estimator.deviation": "sample",
    "rl.estimator.penalty_weight": 0.0,
    "rl.loss.kind": "ppo",
    "rl.loss.clip_low": 0.2,
    "rl.loss.clip_high": 0.4,
    "rl.loss.dual_clip": 3.0,
    "rl.loss.ratio_to": "proximal",
    "rl.loss.correction.cap": 2.0,
    "rl.loss.correction.veto": 1e-4,
    "rl.loss.kl_coef": 0.0,
    "rl.trainer.lr": 1e-6,
    "rl.trainer.weight_decay": 0.01,
    "rl.trainer.aggregation": "trajectory_mean",
    "rl.pipeline.max_staleness": 0,
    **{
        f"stages.{name}.{key}": value
        for name in ("one", "two")
        for key, value in {
            "rl.questions_per_step": 128,
            "rl.updates_per_step": 1,
            "difficulty.attempts": 8,
            "difficulty.least_right": 1,
            "difficulty.most_right": 7,
        }.items()
    },
    "stages.one.rl.steps": 220,
    "stages.one.rollout.temperature": 0.7,
    "stages.one.rollout.context_tokens": 33_792,
    "stages.one.rollout.max_turns": 40,
    "stages.one.rollout.turn_tokens": 2048,
    "stages.two.rl.steps": 420,
    "stages.two.rollout.temperature": 1.0,
    "stages.two.rollout.context_tokens": 51_152,
    "stages.two.rollout.max_turns": 60,
    "stages.two.rollout.turn_tokens": 4096,
    "rollout.temperature": 1.0,
    "rollout.stop": (),
    "rollout.answer_reserve_tokens": 1,
    "rollout.max_seconds": 0,
    "rl.save_every": 10,
    "rl.trainer.schedule": "constant",
    "rl.pipeline.placement": "served",
    "rl.pipeline.straggler": "carry_over",
    "sampler.sleeps": True,
    "parallel.kind": "fsdp",
}
AGENTCPM = {
    "profile": "agentcpm-explore-4b",
    "rollout.temperature": 1.0,
    "rollout.turn_tokens": 32_768,
    "rollout.context_tokens": 131_072,
    "rollout.max_turns": 100,
    "rollout.max_repeated_calls": 4,
    "rollout.force_answer": False,
    "rl.steps": 1000,
    "rl.group_size": 8,
    "rl.drop_zero_advantage": True,
    "rl.save_every": 3,
    "rl.estimator.kind": "leave_one_out",
    "rl.estimator.right_above": 0.5,
    "rl.estimator.scale": 2.0,
    "rl.denoise.drop_flat": True,
    "rl.denoise.least_spread": 0.1,
    "rl.denoise.over_long": True,
    "rl.denoise.least_turns": 1,
    "rl.denoise.cap_malformed": True,
    "rl.denoise.cap_repeated": True,
    "rl.loss.kind": "minirl",
    "rl.loss.ratio_to": "sampler",
    "rl.loss.correction.bounds.low": 0.2,
    "rl.loss.correction.bounds.high": 0.3,
    "rl.loss.correction.bounds.cap": 4.0,
    "rl.loss.correction.bounds.strict": True,
    "rl.trainer.lr": 2e-6,
    "rl.trainer.schedule": "cosine",
    "rl.trainer.warmup_steps": 10,
    "rl.trainer.betas": (0.9, 0.98),
    "rl.trainer.weight_decay": 0.05,
    "rl.trainer.grad_clip": 1.0,
    "rollout.stop": (),
    "rollout.answer_reserve_tokens": 131_072 - (128_768 - 1_024),
    "rollout.max_seconds": 0,
    "rollout.tool_timeout_s": 150.0,
    "rl.updates_per_step": 1,
    "rl.estimator.penalty_weight": 0.0,
    "rl.loss.kl_coef": 0.0,
    "rl.trainer.precision": "bfloat16",
    "rl.trainer.micro_batch_tokens": 1,
    "rl.pipeline.placement": "served",
    "rl.pipeline.straggler": "carry_over",
    "sampler.sleeps": True,
    "parallel.kind": "fsdp",
}
OF_ALL = {
    "judges": ("exact",),
    "rl.keep": 2,
    "rl.outcome": "exact",
    "rl.trainer.entropy": True,
    "rl.trainer.logit_chunk": 400_000_000,
    "rl.trainer.memory.recompute": "full",
    "rl.trainer.memory.offload": True,
    "rl.trainer.memory.mlp_tile": 8192,
}
OURS: dict[str, dict[str, Any]] = {
    "dr-venus-4b": {
        **OF_ALL,
        "title": "dr-venus-4b",
        "rollout.max_malformed": 200,
        "rollout.max_repeated_calls": 200,
        "rl.save_every": 10,
        "rl.loss.correction.cap": 2.0,
        "rl.trainer.betas": (0.9, 0.999),
        "rl.selection.every": 10,
    },
    "literesearcher-4b": {
        **OF_ALL,
        "title": "literesearcher-4b",
        "rollout.max_repeated_calls": 1000,
        "rl.trainer.betas": (0.9, 0.999),
        "rl.trainer.grad_clip": 1.0,
        "rl.trainer.precision": "bfloat16",
        "rl.trainer.micro_batch_tokens": 51_152,
        "rl.selection.every": 20,
        "rl.health.thresholds.no_answer": 0.3,
        "rl.health.pause_on": frozenset({"no_answer"}),
    },
    "agentcpm-explore-4b": {
        **OF_ALL,
        "title": "agentcpm-explore-4b",
        "rl.questions_per_step": 12,
        "rl.trainer.aggregation": "token_mean",
        "rl.pipeline.max_staleness": 4,
        "rl.selection.every": 30,
    },
}
"""What the sources are silent about, or what is otherwise here and why stands in the recipe and in docs/rl.md."""
PUBLISHED = {"dr-venus-4b": DR_VENUS, "literesearcher-4b": LITERESEARCHER, "agentcpm-explore-4b": AGENTCPM}


def at(recipe: RlRecipe, path: str) -> Any:
    value: Any = recipe
    for part in path.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [(name, *one) for tables in (OURS, PUBLISHED) for name, table in tables.items() for one in table.items()],
)
def test_a_recipe_has_the_published_value_or_the_one_that_is_said_to_be_ours(name: str, path: str, value: Any):
    assert at(find_rl_recipe(name), path) == value


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_setting_of_a_recipe_is_left_out(name: str):
    file = Path(recipes.__file__).parent / "rl" / f"{name}.toml"
    assert leaves(tomllib.loads(file.read_text(encoding="utf-8"))) - {*PUBLISHED[name], *OURS[name]} == set()


def leaves(values: dict[str, Any], path: str = "") -> set[str]:
    """Dotted names of all settings."""
    found: set[str] = set()
    for key, value in values.items():
        found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}"}
    return found


def test_every_recipe_is_in_the_table():
    assert set(PUBLISHED) | {"tiny"} == set(recipe_names("rl")), "tiny is ours"


@pytest.mark.parametrize("name", PUBLISHED)
def test_rollouts_are_of_the_whole_distribution_and_never_tried_again(name: str):
    for stage in stages_of(find_rl_recipe(name)):
        sampling = stage.profile.sampling
        assert (sampling.top_p, sampling.top_k, sampling.presence_penalty) == (1.0, 0, 0.0)
        assert stage.profile.guards.max_retries == 0
        assert sampling.temperature == stage.rl.trainer.temperature, "log-probabilities are of what was sampled"
        assert stage.profile.budgets.max_seconds is None, "none of the three ends a rollout by the clock"


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_batch_is_sampled_once_and_trained_once(name: str):
    """On-policy but for the pipeline: as many rollouts an update as published."""
    rollouts = {stage.name: stage.rl.questions_per_step * stage.rl.group_size for stage in stages_of(find_rl_recipe(name))}
    assert rollouts == {
        "dr-venus-4b": {"": 128}, "literesearcher-4b": {"one": 1024, "two": 1024}, "agentcpm-explore-4b": {"": 96},
    }[name]  # fmt: skip


def test_the_tiny_recipe_trains_as_the_tiny_recipes_stage_does_but_for_the_pipeline():
    ours = find_rl_recipe("tiny").rl
    tiny = load_config(TinyConfig, (Path(recipes.__file__).parent / "tiny.toml").read_text(encoding="utf-8"), "tiny.toml").rl
    assert ours.model_copy(update={"pipeline": tiny.pipeline, "trainer": tiny.trainer}) == tiny
    assert ours.trainer.model_copy(update={"temperature": 0.6}) == tiny.trainer
    assert find_rl_recipe("tiny").rollout.temperature == tiny.trainer.temperature and ours.pipeline.max_staleness == 1


@pytest.mark.parametrize("name", ["dr-venus-4b", "literesearcher-4b", "agentcpm-explore-4b"])
def test_each_setting_says_where_it_comes_from(name: str):
    """Beside it, above it, or beside its table's name; titles are above the sources."""
    source = re.compile(r"\[(paper|script|code|record|igpo|ours)[\]:,]")
    silent, of_table, above = [], False, False
    for line in (Path(recipes.__file__).parent / "rl" / f"{name}.toml").read_text().splitlines():
        if line.startswith("#"):
            above = above or bool(source.search(line))
            continue
        if line.startswith("["):
            of_table = bool(source.search(line.partition("#")[2]))
        elif "=" in line and not line.startswith(" ") and not (of_table or above or source.search(line.partition("#")[2])):
            silent.append(line)
        above = False
    assert silent == []
