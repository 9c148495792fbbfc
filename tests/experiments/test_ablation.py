"""The ablation: two-way intervals by hand, arms that differ in what they say, units that resume, the command end to end."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ablation import QUICK, SETTINGS, Ablation, AblationConfig, run_ablation
from ablation_report import beside_rates, cells_of, write_report
from forgetting import Difference, ForgettingConfig, judged, run_forgetting
from rich.console import Console
from rl_runs import silent, write_given
from tiny_base import BaseConfig, write_untrained

from sanderling.core.config import load_config, read_config
from sanderling.core.errors import UserError
from sanderling.recipes.tiny import find_recipe
from sanderling.rl.credit import IgpoConfig
from sanderling.runs.progress import Report
from sanderling.runs.run import Run
from sanderling.runs.stages import STAGES
from sanderling.train.metrics import read_metrics
from sanderling.train.random_model import ModelShape

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "ablation"


def settings(*overrides: str) -> AblationConfig:
    return read_config(AblationConfig, SETTINGS, overrides)


def unit(seed: int, right: list[int], scored: int = 4, **more: Any) -> dict[str, Any]:
    counts = {f"q{place}": [count, scored, 1] for place, count in enumerate(right)}
    return {"seed": seed, "lr": 1e-4, "seconds": 1.0, "counts": counts, **more}


# -- figures ---------------------------------------------------------------------------------------------------------------


def test_the_supervised_model_is_made_with_the_settings_of_its_time() -> None:
    """The tiny recipe has moved on; what the published figures began with has not."""
    tiny = find_recipe("tiny", overrides=settings().start_settings)
    assert (tiny.worlds.train, tiny.worlds.held_out, tiny.worlds.held_out_seed) == (40, 1, 7001)
    assert (tiny.questions.per_world, tiny.questions.drawn, tiny.questions.validation) == (150, 1, 64)
    assert (tiny.sft.max_steps, tiny.sft.epochs, tiny.sft.trainer.lr, tiny.sft.trainer.muon_lr) == (1000, 3, 3e-3, 0.02)


def test_shares_and_pass_at_k_of_each_seed_and_question():
    cells = cells_of([unit(2, [4, 0]), unit(1, [1, 2])], 4)
    assert cells.seeds == (1, 2)
    assert cells.pass_1.tolist() == [[0.25, 0.5], [1.0, 0.0]]
    assert cells.pass_k.tolist() == [[1.0, 1.0], [1.0, 0.0]]


# -- settings --------------------------------------------------------------------------------------------------------------


def test_each_arm_differs_from_igpo_in_what_its_name_says():
    config = settings()
    arms = {name: config.rl_of(name, lr=1e-4, seed=1) for name in config.arms if config.arms[name].trained}
    igpo = arms["igpo"]
    assert isinstance(igpo.estimator, IgpoConfig) and igpo.gain is not None

    def differing(name: str) -> set[str]:
        def flat(value: Any, path: str) -> dict[str, Any]:
            if isinstance(value, dict):
                return {key: found for name, below in value.items() for key, found in flat(below, f"{path}.{name}").items()}
            return {path: sorted(value) if isinstance(value, list) else value}

        one, other = (flat(arm.model_dump(mode="json"), "") for arm in (arms[name], igpo))
        return {key.strip(".") for key in one.keys() | other.keys() if one.get(key) != other.get(key)}

    assert differing("igpo-every-tool") == {"estimator.assignment", "gain.tools"}
    assert differing("igpo-no-scale") == {"estimator.mode"}
    assert differing("igpo-no-penalty") == {"estimator.penalty_weight"}
    assert {key.partition(".")[0] for key in differing("igpo-no-denoising")} == {"denoise"}
    assert differing("igpo-returns") == {"estimator.mode", "estimator.discount"}
    assert {key.partition(".")[0] for key in differing("grpo")} == {"estimator", "gain"}


def test_arms_have_equal_rollouts_and_equal_trials():
    config = settings()
    run = Ablation(Path("run"), config)
    budgets = {
        (rl.steps, rl.questions_per_step, rl.group_size, rl.denoise.drop_flat, rl.denoise.most_groups)
        for rl in (config.rl_of(name, lr=1e-4, seed=1) for name in run.trained)
    }
    assert budgets == {(24, 8, 8, False, 1.0)}, "and no group is replaced, whatever denoising leaves of it"
    trials = run.trials()
    counts = {(s, arm): sum((t.setting, t.arm) == (s, arm) for t in trials) for s in config.settings for arm in run.trained}
    assert set(counts.values()) == {3}
    assert len(config.seeds) >= 5 and config.tuning.seed not in config.seeds
    assert config.worlds.held_out_seed != 7001, "a held-out world of its own"


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("settings.dense.hops={x=1.0}", "'x' is not a number of hops"), ("settings={}", "there are no settings"),
        ("seeds=[]", "there are no seeds"), ("seeds=[1,1]", "twice"), ("seeds=[-1]", "greater than or equal to 0"),
        ("profile=nope", "there is no profile 'nope': choose one of"), ("tuning.seed=1", "1 is a unit's seed"),
        ("tuning.lrs=[]", "give learning rates above 0"), ("rl.trainer.temperature=0.5", r"NAME\.rollout\.temperature"),
        ("rl.steps=-1", "In rl, steps"), ("arms.igpo.like=nope", "choose from sft, grpo"),
    ],
)  # fmt: skip
def test_settings_are_refused_before_hours_are_spent(setting: str, told: str):
    with pytest.raises(UserError, match=told):
        settings(setting)


# -- the report ------------------------------------------------------------------------------------------------------------


def write_units(root: Path) -> None:
    (root / "units").mkdir()
    for arm, right, end in (("sft", [1, 1, 1], None), ("grpo", [2, 2, 2], 0.62), ("igpo", [3, 4, 3], 0.7)):
        for seed in (1, 2):
            told = unit(seed, right) | ({} if end is None else {"curve": [[0, 0.5], [640, end]]})
            (root / "units" / f"dense.{arm}.seed-{seed}.json").write_text(json.dumps(told))


def test_a_report_tells_what_is_there_and_says_nothing_of_fewer_seeds(tmp_path: Path):
    write_units(tmp_path)
    run = Ablation(tmp_path, settings())
    text = write_report(run, "python experiments/ablation.py").read_text()
    assert "6 of 80 units" in text and "| SFT | 2 | – | 25.0%" in text
    assert re.search(
        r"\+ IGPO against \+ GRPO: \+33\.3 points \(\+25\.0 to \+[45]\d\.\d, 2 seeds\): under way, so nothing", text
    ), text


def test_the_published_table_is_made_of_the_published_units(tmp_path: Path):
    (tmp_path / "units").symlink_to(RESULTS / "units")
    text = write_report(Ablation(tmp_path, settings()), "command").read_text()
    published = (RESULTS / "report.md").read_text().splitlines()
    assert [line for line in text.splitlines() if line[:1] in "|-"] == [line for line in published if line[:1] in "|-"]
    readme = (RESULTS / "README.md").read_text()
    shown = [line.replace("1e-04", "0.0001") for line in beside_rates(RESULTS / "units")]
    assert [line for line in shown if line not in readme] == []


# -- end to end ------------------------------------------------------------------------------------------------------------


def test_a_start_that_is_no_model_is_told_before_anything_is_built(tmp_path: Path):
    with pytest.raises(UserError, match="There is no model directory at nosuch"):
        run_ablation(settings(*QUICK, "start=nosuch"), tmp_path / "out", silent(), "command")
    assert not (tmp_path / "out").exists(), "nothing was begun, so another start may be named"


@pytest.mark.slow
def test_the_recipe_from_end_to_end_and_once_more(tmp_path: Path):
    base = write_given(tmp_path / "given") / "base"
    small = ["arms={sft = {label = 'SFT', trained = false}, grpo = {label = 'GRPO', rl = {estimator = {kind = 'grpo'}}}}"]
    small += [
        f"start={base}", "workers=1", "tuning.lrs=[1e-4,1e-3]", "criterion.compared={grpo = ['sft']}",
        "questions.held_out=3",
    ]  # fmt: skip
    config = settings(*QUICK, *small)
    out = tmp_path / "out"
    run_ablation(config, out, silent(), "command")
    names = {file.name for file in (out / "units").iterdir()}
    assert len(list((out / "trials").iterdir())) == 4, "two for the trained arm in each setting"
    assert names == {f"{s}.{arm}.seed-1.json" for s in ("dense", "sparse") for arm in ("sft", "grpo")}
    found = json.loads((out / "units" / "dense.grpo.seed-1.json").read_text())
    assert found["rollouts"] == 8 and [point[0] for point in found["curve"]] == [0, 4, 8]
    assert all(scored == 2 for _, scored, _ in found["counts"].values()), "attempts at each question"
    assert not (out / "work" / "units").exists() or not list((out / "work" / "units").iterdir())
    (out / "units" / "sparse.grpo.seed-1.json").unlink()
    with Run(out) as under_way:
        under_way.table(STAGES).remove("units")
    kept = (out / "units" / "dense.grpo.seed-1.json").stat().st_mtime_ns
    run_ablation(config, out, silent(), "command")
    assert (out / "units" / "sparse.grpo.seed-1.json").is_file(), "what was missing is made"
    assert (out / "units" / "dense.grpo.seed-1.json").stat().st_mtime_ns == kept, "and nothing else"
    with pytest.raises(UserError, match="other settings"):
        run_ablation(config.model_copy(update={"seeds": (1, 2)}), out, silent(), "command")


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
