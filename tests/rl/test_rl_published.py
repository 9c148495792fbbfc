"""The RL recipes of the three systems: every setting stands in its file with its source, and together they fit each other."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from sanderling import recipes
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.data.pipeline import RECIPES, find_data_recipe
from sanderling.recipes.find import find_rl_recipe, recipe_names
from sanderling.recipes.tiny import TinyConfig
from sanderling.rl.config import RlRecipe, rollout_profile
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.losses import PpoConfig, RatioTo

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


# -- Settings of RL: one temperature for rollouts and trainer, and refusals in sentences -----------------------------------


def read(toml: str, *overrides: str) -> RlRecipe:
    return load_config(RlRecipe, toml, "a.toml", overrides)


def test_the_trainers_temperature_follows_the_rollouts_and_never_contradicts_it():
    assert read("[rollout]\ntemperature = 0.6").rl.trainer.temperature == 0.6
    assert read("", "rollout.temperature=0.6").rl.trainer.temperature == 0.6
    with pytest.raises(UserError, match=r"temperature 0\.6 and trained at 1\.0: set rollout\.temperature alone"):
        read("[rollout]\ntemperature = 0.6\n[rl.trainer]\ntemperature = 1.0")


def test_a_trainer_section_leaves_rls_own_defaults_where_they_are():
    found = read("[rl.trainer]\nweight_decay = 0.5").rl.trainer
    assert (found.lr, found.entropy, found.weight_decay) == (1e-6, True, 0.5)


@pytest.mark.parametrize("name", recipe_names("rl"))
def test_what_is_recorded_reads_back_as_it_was(name: str):
    recipe = find_rl_recipe(name)
    assert load_config(RlRecipe, to_toml(recipe), "the record") == recipe


@pytest.mark.parametrize(
    ("override", "sentence"),
    [("rl.stps=3", r"no setting rl\.stps.* did you mean"), ("rollout.top_k=20", r"no setting rollout\.top_k")],
)
def test_what_cannot_be_is_refused_with_a_sentence(override: str, sentence: str):
    with pytest.raises(UserError, match=sentence):
        find_rl_recipe("literesearcher-4b", [override])


def test_settings_are_few():
    """One estimator, that with the most settings, and one loss counted."""
    chosen = {"estimator": IgpoConfig, "loss": PpoConfig}

    def sections(kind: object) -> list[type[BaseModel]]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return [kind]
        return [found for part in get_args(kind) for found in sections(part)]

    def leaves(model: type[BaseModel]) -> int:
        fields = model.model_fields.items()
        below = [[chosen[name]] if name in chosen else sections(one.annotation) for name, one in fields]
        return sum(leaves(found[0]) if found else 1 for found in below)

    assert leaves(RlRecipe) <= 140
