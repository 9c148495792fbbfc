"""The experiments: what decides them, figures by hand, units that resume, and each from end to end in small."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from credit import QUICK, SETTINGS, Comparison, CreditConfig, Gate, fails, placebo, run_comparison
from credit_report import cells_of, difference, estimate, write_report
from forgetting import Difference, ForgettingConfig, judged, run_forgetting
from rich.console import Console
from rl_runs import silent
from tiny_base import BaseConfig, write_untrained
from turn_tables import table_of, trajectory

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.rl.credit import IgpoConfig, build_estimator
from sanderling.runs.progress import Report
from sanderling.runs.run import Run
from sanderling.runs.stages import STAGES
from sanderling.train.metrics import read_metrics
from sanderling.train.random_model import ModelShape

# -- The comparison of credit ------------------------------------------------------------------------------------------------


def settings(*overrides: str) -> CreditConfig:
    return read_config(CreditConfig, SETTINGS, overrides)


def test_arms_have_equal_rollouts_equal_trials_and_seeds_of_their_own():
    config = settings()
    run = Comparison(Path("run"), config)
    arms = {name: config.rl_of(name, 1e-4, 1, 1.0) for name in run.trained}
    assert {(rl.steps, rl.questions_per_step, rl.group_size, rl.denoise.most_groups) for rl in arms.values()} == {(24, 8, 8, 1)}
    assert {(unit.task, unit.arm) for unit in run.trials()} == {
        *((task, arm) for task in config.tasks for arm in ("grpo", "igpo")),
        ("chains", "state"),
    }
    assert len(run.trials()) == 7 * 3 * 2 and not {*config.tuning.seeds} & {*config.seeds}
    lrs = {task: {"grpo": 1e-4, "igpo": 2e-4, "state": 4e-4} for task in config.tasks}
    with_gains = {*config.arms} - {"sft", "grpo", "state", "state-placebo"}
    units = {("sft", 0.0), ("grpo", 1e-4), ("state", 4e-4), ("state-placebo", 4e-4), *((arm, 2e-4) for arm in with_gains)}
    assert {(unit.arm, unit.lr) for unit in run.units(lrs)} == units
    assert all(arm.gain is None or arm.gain.probe is None for arm in arms.values()), "no probe is written by hand"


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("tasks={}", "at least 1"), ("seeds=[]", "at least 1"), ("seeds=[1,1]", "twice"), ("seeds=[101]", "trials and units"),
        ("arms.igpo.tuned_as=nope", "nope is no arm"), ("criterion.compared.sft=['nope']", "nope is no arm"),
        ("tasks.short.after=long", "long is no task before it"), ("tasks.short.without=['nope']", "nope is no arm"),
        ("tasks.short.gate_arms=[]", "at least 1"), ("tasks.short.gate_arms=['grpo']", "and the arm grpo has none"),
        ("arms.igpo.rl.steps=3", "arms have equal rollouts"), ("arms.igpo.rl.estimator.gama=3", "did you mean"),
    ],
)  # fmt: skip
def test_settings_are_refused_before_hours_are_spent(setting: str, told: str):
    with pytest.raises(UserError, match=told):
        settings(setting)


def test_the_placebo_has_the_gains_of_the_group_and_none_of_what_they_say():
    gains = [[0.0, 1.0, 2.0], [3.0, 4.0, None], [5.0, 6.0, 7.0], [8.0, None, 9.0]]
    table = table_of([trajectory(1.0 - n % 2, own, group=n // 2) for n, own in enumerate(gains)])
    config = IgpoConfig(assignment="own_turn", gamma=0.0)
    found, true = placebo(table, config), build_estimator(config).components(table)
    assert np.array_equal(found.outcome, true.outcome) and not np.allclose(found.gain, true.gain)
    assert np.array_equal(placebo(table, config).gain, found.gain), "the same on every rank, and after a kill"


def unit(seed: int, right: list[int], **more: Any) -> dict[str, Any]:
    counts = {f"w{place // 2}-{place}": [count, 4, f"w{place // 2}"] for place, count in enumerate(right)}
    return {"seed": seed, "lr": 1e-4, "seconds": 1.0, "counts": counts, "last_steps": {"no_answer": 0.25}, **more}


def test_intervals_are_over_seeds_worlds_and_questions_and_differences_are_of_pairs():
    config = settings()
    one = cells_of([unit(1, [1, 2, 3, 4]), unit(2, [1, 2, 3, 4])])
    other = cells_of([unit(1, [0, 1, 2, 3]), unit(2, [0, 1, 2, 3]), unit(3, [4, 4, 4, 4])])
    assert one.right.tolist() == [[0.25, 0.5, 0.75, 1.0]] * 2 and one.worlds == ("w0", "w0", "w1", "w1")
    gap, seeds = difference(one, other, config)
    assert (gap.value, gap.interval, seeds) == (0.25, None, 2), "each question a quarter better: nothing varies"
    mean = estimate(one.right, one.worlds, config)
    assert mean.value == 0.625 and mean.interval is not None
    assert mean.interval.low <= 0.375 and mean.interval.high >= 0.875, "worlds alone make it at least so wide"


def test_a_report_tells_what_is_there_and_says_nothing_of_fewer_seeds(tmp_path: Path):
    (tmp_path / "units").mkdir()

    def report_of(seeds: Sequence[int]) -> str:
        for arm, right in (("sft", [1, 1, 1, 1]), ("grpo", [2, 2, 2, 2]), ("milestones", [3, 4, 3, 4])):
            for seed in seeds:
                told = unit(seed, right, counts_at_half=unit(seed, right)["counts"], curve=[[0, 0.25], [64, 0.5]])
                (tmp_path / "units" / f"long.{arm}.seed-{seed}.json").write_text(json.dumps(told))
        return write_report(Comparison(tmp_path, settings()), "python experiments/credit.py").read_text()

    assert "after half of the rollouts less GRPO: +37.5 points (+25.0 to +50.0, 5 seeds): reached" in report_of(range(1, 6))
    for file in (tmp_path / "units").glob("*.seed-[345].json"):
        file.unlink()
    text = report_of(())
    assert "6 of 90 units" in text and "| SFT | 2 | – | 25.0%" in text
    assert re.search(r"\| \+ GRPO \| 2 \| .* \| 25.0% \|$", text, re.MULTILINE), "no answer"
    assert "after half of the rollouts less GRPO: +37.5 points" in text and "under way, so nothing is said" in text


def test_units_are_found_by_whole_names_and_all_comparisons_are_counted(tmp_path: Path):
    task = "= {label = 'one', recipe = 'x.toml', gate_arms = ['igpo']}"
    tasks = f"tasks={{long {task}, 'long.2' {task}}}"
    config = settings(tasks)
    (tmp_path / "units").mkdir()
    for task, right in (("long", 1), ("long.2", 3)):
        for seed in config.seeds:
            told = {"seed": seed, "lr": 0.0, "seconds": 1.0, "counts": {"w-1": [right, 4, "w"]}}
            (tmp_path / "units" / f"{task}.sft.seed-{seed}.json").write_text(json.dumps(told))
    (tmp_path / "trials").mkdir()
    for seed, right in ((101, 1), (102, 2)):
        told = {"counts": {"v-1": [right, 4, "v"]}}
        (tmp_path / "trials" / f"long.grpo.lr-0.0002.seed-{seed}.json").write_text(json.dumps(told))
    text = write_report(Comparison(tmp_path, config), "python experiments/credit.py").read_text()
    assert "| SFT | 5 | – | 25.0%" in text and "| SFT | 5 | – | 75.0%" in text
    assert "of 28 comparisons" in text, "after half of the rollouts, too"
    assert "| long | + GRPO | – | 37.5% | – |" in text


def test_the_gate_names_everything_that_does_not_pass():
    seen = {"auc_before": [0.9, None], "added_r2": [0.03, [0.01, 0.05]]}
    assert fails(Gate(), {"pass_1": 0.3, "pass_8": 0.85, "igpo": seen}, "igpo") == []
    found = fails(
        Gate(), {"pass_1": 0.5, "pass_8": 0.7, "milestones": {"auc_before": None, "added_r2": [0.01, None]}}, "milestones"
    )
    assert len(found) == 4 and "AUC of needed visits is not known" in found[2]


ARMS = (
    "arms={sft = {label = 'SFT', trained = false}, grpo = {label = 'GRPO', rl = {estimator = {kind = 'grpo'}}}, "
    "igpo = {label = 'IGPO', tuned_as = 'grpo', rl = {estimator = {kind = 'igpo'}, gain = {}}}}"
)
SHORT = "short = {label = 'short', recipe = 'elimination-short.toml', gate_arms = ['igpo'], without = ['igpo']}"
LONG = "long = {label = 'long', recipe = 'elimination-long.toml', after = 'short', gate_arms = ['igpo'], without = ['igpo']}"
TWO_ARMS = (ARMS, "criterion.compared={grpo = ['sft']}", "criterion.halved={grpo = 'grpo'}", "measuring.halfway=['grpo']")


@pytest.mark.slow
def test_the_comparison_from_end_to_end_and_once_more(tmp_path: Path):
    small = (*TWO_ARMS, f"tasks={{{SHORT}, {LONG}}}")
    config, out = settings(*QUICK, *small, "tuning.lrs=[1e-4,1e-3]", "workers=1"), tmp_path / "out"
    run_comparison(config, out, silent(), "command")
    names = {file.name for file in (out / "units").iterdir()}
    assert len(list((out / "trials").iterdir())) == 4, "two for the trained arm in each task"
    assert names == {f"{task}.{arm}.seed-1.json" for task in ("short", "long") for arm in ("sft", "grpo")}
    found = json.loads((out / "units" / "short.grpo.seed-1.json").read_text())
    assert found["rollouts"] == 16 and [point[0] for point in found["curve"]] == [0, 8]
    assert found["counts"].keys() == found["counts_at_half"].keys() and len({one[2] for one in found["counts"].values()}) == 2
    assert not list((out / "work").iterdir())
    (out / "units" / "long.grpo.seed-1.json").unlink()
    with Run(out) as under_way:
        under_way.table(STAGES).remove("units")
    kept = (out / "units" / "short.grpo.seed-1.json").stat().st_mtime_ns
    run_comparison(config, out, silent(), "command")
    assert (out / "units" / "long.grpo.seed-1.json").is_file(), "what was missing is made"
    assert (out / "units" / "short.grpo.seed-1.json").stat().st_mtime_ns == kept, "and nothing else"
    with pytest.raises(UserError, match="other settings"):
        run_comparison(config.model_copy(update={"seeds": (1, 2)}), out, silent(), "command")
    least = "['worlds.train=1','worlds.held_out=1','questions.per_world=4','questions.validation=2','questions.held_out=2',"
    least += "'sft.max_steps=1','sft.trainer.warmup_steps=1']"
    given = f"tasks.short.model={out / 'tasks' / 'short' / 'sft-correct' / 'model'}"
    gated = settings(*QUICK, *small, "gate.stops=true", "workers=1", f"recipe={least}", given)
    with pytest.raises(UserError, match="The gate is not passed"):
        run_comparison(gated, tmp_path / "gated", silent(), "command")
    tasks = tmp_path / "gated" / "tasks"
    assert not (tasks / "short" / "sft-correct").exists() and (tasks / "long" / "sft-correct").is_dir()


@pytest.mark.slow
def test_a_comparison_that_is_killed_again_and_again_has_the_same_units(tmp_path: Path):
    sets = [f"--set={one}" for one in (*TWO_ARMS, f"tasks={{{SHORT}}}", "tuning.lrs=[1e-4,1e-3]", "workers=1")]
    peace, out = tmp_path / "peace", tmp_path / "out"
    order = [sys.executable, str(SETTINGS.with_suffix(".py")), "--quick", *sets, "--out"]
    subprocess.run([*order, str(peace)], check=True, capture_output=True)
    for there in (
        "tasks/short/sft-*/metrics.jsonl",
        "tasks/short/evaluation/*",
        "gate/*",
        "work/*/rl/metrics.jsonl",
        "units/*",
    ):
        under_way = subprocess.Popen([*order, str(out)], stdout=subprocess.DEVNULL)
        while not list(out.glob(there)) and under_way.poll() is None:
            time.sleep(0.05)
        under_way.kill()
        assert under_way.wait() == -signal.SIGKILL, f"it ended before {there}"
    subprocess.run([*order, str(out)], check=True, capture_output=True)
    model = Path("tasks/short/sft-correct/model/model.safetensors")
    assert (out / model).read_bytes() == (peace / model).read_bytes()
    for ours, theirs in zip(sorted(out.glob("*s/short.*.json")), sorted(peace.glob("*s/short.*.json")), strict=True):
        one, other = json.loads(ours.read_text()), json.loads(theirs.read_text())
        assert ours.name == theirs.name and one.keys() == other.keys() and one["counts"].keys() == other["counts"].keys()
        assert one.get("rollouts") == other.get("rollouts")
    assert "2 of 2 units" in (out / "report.md").read_text()


# -- The experiment on forgetting: its settings, its skills, what counts, and the whole of it with a minuscule model -------

TRAIN = "{ max_steps = 2, epochs = 5, batch_tokens = 512 }"
SMALL = f"""
worlds = {{ train = 2, train_entities = 60, held_out_entities = 60 }}
questions = {{ per_world = 8, validation = 3, held_out = 4 }}
skills = {{ people = ["person"], things = ["place", "work"] }}
ancestor = {TRAIN}
specialist = {TRAIN}
sweep = {{ values = [0.0, 0.5, 1.0] }}
evaluation = {{ attempts = 1, concurrency = 8 }}
"""


def small(*overrides: str) -> ForgettingConfig:
    return load_config(ForgettingConfig, SMALL, "small.toml", overrides)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("skills.more=['event']", "give two skills"),
        ("skills.things=['person']", "kinds of things of its own"),
        ("skills.things=['year']", "no question starts from a year"),
        ("specialist={epochs = 1}", "set max_steps of ancestor and specialist"),
        ("sweep.metod='ties'", r"did you mean sweep\.method"),
    ],
)
def test_settings_that_cannot_be(override: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        small(override)


PUBLISHED = json.loads((Path(__file__).parents[2] / "benchmarks/results/merge.json").read_text())["runs"][0]
SKILLS = ("people", "things")


def published(changes: Mapping[tuple[str, str, str], Mapping[str, object]]) -> list[Difference]:
    """The published differences, but for some: ``(skill, model, beside)``."""
    return [
        Difference.model_validate({**item, **changes.get((item["skill"], item["model"], item["beside"]), {})})
        for item in PUBLISHED["differences"]
    ]


def test_the_published_figures_by_what_was_written_down_before_them() -> None:
    found = judged(list(PUBLISHED["settings"]["skills"]), published({}))
    assert found.forgotten == {"only-people": True, "only-things": True} and found.keeps_both
    assert found.sentences == [
        "only-people has forgotten the other skill.",
        "only-things has forgotten the other skill.",
        "The merge keeps both skills.",
    ]


@pytest.mark.parametrize(
    ("key", "change", "people_forgot", "keeps"),
    [
        (("things", "only-people", "ancestor"), {"interval": (-0.1, -0.001)}, True, True),
        (("things", "only-people", "ancestor"), {"interval": (-0.1, 0.0)}, False, True),
        (("people", "only-people", "ancestor"), {"interval": (0.1, 0.2)}, True, True),  # its own skill does not count
        (("people", "merged", "only-things"), {"interval": (0.0, 0.1)}, True, False),
        (("things", "merged", "only-people"), {"interval": (-0.01, 0.1)}, True, False),
        (("people", "merged", "only-people"), {"difference": 0.6 - 0.65, "interval": (-0.2, 0.1)}, True, True),
        (("people", "merged", "only-people"), {"difference": -0.0525, "interval": (-0.2, 0.1)}, True, False),
        (("things", "merged", "only-things"), {"difference": -0.0525, "interval": (-0.2, 0.1)}, True, False),
        (("things", "merged", "ancestor"), {"difference": -0.5, "interval": (-0.6, -0.4)}, True, True),
        (("things", "merged", "both"), {"difference": -0.5, "interval": (-0.6, -0.4)}, True, True),
    ],
)
def test_what_counts_as_forgetting_and_as_keeping_both(
    key: tuple[str, str, str], change: dict[str, object], people_forgot: bool, keeps: bool
) -> None:
    found = judged(SKILLS, published({key: change}))
    assert found.forgotten == {"only-people": people_forgot, "only-things": True} and found.keeps_both is keeps
    assert found.sentences[-1] == f"The merge {'keeps both skills' if keeps else 'does not keep both skills'}."
    assert judged(SKILLS[::-1], published({key: change})[::-1]) == found


@pytest.mark.slow
def test_the_recipe_from_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("mergekit", reason="the extra [merge] is not installed")
    shape = ModelShape(hidden=32, layers=1, heads=2, kv_heads=2, head_dim=16, intermediate=32, max_positions=2048)
    base = tmp_path / "base"
    write_untrained(BaseConfig(shape=shape, vocab_size=800, tokenizer_worlds=1), base)
    config = small().model_copy(update={"base": base})
    out = tmp_path / "run"
    run_forgetting(config, out, Report(Console(quiet=True)), "python experiments/forgetting.py")
    found = json.loads((out / "figures.json").read_text())
    assert set(found["held_out"]) == {"ancestor", "only-people", "only-things", "merged", "both"}
    assert all(cell["questions"] == 4 for cells in found["held_out"].values() for cell in cells.values())
    assert set(found["verdict"]["forgotten"]) == {"only-people", "only-things"}
    assert len(found["differences"]) == 12 and found["weight"] in (0.0, 0.5, 1.0)
    assert {name: len(read_metrics(out / name / "metrics.jsonl")) for name in ("ancestor", "only-people", "both")} == {
        "ancestor": 2, "only-people": 2, "both": 4,
    }  # fmt: skip
    assert (out / "sweep/sweep.json").is_file() and (out / "sweep/best/merge.json").is_file()
    before = (out / "held-out/merged/people/result.json").read_bytes()
    run_forgetting(config, out, Report(Console(quiet=True)), "python experiments/forgetting.py")
    assert (out / "held-out/merged/people/result.json").read_bytes() == before
