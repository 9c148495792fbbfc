"""The tiny recipe's settings: the published ones load, and wishes that make no sense are one sentence."""

from importlib.resources import files
from pathlib import Path

import pytest

from sanderling.agent.agent import Agent
from sanderling.cli.ask import as_question, research
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.policy.contract import ScriptedPolicy
from sanderling.recipes.tiny import QUICK, SHIPPED_BASE, Choice, TinyConfig, TinyRun, find_recipe
from sanderling.synth.chains import chain_questions
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world
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


# -- Training and serving show an agent the same bytes: one profile, read by the recipe's rollouts and by ``sanderling ask`` ---

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
    served = await research(as_question(ASKED), agent)
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
