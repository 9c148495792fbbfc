"""What `train rl` refuses before the first rollout, each with one sentence, and what a directory goes on with."""

import datetime
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from rl_runs import recipe_of, silent, write_given

from sanderling.core.config import read_config
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, write_questions
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlRecipe
from sanderling.rl.launch import run_rl_command
from sanderling.rl.prepare import Order, prepare
from sanderling.runs.locks import LOCK
from sanderling.runs.run import DATABASE
from sanderling.train.fit import Devices, described

PROCESSOR = Devices("processor", 1, 2**33, gpus=False)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(tmp_path_factory.mktemp("given"), (1, 2))


def prepared(recipe: Any, out: Path, processes: int = 1, devices: Devices = PROCESSOR, *, anyway: bool = False) -> Any:
    return prepare(Order(recipe, out, processes, anyway), processes, lambda: devices)


@pytest.mark.parametrize(
    ("overrides", "more", "sentence"),
    [
        ([], {"model": None}, "no model to train: give --model"),
        ([], {"questions": ()}, "no questions to train on: name a file"),
        ([], {"worlds": ()}, "is about the world 'encyclopedia-train-40-1', which is not there: give it with --world"),
        ([], {"judges": ("exakt",)}, "There is no judge 'exakt'"),
        ([], {"judges": ("gpt",)}, r"squad_f1, or http://host:port/v1#model\.$"),
        ([], {"judges": ("./models/judge",)}, "is no rule and no address"),
        (["rl.outcome=f1"], {"judges": ("exact",)}, r"rl.outcome=f1 be ignored: to score by that rule leave --judge out"),
        ([], {"reader": "models/reader"}, "There is no page reader"),
        ([], {"watch": ("slides",)}, "There is no view 'slides'"),
        (["sampler.endpoint=http://h:1/v1", "sampler.served=m"], {}, "http://h:1/v1 would not be asked: set rl.pipeline"),
        ([], {"questions": (Path("tests"),)}, r"tests is a directory: name its files, as in tests/\*\.jsonl"),
        (["rl.pipeline.placement=served"], {}, "nobody says where: give --endpoint"),
        (["rl.pipeline.placement=served", "sampler.endpoint=localhost", "sampler.served=m"], {}, "is no address of a server"),
        (["parallel.kind=fsdp"], {}, r"cannot sample in the trainer's processes: set rl\.pipeline\.placement=served"),
        (["sampler.sleeps=true"], {}, "Only a server can sleep"),
        (["rl.selection.every=2"], {}, "give some with --held-out"),
        (["rl.estimator.kind=igpo"], {}, r"igpo estimator needs information gain: measure it, with --set rl\.gain={}\.$"),
        (
            ["rollout.context_tokens=99999999"],
            {},
            r"have 99,999,999 tokens, .* 2,048 positions: set rollout\.context_tokens=2048",
        ),
        (
            ["stages.one.rollout.context_tokens=2049"],
            {},
            r"stage one may have 2,049 .*: set stages\.one\.rollout\.context_tokens=2048",
        ),
        (["title=../../else"], {}, "without slashes and without a dot"),
        (["title="], {}, "a title is also a directory's name"),
        (["rl.trainer.betas=[0.9,1.5]"], {}, r"rl\.trainer\.betas\.1: input should be less than 1"),
        (["rl.seed=99999999999999999999"], {}, r"rl\.seed: input should be less than"),
        (["rl.steps=99999999999999999999"], {}, r"rl\.steps: input should be less than"),
        (["rl.denoise.least_spread=5"], {}, r"rl\.denoise\.least_spread: input should be less than or equal to 1"),
        (["rl.group_size=1"], {}, "the grpo estimator compares .*: set group_size to 2 at least"),
        (["rl.estimator.kind=igpo", "rl.gain={}", "rl.group_size=1"], {}, "the igpo estimator compares"),
        (["rl.estimator.kind=grpoo"], {}, r"rl\.estimator: there is no estimator 'grpoo': did you mean 'grpo'\?$"),
        (["rl.estimator.kind=nonsense"], {}, "choose one of grpo, dr_grpo, leave_one_out, igpo"),
        (["rl.gain.tools=[x]"], {}, r"rl\.gain\.tools: input should be a list in TOML, .* --set 'KEY="),
        (["questions=[x]"], {}, r"questions: input should be a list in TOML"),
        (["stages.one.rollout.answer_reserve_tokens=99999"], {}, "Stage one keeps 99,999 tokens"),
    ],
)
def test_what_cannot_be_is_told_at_once(given: Path, tmp_path: Path, overrides: list[str], more: dict[str, Any], sentence: str):
    with pytest.raises(UserError, match=sentence):
        prepared(recipe_of(given, *overrides).model_copy(update=more), tmp_path / "out")
    assert not (tmp_path / "out" / "rl.toml").exists(), "nothing was begun"


