"""The RL recipes of the three systems: every setting stands in its file with its source, and together they fit each other."""

import datetime
import io
import re
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from rich.console import Console
from rl_runs import recipe_of, silent, write_given

from sanderling import recipes
from sanderling.core.config import load_config, read_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.pipeline import RECIPES, find_data_recipe
from sanderling.data.questions import read_questions, write_questions
from sanderling.recipes.find import find_rl_recipe, recipe_names
from sanderling.recipes.tiny import TinyConfig
from sanderling.rl.config import RlRecipe, rollout_profile
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.launch import Order, prepare, run_rl_command
from sanderling.rl.losses import PpoConfig, RatioTo
from sanderling.runs.files import LOCK
from sanderling.runs.progress import Report
from sanderling.runs.run import DATABASE

SERVED = ("rl.pipeline.placement=served", "sampler.served=m")
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
    assert ours.model_copy(update={"pipeline": tiny.pipeline}) == tiny
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
    with pytest.raises(UserError, match=r"a\.toml, rollout: "):
        read("rollout = 0.6")


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

    assert leaves(RlRecipe) <= 160


# -- What `train rl` refuses before the first rollout, each with one sentence, and what a directory goes on with -----------


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(tmp_path_factory.mktemp("given"), (1, 2))


def prepared(recipe: Any, out: Path, processes: int = 1, **more: bool) -> Any:
    return prepare(Order(recipe, out, processes, **more), processes)


@pytest.mark.parametrize(
    ("overrides", "more", "sentence"),
    [
        ([], {"model": None}, "no model to train: give --model"),
        ([], {"questions": ()}, "no questions to train on: name a file"),
        ([], {"worlds": ()}, "is about the world 'encyclopedia-train-40-1', which is not there: give it with --world"),
        ([], {"judges": ("exakt",)}, "There is no judge 'exakt'"),
        (["rl.outcome=f1"], {"judges": ("exact",)}, r"rl.outcome=f1 be ignored: leave one of them out"),
        (["reader.model=models/reader"], {}, "there is no page reader"),
        (["rl.pipeline.placement=served"], {}, "nobody says where: give --endpoint"),
        ([*SERVED, "sampler.endpoint=host:8000"], {}, "'host:8000' is no address of a server: write http://host:port/v1"),
        (["sampler.sleeps=true"], {}, r"there is no server: set rl\.pipeline\.placement=served"),
        (["parallel.kind=fsdp"], {}, r"cannot sample in the trainer's processes: set rl\.pipeline\.placement=served"),
        (["rl.selection.every=2"], {}, r"give some with --held-out .*, or do neither \(rl\.selection\.every=0\)"),
        (["rl.estimator.kind=igpo"], {}, r"igpo estimator needs information gain: measure it, with --set rl\.gain={}\.$"),
        (["rollout.context_tokens=99999999"], {}, r"99,999,999 tokens, .* 2,048 positions: set rollout\.context_tokens=2048"),
        (["title=../../else"], {}, "without slashes and without a dot"),
        (["rl.group_size=1"], {}, "the grpo estimator compares .*: set group_size to 2 at least"),
        (["rl.estimator.kind=grpoo"], {}, r"rl\.estimator: there is no estimator 'grpoo': did you mean 'grpo'\?$"),
        (["rollout.answer_reserve_tokens=99999"], {}, "Rollouts keep 99,999 tokens"),
    ],
)
def test_what_cannot_be_is_told_at_once(given: Path, tmp_path: Path, overrides: list[str], more: dict[str, Any], sentence: str):
    with pytest.raises(UserError, match=sentence):
        prepared(recipe_of(given, *overrides).model_copy(update=more), tmp_path / "out")
    assert not (tmp_path / "out" / "rl.toml").exists(), "nothing was begun"


def test_the_loop_on_a_page_is_one_process_and_asks_no_held_out_questions(given: Path, tmp_path: Path):
    of_two = recipe_of(given, "parallel.kind=replicate")
    held_out = recipe_of(given, "rl.selection.every=1", held_out=(given / "q2.jsonl",), worlds=(given / "w1", given / "w2"))
    for recipe, processes in ((of_two, 2), (held_out, 1)):
        with pytest.raises(UserError, match="The simple loop is one process and selects no checkpoint: leave --processes and"):
            prepared(recipe, tmp_path / "out", processes, simple=True)


@pytest.mark.parametrize(
    ("text", "sentence"), [("  ", "has no text"), ("Who? " * 2_000, r"has \d+,\d+ tokens, and rollouts have [\d,]+ for all")]
)
def test_questions_that_no_rollout_can_ask_are_refused(given: Path, tmp_path: Path, text: str, sentence: str):
    file = tmp_path / "mine.jsonl"
    write_questions(file, [*read_questions(given / "q1.jsonl"), Question(id="mine", text=text, answers=("x",))])
    with pytest.raises(UserError, match=sentence):
        prepared(recipe_of(given, questions=(file,)), tmp_path / "out")


