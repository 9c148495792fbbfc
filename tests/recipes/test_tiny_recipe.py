"""The tiny recipe from end to end with a minuscule model, killed twice on the way; and that its worlds share no name."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest
from rich.console import Console
from tiny_base import BaseConfig, write_untrained

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config, read_config
from sanderling.data.questions import write_questions
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.reports.pages import RecipeReport
from sanderling.policy.contract import ScriptedPolicy
from sanderling.recipes.find import find_rl_recipe
from sanderling.recipes.tiny import (
    CURRICULUM,
    HELD_OUT,
    SHIPPED_BASE,
    VALIDATION,
    TinyConfig,
    TinyRun,
    build_worlds,
    curate,
    find_recipe,
    teach,
)
from sanderling.recipes.tiny_stages import NAMES, measure, measure_all, reinforce_rank, run_tiny, train_arm
from sanderling.recipes.tiny_text import FIRST_WORLD, text_among
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Report
from sanderling.runs.run import reading
from sanderling.runs.stages import STAGES as TABLE
from sanderling.runs.stages import Stage, StageRecord, read_record
from sanderling.synth.chains import chain_questions
from sanderling.train.metrics import read_metrics
from sanderling.train.random_model import ModelShape
from sanderling.world.encyclopedia import EVENT_FORMS, GOODS, ORGANISATION_FORMS, WORK_FORMS, Encyclopedia

COMMAND = "sanderling recipe run small.toml"
STAGES = ("worlds", "teach", "data", "sft", "choose", "rl", "measure")
ARMS = ("sft-all", "sft-correct")
SMALL = """
title = "small"
workers = 2
worlds = { train = 2, train_entities = 40, held_out = 2, held_out_entities = 40 }
questions = { per_world = 8, validation = 2, held_out = 3 }
evaluation = { attempts = 4, concurrency = 16 }
[sft]
epochs = 10
batch_tokens = 512
max_steps = 6
save_every = 2
[rl]
steps = 3
questions_per_step = 2
group_size = 2
save_every = 1
trainer = { temperature = 1.0, lr = 2e-4, entropy = true }
[variants.igpo]
label = "RL with IGPO"
note = "with information gain"
rl = { estimator = { kind = "igpo" }, gain = { tools = ["visit", "both"] } }
[variants.some]
label = "RL, some"
note = "with a curriculum"
curriculum = true
"""
CHILD = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from rich.console import Console
from sanderling.core.config import read_config
from sanderling.runs.progress import Report
from sanderling.recipes.tiny import TinyConfig
from sanderling.recipes.tiny_stages import run_tiny

class Killing(Report):
    # The real SIGKILL, as soon as work under this title has got anywhere.
    @contextmanager
    def task(self, title, total, start=0):
        with super().task(title, total, start) as advance:
            def watched(units=1, note=None):
                advance(units, note)
                if units and title == sys.argv[3]:
                    os.kill(os.getpid(), signal.SIGKILL)
            yield watched

if __name__ == "__main__":
    config = read_config(TinyConfig, Path(sys.argv[1]))
    run_tiny(config, Path(sys.argv[2]), Killing(Console()), sys.argv[4])
"""


def words_of(world: Encyclopedia) -> set[str]:
    """All words of all names, but for those that say what a thing is (Bank, Songs, ...)."""
    words = {word for entity in world.facts.entities for word in entity.name.split()}
    return words - {*ORGANISATION_FORMS, *WORK_FORMS, *EVENT_FORMS, "of"}


def texts_of(run: TinyRun, world: Encyclopedia) -> str:
    """Everything that a world shows: addresses, titles, pages, questions."""
    asked = chain_questions(world, 100, run.config.questions.seed, run.config.questions.hop_shares)
    shown = [f"{item.page.url} {item.page.title} {item.page.text}" for item in world.pages]
    return " ".join([*shown, *(question.text for question in asked)])


