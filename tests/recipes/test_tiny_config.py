"""The tiny recipe's settings: the published ones load, and wishes that make no sense are one sentence."""

from importlib.resources import files

import pytest

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.recipes.tiny import QUICK, SHIPPED_BASE, Choice, TinyConfig, find_recipe
from sanderling.synth.chains import chain_questions
from sanderling.world.encyclopedia import YEARS, generate_encyclopedia

SHIPPED = (files("sanderling.recipes") / "tiny.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("overrides", [(), QUICK])
def test_the_shipped_settings_load_and_survive_being_written(overrides: tuple[str, ...]) -> None:
    config = load_config(TinyConfig, SHIPPED, "tiny.toml", overrides)
    assert load_config(TinyConfig, to_toml(config), "again") == config
    assert config.sft.max_steps is not None  # the arms are compared at equal steps
    assert set(config.questions.hop_shares) == {1, 2, 3}


@pytest.mark.parametrize("key", ["x", "", "0", "-1", "1.0", "01", "\u00b2", "\u0661", " 1"])
def test_hops_that_are_no_number_are_one_sentence(key: str) -> None:
    with pytest.raises(UserError, match=r"t\.toml, questions\.hops: .* is not a number of hops") as refused:
        load_config(TinyConfig, f'[questions.hops]\n"{key}" = 1', "t.toml")
    assert repr(key) in str(refused.value)


@pytest.mark.parametrize("hops", ["{}", "{ 1 = 0 }", "{ 1 = -1, 2 = 2 }", "{ 1 = nan }", "{ 1 = inf }"])
def test_shares_that_cannot_be_drawn_from_are_one_sentence(hops: str) -> None:
    with pytest.raises(UserError, match=r"hops.*(shares of hops|finite number)"):
        load_config(TinyConfig, f"[questions]\nhops = {hops}", "t.toml")


def test_a_recipe_nobody_knows_is_one_sentence() -> None:
    with pytest.raises(UserError, match="no recipe 'huge'"):
        find_recipe("huge")


OF_A_VARIANT = "variants.x={ label = 'x', note = '', rl = { %s } }"
WRONG = ("rl.pipeline.placement=beside", "rl.selection.every=5")
WRONG_BELOW = (OF_A_VARIANT % "pipeline = { placement = 'beside' }", OF_A_VARIANT % "selection = { every = 5 }")


@pytest.mark.parametrize("told", [*WRONG, *WRONG_BELOW])
def test_what_its_rl_cannot_do_is_refused(told: str) -> None:
    with pytest.raises(UserError, match="`train rl`"):
        load_config(TinyConfig, SHIPPED, "tiny.toml", (told,))


@pytest.mark.parametrize("name", ["../x", "", ".x"])
def test_a_variant_is_named_as_a_directory_can_be(name: str) -> None:
    with pytest.raises(UserError, match="also a directory's name"):
        load_config(TinyConfig, f"{SHIPPED}\n[variants.'{name}']\nlabel = 'x'\nnote = ''", "tiny.toml")


def test_a_variant_that_makes_no_sense_is_one_sentence() -> None:
    with pytest.raises(UserError, match="needs information gain"):
        load_config(
            TinyConfig, SHIPPED, "tiny.toml", ["variants.x={ label = 'x', note = '', rl = { estimator = { kind = 'igpo' } } }"]
        )
    igpo = load_config(TinyConfig, SHIPPED, "tiny.toml").rl_of("igpo")
    own = load_config(TinyConfig, SHIPPED, "tiny.toml").rl
    assert (igpo.estimator.kind, igpo.trainer, igpo.steps, igpo.group_size) == ("igpo", own.trainer, own.steps, own.group_size)


def test_training_questions_are_chosen_for_answers_seldom_asked_for() -> None:
    """Years are one token each: a random draw asks for some of them never, and SFT then cannot write them."""
    chosen, random = (Choice(load_tokenizer(SHIPPED_BASE), drawn, 6) for drawn in (6, 1))
    shares = {1: 0.35, 2: 0.45, 3: 0.2}
    asked: dict[str, list[str]] = {"chosen": [], "random": []}
    for seed in range(1, 81):
        world = generate_encyclopedia(120, seed)
        questions = chosen.of(chain_questions(world, 6 * 28, 11, shares))
        assert 28 <= len(questions) <= 30 and len({one.id for one in questions}) == len(questions)
        asked["chosen"] += [one.answers[0] for one in questions]
        asked["random"] += [one.answers[0] for one in random.of(chain_questions(world, 28, 11, shares))]
    never = {way: sum(year not in answers for year in YEARS) for way, answers in asked.items()}
    assert never["random"] > 50 and never["chosen"] < 20, never