@pytest.fixture
def model(given: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(recipe_of(given).model, tmp_path / "model")


def refused(given: Path, out: Path, sentence: str, **more: Any) -> None:
    """At once, and nothing is begun."""
    with pytest.raises(UserError, match=sentence):
        prepared(recipe_of(given).model_copy(update=more), out)
    assert not (out / "rl.toml").exists()


def test_a_tokenizer_that_the_model_has_no_rows_for_is_told_at_once(given: Path, tmp_path: Path, model: Path):
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.add_tokens([f"word{number}" for number in range(9_000)])
    tokenizer.save(str(model / "tokenizer.json"))
    refused(given, tmp_path / "out", r"tokens, and the model knows \d+: use the model's own tokenizer\.json", model=model)


def test_a_tokenizer_without_the_marks_of_turns_is_told_at_once(given: Path, tmp_path: Path, model: Path):
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    words.save(str(model / "tokenizer.json"))
    refused(given, tmp_path / "out", r"<\|im_start\|>", model=model)


@pytest.mark.parametrize(
    ("text", "answer", "sentence"),
    [
        ("Who?", "…", r"accepts '…', in which a rule finds no word, so no answer would be right"),
        ("  ", "x", "has no text: write it, or leave the question out"),
        ("Who? " * 2_000, "x", r"has \d+,\d+ tokens, and rollouts have [\d,]+ for all they read"),
    ],
)
def test_questions_that_can_never_be_right_are_refused(given: Path, tmp_path: Path, text: str, answer: str, sentence: str):
    file = tmp_path / "mine.jsonl"
    write_questions(file, [*read_questions(given / "q1.jsonl"), Question(id="mine", text=text, answers=(answer,))])
    refused(given, tmp_path / "out", sentence, questions=(file,))


def test_what_is_held_out_may_not_be_trained_on_under_another_name(given: Path, tmp_path: Path):
    asked, file = read_questions(given / "q1.jsonl")[0], tmp_path / "mine.jsonl"
    write_questions(file, [asked.model_copy(update={"id": "other", "text": f" {asked.text.upper()} "})])
    with pytest.raises(UserError, match=rf"'other' .* is held out, and trained on as '{asked.id}'"):
        prepared(recipe_of(given, "rl.selection.every=1", held_out=(file,)), tmp_path / "out")


def test_held_out_questions_need_to_be_asked(given: Path, tmp_path: Path):
    more = {"held_out": (given / "q2.jsonl",), "worlds": (given / "w1", given / "w2")}
    with pytest.raises(UserError, match=r"--set rl\.selection\.every=10"):
        prepared(recipe_of(given).model_copy(update=more), tmp_path / "out")
    with pytest.raises(UserError, match="is trained on and held out"):
        prepared(recipe_of(given, "rl.selection.every=1", held_out=(given / "q1.jsonl",)), tmp_path / "out")


def test_several_processes_need_a_way_to_share(given: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"2 processes, but parallel\.kind is none"):
        prepared(recipe_of(given), tmp_path / "out", 2)


def test_a_file_of_which_a_line_cannot_be_read_is_refused(given: Path, tmp_path: Path):
    """What a file lost without a word would be trained on otherwise than its author thinks."""
    file, empty = tmp_path / "mine.jsonl", tmp_path / "empty.jsonl"
    file.write_text('{"question": "Who?", "answer": "x"}\n{"quest": "Where?", "answer": "y"}\n')
    empty.write_text("")
    for more in ({"questions": (file,), "held_out": (given / "q2.jsonl",)}, {"held_out": (file,)}):
        with pytest.raises(UserError, match=r"1 of the 2 entries of .*mine\.jsonl cannot be read"):
            prepared(recipe_of(given, "rl.selection.every=1").model_copy(update=more), tmp_path / "out")
    with pytest.raises(UserError, match=r"no questions to train on: .*empty\.jsonl holds none"):
        prepared(recipe_of(given, questions=(empty,)), tmp_path / "out")


def test_a_gpu_that_is_too_small_by_the_plan_is_refused_and_may_be_tried(given: Path, tmp_path: Path):
    small = described("T4", 1.0001, 1)
    with pytest.raises(UserError, match="--anyway tries it"):
        prepared(recipe_of(given), tmp_path / "out", devices=small)
    with pytest.warns(UserWarning, match="going on all the same"):
        prepared(recipe_of(given), tmp_path / "out", devices=small, anyway=True)


def test_a_directory_goes_on_with_what_it_was_begun_with(given: Path, tmp_path: Path):
    out = tmp_path / "out"
    prepared(recipe_of(given), out)
    prepared(recipe_of(given, "rl.health.window=9", "rl.save_every=1", "title=other", "sampler.sessions=3"), out)
    for overrides, told in (
        (["rl.steps=9"], r"rl\.steps 4, now 9"),
        (["rollout.max_turns=3"], r"rollout\.max_turns 2, now 3"),
        (["rl.trainer.lr=1.0"], r"rl\.trainer\.lr 0\.01, now 1\.0"),
    ):
        with pytest.raises(UserError, match=told):
            prepared(recipe_of(given, *overrides), out)
    with pytest.raises(UserError, match=r"other (questions|worlds); other (questions|worlds)"):
        prepared(recipe_of(given, seed=2), out)
    shared = recipe_of(given, "parallel.kind=replicate")
    with pytest.raises(UserError, match="holds a run of 1 processes, now 2"):
        prepared(shared, out, 2)


def test_questions_that_have_changed_are_other_questions(given: Path, tmp_path: Path):
    own = tmp_path / "q.jsonl"
    questions = read_questions(given / "q1.jsonl")
    write_questions(own, questions)
    recipe = recipe_of(given, questions=(own,))
    prepared(recipe, tmp_path / "out")
    write_questions(own, questions[1:])
    with pytest.raises(UserError, match="other questions"):
        prepared(recipe, tmp_path / "out")


def test_another_thing_in_the_directory_is_left_alone(given: Path, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other things"):
        prepared(recipe_of(given), tmp_path)
    with pytest.raises(UserError, match="--fresh leaves it alone"):
        prepare(Order(recipe_of(given), tmp_path, fresh=True), 1)
    assert (tmp_path / "notes.txt").is_file()


def test_fresh_begins_again(given: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_rl_command(Order(recipe_of(given, "rl.steps=1"), out), silent())
    prepare(Order(recipe_of(given, "rl.steps=2"), out, fresh=True), 1)
    left = {file.name for file in out.iterdir()}
    assert left <= {LOCK, DATABASE, "rl.toml"}, "no rollouts, batches or checkpoints that a new run could take for its own"
    run_rl_command(Order(recipe_of(given, "rl.steps=2"), out, fresh=True), silent())
    assert (out / "model" / "config.json").is_file()


def test_fresh_deletes_nothing_before_everything_is_checked(given: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_rl_command(Order(recipe_of(given, "rl.steps=1"), out), silent())
    shutil.copyfile(given / "q1.jsonl", out / "q.jsonl")
    held = sorted(out.rglob("*"))
    wrong = [
        (recipe_of(given, questions=(given / "typo.jsonl",)), r"typo\.jsonl"),
        (recipe_of(given, model=out / "model"), "lies in .*, which --fresh empties"),
        (recipe_of(given, f"stages.one.questions=['{out / 'q.jsonl'}']", worlds=(given / "w1",)), "q.jsonl lies in"),
        (recipe_of(given, worlds=(given / "base",)), "base"),
    ]
    for recipe, told in wrong:
        with pytest.raises(UserError, match=told):
            run_rl_command(Order(recipe, out, fresh=True), silent())
    assert sorted(out.rglob("*")) == held


def test_the_day_that_agents_see_is_that_of_the_beginning(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    days = iter((1, 2))

    class Day(datetime.date):
        @classmethod
        def today(cls) -> "Day":
            return cls(2026, 3, next(days))

    monkeypatch.setattr("sanderling.rl.prepare.datetime.date", Day)
    recipe = recipe_of(given).model_copy(update={"date": None})
    seen = [prepared(recipe, tmp_path / "out").order.recipe.date for _ in range(2)]
    assert seen == [datetime.date(2026, 3, 1)] * 2
    assert read_config(RlRecipe, tmp_path / "out" / "rl.toml").date == seen[0]
    with pytest.raises(UserError, match="date 2026-03-01, now 2026-01-01"):
        prepared(recipe_of(given), tmp_path / "out")


def test_faults_of_other_content_are_another_run(given: Path, tmp_path: Path):
    faults = tmp_path / "faults.toml"
    faults.write_text('name = "mine"\n[visit]\nnot_found = 0.1\n')
    recipe = recipe_of(given, f"faults={faults}")
    prepared(recipe, tmp_path / "out")
    prepared(recipe, tmp_path / "out")
    faults.write_text('name = "mine"\n[visit]\nnot_found = 0.9\n')
    with pytest.raises(UserError, match="other faults"):
        prepared(recipe, tmp_path / "out")


def test_what_every_stage_has_its_own_of_is_not_set_in_vain(given: Path):
    for key in ("rl.steps=10", "rollout.context_tokens=16384"):
        name = key.partition("=")[0]
        with pytest.raises(
            UserError, match=rf"its own {name.partition('.')[2]}, .* set stages\.one\.{name} and stages\.two\.{name}\.$"
        ):
            find_rl_recipe("literesearcher-4b", [key])
    found = find_rl_recipe("literesearcher-4b", ["stages.one.rl.steps=10", "stages.two.rl.steps=9"])
    assert found.stages["one"].rl["steps"] == 10
    assert find_rl_recipe("dr-venus-4b", ["rl.steps=10"]).rl.steps == 10


def test_a_run_that_shall_be_longer_is_told_how(given: Path, tmp_path: Path):
    prepared(recipe_of(given), tmp_path / "out")
    with pytest.raises(UserError, match=r"steps 4, now 9\).*; to train its model further, begin with --model .*out/model in"):
        prepared(recipe_of(given, "rl.steps=9"), tmp_path / "out")
    with pytest.raises(UserError) as told:
        prepared(recipe_of(given, "rollout.max_turns=9"), tmp_path / "out")
    assert "further" not in str(told.value)