def test_no_name_of_the_held_out_world_occurs_in_any_other_world_of_the_recipe(tmp_path: Path) -> None:
    config = load_config(TinyConfig, (files("sanderling.recipes") / "tiny.toml").read_text(encoding="utf-8"), "tiny.toml")
    run = TinyRun(tmp_path, config)
    held_out = {word for plan in run.held_out for word in words_of(plan.generate())}
    assert len(run.held_out) == 4
    assert len(held_out) > 150
    others = [*run.training, run.validation]
    assert len({plan.seed for plan in others}) == len({plan.name for plan in others}) == config.worlds.train + 1
    for plan in others:
        world = plan.generate()
        seen = {word.casefold() for word in re.findall("[A-Za-z]+", texts_of(run, world))}
        assert words_of(world) <= {word.capitalize() for word in seen}  # the search does find names
        assert not {word.casefold() for word in held_out} & seen
        assert plan.seed < FIRST_WORLD  # the base model's worlds are others again
    tokenizer = load_tokenizer(SHIPPED_BASE)
    mixed = " ".join(tokenizer.decode(row.ids.tolist()) for row in text_among(100_000, 0.5, tokenizer))
    seen = {word.casefold() for word in re.findall("[A-Za-z]+", mixed)}
    assert len(seen) > 500 and not {word.casefold() for word in held_out} & seen


def test_its_rl_alone_has_the_same_settings_but_goes_on_while_the_model_is_updated() -> None:
    given = {"model": SHIPPED_BASE, "questions": ("questions.jsonl",), "worlds": (SHIPPED_BASE,)}
    alone, whole = find_rl_recipe("tiny", given=given), find_recipe("tiny").rl
    assert alone.rollout.temperature == whole.trainer.temperature
    trainer = alone.rl.trainer.model_copy(update={"temperature": whole.trainer.temperature})
    assert alone.rl.model_copy(update={"pipeline": whole.pipeline, "trainer": trainer}) == whole


# -- the whole recipe ----------------------------------------------------------------------------------------------------


def run(settings: Path, out: Path, kill_in: str) -> int:
    script = settings.with_name("child.py")
    script.write_text(CHILD)
    done = subprocess.run(
        [sys.executable, str(script), str(settings), str(out), kill_in, COMMAND], capture_output=True, text=True, timeout=900
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def records(out: Path) -> dict[str, StageRecord]:
    with reading(out) as tables:
        return {name: read_record(out, name) for name in STAGES if name in tables(TABLE)[0]}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    shape = ModelShape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=64)
    write_untrained(BaseConfig(shape=shape, vocab_size=800, tokenizer_worlds=1), directory / "base")
    path = directory / "small.toml"
    path.write_text(f"base = {json.dumps(str(directory / 'base'))}\n{SMALL}")
    return path


def test_the_stages_one_by_one(settings: Path, tmp_path: Path) -> None:
    """In this process and with one attempt: material, one arm, a measurement; each a second time does nothing."""
    config = read_config(TinyConfig, settings, ["evaluation.attempts=1", "sft.max_steps=2", "rl.steps=1", "text_share=0.5"])
    run, report = TinyRun(tmp_path, config), Report(Console(file=io.StringIO()))
    made = [build_worlds(run, report), teach(run, report), curate(run, report)]
    assert (made[0]["worlds"], made[1]["trajectories"]) == (5, 16) and 0 < made[1]["correct"] < 16
    trained = train_arm(run, "sft-correct")
    assert (trained["trajectories"], trained["steps"]) == (made[1]["correct"], 2) and trained["tokens_seen"] > 0
    assert trained["rows"] > made[1]["correct"], "text is among them"
    result = measure(run, "sft-correct", run.model("sft-correct"), VALIDATION, COMMAND)
    assert (len(result.questions), result.attempts, result.command) == (2, 1, COMMAND)
    assert teach(run, report) == made[1]
    again = measure_all(run, {"sft-correct": run.model("sft-correct")}, VALIDATION, COMMAND, report)
    assert again == {"sft-correct": result} == {"sft-correct": measure(run, "sft-correct", run.base, VALIDATION, COMMAND)}
    every = run.rl_questions("")
    assert build_worlds(run, report) == made[0] and run.rl_questions("") == every
    write_questions(run.questions_file(CURRICULUM), every[:1])
    assert run.rl_questions("some") == every[:1] and run.rl_questions("igpo") == every
    reinforce_rank(0, 1, tmp_path / "meeting", run, "sft-correct", "")
    assert [line["step"] for line in read_metrics(tmp_path / "rl" / "metrics.jsonl")] == [1]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_text_among_rows_is_the_share_that_was_asked_for_about_worlds_that_the_base_model_never_read(share: float) -> None:
    rows = list(text_among(100_000, share, load_tokenizer(SHIPPED_BASE)))
    tokens = sum(len(row.ids) for row in rows)
    assert tokens / (tokens + 100_000) == pytest.approx(share, abs=0.02)
    last = FIRST_WORLD + BaseConfig().seed + BaseConfig().steps
    assert all(int(row.trajectory.split()[1]) > last and row.loss_mask[1:].all() for row in rows)


