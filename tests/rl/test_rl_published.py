"""The RL recipes of the three systems: every setting stands in its file with its source, and together they fit each other."""

import re
from pathlib import Path

import pytest

from sanderling import recipes
from sanderling.core.config import load_config
from sanderling.data.pipeline import RECIPES, find_data_recipe
from sanderling.recipes.find import find_rl_recipe
from sanderling.recipes.tiny import TinyConfig
from sanderling.rl.config import rollout_profile
from sanderling.rl.losses import RatioTo

PUBLISHED = ("dr-venus-4b", "literesearcher-4b", "literesearcher-4b-two", "agentcpm-explore-4b")


@pytest.mark.parametrize(("name", "top_p"), list(zip(PUBLISHED, (0.95, 0.95, 1.0, 1.0), strict=True)))
def test_rollouts_are_sampled_as_published_and_never_tried_again(name: str, top_p: float):
    recipe = find_rl_recipe(name)
    profile = rollout_profile(recipe)
    sampling = profile.sampling
    assert (sampling.top_p, sampling.top_k, sampling.presence_penalty) == (top_p, 0, 0.0)
    assert top_p == 1 or recipe.rl.loss.ratio_to is RatioTo.PROXIMAL
    assert profile.guards.max_retries == 0
    assert sampling.temperature == recipe.rl.trainer.temperature, "log-probabilities are of what was sampled"
    assert profile.budgets.max_seconds is None, "none of the three ends a rollout by the clock"


def test_the_tiny_recipe_trains_as_the_tiny_recipes_stage_does_but_for_the_pipeline():
    ours = find_rl_recipe("tiny").rl
    tiny = load_config(TinyConfig, (Path(recipes.__file__).parent / "tiny.toml").read_text(encoding="utf-8"), "tiny.toml").rl
    assert ours.model_copy(update={"pipeline": tiny.pipeline, "trainer": tiny.trainer}) == tiny
    assert ours.trainer.model_copy(update={"temperature": 0.6}) == tiny.trainer
    assert find_rl_recipe("tiny").rollout.temperature == tiny.trainer.temperature and ours.pipeline.max_staleness == 1


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_trained_on_and_what_is_rewarded_are_judged_alike(name: str):
    """One definition of right for the trajectories of SFT and for rollouts: the same rule, to which the same model is added."""
    recipe = find_rl_recipe(name)
    cleaned = [one for one in map(find_data_recipe, RECIPES) if one.profile == recipe.profile]
    assert [one.judge.judges for one in cleaned] == [recipe.judges]


@pytest.mark.parametrize("name", PUBLISHED)
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
