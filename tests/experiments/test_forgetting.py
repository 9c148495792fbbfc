"""The experiment on forgetting: its settings, its skills, what counts, and the whole of it with a minuscule model."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from forgetting import Difference, ForgettingConfig, judged, run_forgetting
from rich.console import Console
from tiny_base import BaseConfig, write_untrained

from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.runs.progress import Report
from sanderling.train.metrics import read_metrics
from sanderling.train.random_model import ModelShape

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
        "ancestor": 2,
        "only-people": 2,
        "both": 4,
    }
    assert (out / "sweep/sweep.json").is_file() and (out / "sweep/best/merge.json").is_file()
    before = (out / "held-out/merged/people/result.json").read_bytes()
    run_forgetting(config, out, Report(Console(quiet=True)), "python experiments/forgetting.py")
    assert (out / "held-out/merged/people/result.json").read_bytes() == before