def test_text_among_rows_spells_words_as_answers_do() -> None:
    tokenizer = load_tokenizer(SHIPPED_BASE)
    written = " ".join(str(token) for row in text_among(100_000, 0.5, tokenizer) for token in row.ids)
    quoted = [[*tokenizer.encode('"'), *tokenizer.encode(f"<answer>{word}</answer>")[1:-1]] for word in GOODS]
    assert sum(f" {' '.join(map(str, ids))} " in written for ids in quoted) > len(GOODS) / 2


@pytest.mark.parametrize("full", [False, True])
def test_each_model_has_a_row_in_the_report_and_a_full_run_has_stages_for_its_further_ones(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """All but the work of its stages: models that say the same are measured where they would be."""
    pytest.importorskip("mergekit")
    config = read_config(TinyConfig, settings, ["evaluation.attempts=1", "questions.held_out=1", f"full={full}".lower()])
    config = config if full else config.model_copy(update={"base": None})
    run, named = TinyRun(tmp_path, config), []
    further = ("rl-igpo", "rl-some", "merge") if full else ()

    def told(stages: Sequence[Stage], *_: object) -> list[StageRecord]:
        named.extend(stage.name for stage in stages)
        for model in (*NAMES, *further):
            measure(run, model, run.model(model), HELD_OUT, COMMAND)
        return [StageRecord(name=stage, seconds=1.0, figures={}) for stage in named]

    said = ScriptedPolicy(lambda messages, key: "<think>\nx</think><answer>Eden</answer>")
    monkeypatch.setattr("sanderling.policy.transformers_policy.TransformersPolicy.load", lambda model, **how: said)
    monkeypatch.setattr("sanderling.recipes.tiny_stages.run_stages", told)
    build_worlds(run, Report(Console(quiet=True)))
    run_tiny(config, tmp_path, Report(Console(quiet=True)), COMMAND)
    assert named == [*STAGES, *(("difficulty", *further, "measure-further") if full else ())]
    report = RecipeReport.model_validate_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    labels = ("RL with IGPO", "RL, some", "Both SFT models, merged") if full else ()
    assert [stage.name for stage in report.stages] == [*NAMES.values(), *labels]
    assert [one.candidate for one in report.comparisons[3:]] == list(labels)
    assert (report.stages[0].note == "base, which both SFT models go on from") is full


@pytest.fixture(scope="module")
def out(settings: Path) -> Path:
    """A run that was killed in SFT, where two workers train, and in RL, and then came to its end."""
    out = settings.with_name("out")
    assert run(settings, out, "SFT, two arms") == -signal.SIGKILL
    assert list(records(out)) == ["worlds", "teach", "data"]
    assert run(settings, out, "RL") == -signal.SIGKILL
    assert list(records(out)) == ["worlds", "teach", "data", "sft", "choose"]
    metrics = out / "rl" / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    assert lines
    assert run(settings, out, "nothing") == 0
    kept = len(lines) - 1  # a kill between a step's line and its checkpoint has that step done again
    assert metrics.read_text().splitlines()[:kept] == lines[:kept]
    return out


@pytest.mark.slow
def test_every_stage_is_done_once_with_nothing_lost_or_doubled(out: Path) -> None:
    found = records(out)
    assert list(found) == list(STAGES)
    assert all(record.seconds > 0 for record in found.values())
    for arm in ARMS:
        assert [line["step"] for line in read_metrics(out / arm / "metrics.jsonl")] == list(range(1, 7))
        assert found["sft"].figures[arm]["steps"] == 6
    assert [line["step"] for line in read_metrics(out / "rl" / "metrics.jsonl")] == [1, 2, 3]
    assert found["rl"].figures["start"] == found["choose"].figures["chosen"]
    assert found["teach"].figures["trajectories"] == 16
    taught = [trajectory.question.id for trajectory in TrajectoryStore(out / "teacher" / "trajectories.jsonl")]
    assert len(set(taught)) == len(taught) == 16
    for stage in NAMES:
        held_out = out / "evaluation" / f"{stage}.held-out"
        measured = [trajectory.id for trajectory in RunLog(held_out).records()]
        assert len(set(measured)) == len(measured) == 24


@pytest.mark.slow
def test_the_report_has_every_stage_and_every_field(out: Path, settings: Path) -> None:
    text = (out / "report.json").read_text(encoding="utf-8")
    report = RecipeReport.model_validate_json(text)
    assert [stage.name for stage in report.stages] == list(NAMES.values())
    for stage in report.stages:
        result = stage.result
        assert (len(result.questions), result.attempts, result.unscored, result.command, result.seed) == (6, 4, 0, COMMAND, 51)
        assert (
            sum(result.endings.values()) == 24
            and len(result.groups["world"]) == 2
            and stage.seconds > 0
            and stage.note
            and result.valid
        )
    assert report.command == COMMAND
    assert report.seconds == pytest.approx(sum(record.seconds for record in records(out).values()))
    assert not report.comparisons[0].valid  # six questions claim nothing
    assert [report.comparisons[0].candidate, *((c.candidate, c.baseline) for c in report.comparisons[1:])] == [
        NAMES["rl"], (NAMES["sft-correct"], NAMES["sft-all"]), (NAMES["sft-all"], NAMES["base"]),
    ]  # fmt: skip
    assert [[len(line) for line in chart.lines.values()] for chart in report.charts] == [[6, 6], [3], [3, 3], [3]]
    assert load_config(TinyConfig, report.settings, "report") == read_config(TinyConfig, settings)
    page = (out / "report.html").read_text(encoding="utf-8")
    for said in (*NAMES.values(), report.title, "nothing is claimed"):
        assert said in page


@pytest.mark.slow
def test_a_run_that_is_done_is_left_as_it_is(out: Path, settings: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        written = {out / name for name in (".lock", "report.html", "report.json", "run.db")}
        kept = [path for path in out.rglob("*") if path.is_file() and path.name != ".lock" and path not in written]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in kept}

    def told() -> dict[str, object]:
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        del report["date"]
        return report

    before = state(), told(), records(out)
    console = Console(file=io.StringIO(), width=200)
    run_tiny(read_config(TinyConfig, settings), out, Report(console), COMMAND)
    assert (state(), told(), records(out)) == before
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all("(done before, " in line for line in lines[: len(STAGES)])
    report = RecipeReport.model_validate_json((out / "report.json").read_text(encoding="utf-8"))
    shown = " ".join(" ".join(lines[len(STAGES) : -1]).split())  # a long sentence is wrapped
    places = [shown.index(said) for said in (report.title, *NAMES.values(), report.comparisons[0].verdict)]
    assert places == sorted(places)
    assert lines[-1] == f"  The report is {out.resolve() / 'report.html'}."


@pytest.mark.slow
def test_a_finished_run_goes_on_as_a_full_one(out: Path, settings: Path, tmp_path: Path) -> None:
    """The same directory and stages, then other ways of RL from the same model, a curriculum, and the merge."""
    pytest.importorskip("mergekit")
    whole = shutil.copytree(out, tmp_path / "full")
    before = (whole / "rl" / "metrics.jsonl").read_bytes()
    run_tiny(read_config(TinyConfig, settings, ["full=true"]), whole, Report(Console(file=io.StringIO())), COMMAND)
    assert (whole / "rl" / "metrics.jsonl").read_bytes() == before
    report = RecipeReport.model_validate_json((whole / "report.json").read_text(encoding="utf-8"))
    assert [stage.name for stage in report.stages] == [*NAMES.values(), "RL with IGPO", "RL, some", "Both SFT models, merged"]
    assert [(one.candidate, one.baseline) for one in report.comparisons[3:5]] == [("RL with IGPO", "RL"), ("RL, some", "RL")]
    assert report.comparisons[5].candidate == "Both SFT models, merged" and report.comparisons[5].baseline.startswith("SFT")
    assert [line["step"] for line in read_metrics(whole / "rl-igpo" / "metrics.jsonl")] == [1, 2, 3]
    assert "gain" in json.dumps(read_metrics(whole / "rl-igpo" / "metrics.jsonl")[0])
    assert list(report.charts[1].lines) == ["RL", "RL with IGPO", "RL, some"]


@pytest.mark.slow
def test_a_quick_run_ends_with_agents_that_answer_something(tmp_path: Path) -> None:
    fewer = ["rl.steps=1", "questions.held_out=10", "questions.validation=4", "evaluation.attempts=2"]
    run_tiny(find_recipe("tiny", quick=True, overrides=fewer), tmp_path, Report(Console(file=io.StringIO())), COMMAND)
    report = RecipeReport.model_validate_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert all((stage.result.pass_at_1.value or 0.0) >= 0.3 for stage in report.stages)
    assert report.stages[0].note == "tiny-sft, which both SFT models go on from"
    assert not report.comparisons[0].valid and "nothing is claimed" in report.comparisons[0].verdict