def test_held_out_questions_are_asked_and_none_is_trained_on(given: Path, tmp_path: Path):
    more = {"held_out": (given / "q2.jsonl",), "worlds": (given / "w1", given / "w2")}
    with pytest.raises(UserError, match="give some with --held-out"):
        prepared(recipe_of(given).model_copy(update=more), tmp_path / "out")
    with pytest.raises(UserError, match="is trained on and held out"):
        prepared(recipe_of(given, "rl.selection.every=1", held_out=(given / "q1.jsonl",)), tmp_path / "out")
    with pytest.raises(UserError, match="2 questions have the id"):
        prepared(
            recipe_of(given, "rl.selection.every=1").model_copy(update=more | {"held_out": more["held_out"] * 2}), tmp_path
        )


def test_a_directory_goes_on_with_what_it_was_begun_with(given: Path, tmp_path: Path):
    out, own, faults = tmp_path / "out", tmp_path / "q.jsonl", tmp_path / "faults.toml"
    write_questions(own, questions := read_questions(given / "q1.jsonl"))
    faults.write_text('name = "mine"\n[visit]\nnot_found = 0.1\n')

    def recipe(*overrides: str) -> Any:
        return recipe_of(given, f"faults={faults}", *overrides, questions=(own,))

    prepared(recipe(), out)
    prepared(recipe("rl.health.window=9", "rl.save_every=1", "title=other", "sampler.sessions=3"), out)
    with pytest.raises(UserError, match=r"rollout\.max_turns was 2 and is 3\): choose another directory with --out, or add"):
        prepared(recipe("rollout.max_turns=3"), out)
    with pytest.raises(UserError, match="number of processes was 1 and is 2"):
        prepared(recipe("parallel.kind=replicate"), out, 2)
    with pytest.raises(UserError, match="other worlds"):
        prepared(recipe().model_copy(update={"worlds": (given / "w2",)}), out)
    write_questions(own, questions[1:])
    faults.write_text('name = "mine"\n[visit]\nnot_found = 0.9\n')
    with pytest.raises(UserError, match="other questions; other faults"):
        prepared(recipe(), out)


def test_another_thing_in_the_directory_is_left_alone(given: Path, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other things"):
        prepared(recipe_of(given), tmp_path)
    with pytest.raises(UserError, match="--fresh leaves it alone"):
        prepared(recipe_of(given), tmp_path, fresh=True)
    assert (tmp_path / "notes.txt").is_file()


def test_fresh_begins_again_once_everything_is_checked(given: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_rl_command(Order(recipe_of(given, "rl.steps=1"), out), silent())
    shutil.copyfile(given / "q1.jsonl", out / "q.jsonl")
    held = sorted(out.rglob("*"))
    for recipe, sentence in (
        (recipe_of(given, questions=(given / "typo.jsonl",)), r"typo\.jsonl"),
        (recipe_of(given, model=out / "model"), "lies in .*, which --fresh empties"),
        (recipe_of(given, questions=(out / "q.jsonl",)), "q.jsonl lies in"),
    ):
        with pytest.raises(UserError, match=sentence):
            run_rl_command(Order(recipe, out, fresh=True), silent())
    assert sorted(out.rglob("*")) == held
    prepared(recipe_of(given, "rl.steps=2"), out, fresh=True)
    left = {file.name for file in out.iterdir()}
    assert left <= {LOCK, DATABASE, "rl.toml"}, "no rollouts, batches or checkpoints that a new run could take for its own"
    run_rl_command(Order(recipe_of(given, "rl.steps=2"), out, fresh=True), silent())
    assert (out / "model" / "config.json").is_file()
    said = io.StringIO()
    run_rl_command(Order(recipe_of(given, "rl.steps=2"), out), Report(Console(file=said, width=200)))
    assert "finished before" in said.getvalue()


def test_the_day_that_agents_see_is_that_of_the_beginning(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    days = iter((1, 2))

    class Day(datetime.date):
        @classmethod
        def today(cls) -> "Day":
            return cls(2026, 3, next(days))

    monkeypatch.setattr("sanderling.rl.launch.datetime.date", Day)
    recipe = recipe_of(given).model_copy(update={"date": None})
    seen = [prepared(recipe, tmp_path / "out").order.recipe.date for _ in range(2)]
    assert seen == [datetime.date(2026, 3, 1)] * 2
    assert read_config(RlRecipe, tmp_path / "out" / "rl.toml").date == seen[0]
    with pytest.raises(UserError, match='date was "2026-03-01" and is "2026-01-01"'):
        prepared(recipe_of(given), tmp_path / "out")
