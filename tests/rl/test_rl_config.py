"""Settings of RL: one temperature for rollouts and trainer, and refusals in sentences."""

from typing import get_args

import pytest
from pydantic import BaseModel

from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe, recipe_names
from sanderling.rl.config import RlRecipe
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.losses import PpoConfig


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
    [
        ("rl.stps=3", r"no setting rl\.stps.* did you mean"),
        ("rollout.top_k=20", r"no setting rollout\.top_k"),
    ],
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
