"""What can be swept and which point is the best; sweeps over skills: measured once, gone on with, never mixed."""

import asyncio
import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from merge_models import needs_mergekit, save_models, weights_of
from rich.console import Console
from typer.testing import CliRunner

from sanderling.cli.merge import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import FixedClock, Message
from sanderling.data.questions import read_questions, write_questions
from sanderling.merge.run import read_merge
from sanderling.merge.settings import MergeSettings
from sanderling.merge.sweep import Axis, SweepConfig, SweepReport, best, run_sweep, settings_along
from sanderling.policy.contract import PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.runs.progress import Report

A, B, C = Path("a"), Path("b"), Path("c")
LINEAR = MergeSettings.model_validate({"method": "linear", "models": [A, B]})
TIES = MergeSettings.model_validate({"method": "ties", "models": [A, B], "base": C, "weights": [0.4, 0.6]})


@pytest.mark.parametrize(
    ("means", "at"),
    [
        ({0.0: 0.5, 0.5: 0.4, 1.0: 0.6}, 1.0), ({0.0: 0.5, 0.4: 0.5, 1.0: 0.5}, 0.4),
        ({0.0: 0.1, 0.25: 0.5, 0.75: 0.5, 1.0: 0.1}, 0.25), ({0.0: 0.1, 0.5: None, 1.0: 0.05}, 0.0), ({0.5: None}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_best_has_the_highest_mean_then_lies_in_the_middle_then_is_the_smaller(
    means: dict[float, float | None], at: float | None
) -> None:
    assert best(means) == at


def test_each_axis_changes_its_own_coefficient() -> None:
    def at(settings: MergeSettings, axis: Axis, value: float) -> MergeSettings:
        return settings_along(settings, axis, [value])[value]

    assert at(LINEAR, Axis.WEIGHT, 0.25).weights == (0.75, 0.25)
    slerp = MergeSettings.model_validate({"method": "slerp", "models": [A, B]})
    assert at(slerp, Axis.WEIGHT, 0.25).t == 0.25 and at(slerp, Axis.WEIGHT, 0.25).weights == ()
    assert at(TIES, Axis.SCALE, 0.5).scale == 0.5 and at(TIES, Axis.SCALE, 0.5).weights == (0.4, 0.6)
    assert at(TIES, Axis.DENSITY, 0.5).density == 0.5


@pytest.mark.parametrize(
    ("settings", "axis", "values", "told"),
    [
        ({"method": "ties", "models": [A], "base": B}, Axis.WEIGHT, (0.5,), "between two models, and 1"),
        ({"method": "linear", "models": [A, B], "weights": [1, 2]}, Axis.WEIGHT, (0.5,), "leave --weight out"),
        ({"method": "linear", "models": [A, B]}, Axis.SCALE, (0.5,), "linear has no scale"),
        ({"method": "task-arithmetic", "models": [A], "base": B}, Axis.DENSITY, (0.5,), "has no density"),
        ({"method": "linear", "models": [A, B]}, Axis.WEIGHT, (), "different values"),
        ({"method": "linear", "models": [A, B]}, Axis.WEIGHT, (0.5, 0.5), "different values"),
        ({"method": "slerp", "models": [A, B]}, Axis.WEIGHT, (0.5, 2.0), "no merge at weight 2"),
        ({"method": "ties", "models": [A], "base": B}, Axis.DENSITY, (0.0,), "no merge at density 0"),
        ({"method": "linear", "models": [A, B]}, Axis.WEIGHT, (float("nan"),), "no merge at weight nan"),
    ],
)
def test_a_sweep_that_is_none_is_refused(settings: dict[str, Any], axis: Axis, values: tuple[float, ...], told: str) -> None:
    with pytest.raises(UserError, match=told):
        settings_along(MergeSettings.model_validate(settings), axis, values)


pytestmark = needs_mergekit
NORM = "model.norm.weight"
COUNT = 4


@dataclass
class Lab:
    """Models whose first norm weight says how far they lie from the first (0) to the second (1); and what they are asked."""

    root: Path
    models: list[Path]
    opened: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    breaks_after: int | None = None
    outage_from: float | None = None
    """The share from which on the model is away."""

    def open_policy(self, path: Path) -> ScriptedPolicy:
        share = float(weights_of(path)[NORM][0])
        self.opened.append(f"{share:.2f}")

        def reply(messages: Sequence[Message], key: SampleKey) -> str:
            if self.breaks_after is not None and sum(self.asked.values()) >= self.breaks_after:
                raise KeyboardInterrupt
            if self.outage_from is not None and share >= self.outage_from:
                raise PolicyOutageError("away")
            skill, number = messages[-1].content.split()[-2:]
            self.asked[f"{share:.2f} {skill} {number}"] += 1
            # The first skill fades with the share, the second comes with it; both are whole from 0.4 to 0.6.
            able = share <= 0.65 + int(number) / 10 if skill == "old" else share >= 0.35 - int(number) / 10
            return f"<think>x</think>\n<answer>{'yes' if able else 'no'}</answer>"

        return ScriptedPolicy(reply)

    def sweep(self, values: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0), **changes: Any) -> SweepConfig:
        settings = {
            "merge": {"method": "linear", "models": self.models},
            "values": values,
            "skills": {name: questions(self.root, name) for name in ("old", "new")},
            "agent": {"worlds": [self.root / "W"], "concurrency": 2, "seed": 3},
        }
        return SweepConfig.model_validate(settings | changes)

    def run(self, sweep: SweepConfig, out: Path, command: str = "a test") -> SweepReport:
        clock = FixedClock(datetime.date(2026, 1, 1))

        def open_model(spec: str, **_: object) -> ScriptedPolicy:
            return self.open_policy(Path(spec))

        with patch("sanderling.policy.load.open_policy", open_model):
            return run_sweep(sweep, out, command, Report(Console(quiet=True)), clock=clock)


def questions(root: Path, name: str, count: int = COUNT) -> Path:
    """A file of questions, and its path."""
    asked = [Question(id=f"{name}-{i}", text=f"Can you do {name} {i}", answers=("yes",)) for i in range(count)]
    write_questions(root / f"{name}-{count}.jsonl", asked)
    return root / f"{name}-{count}.jsonl"


def small_world(place: Path) -> None:
    from sanderling.world.disk.building import build_world
    from sanderling.world.encyclopedia import Names, generate_encyclopedia

    world = generate_encyclopedia(40, 1, Names.TRAIN)
    build_world(place, (item.page for item in world.pages), name="w", source="encyclopedia", seed=1)


def change_norm(model: Path, value: float) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(model / "model.safetensors")
    weights[NORM][:] = value
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    models = save_models(tmp_path, 2)
    for place, model in enumerate(models):
        change_norm(model, float(place))
    small_world(tmp_path / "W")
    return Lab(tmp_path, models)


def test_the_sweep_finds_the_merge_that_keeps_both(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    report = lab.run(lab.sweep(), out)
    figures = {point.name: (point.skills["old"].value, point.skills["new"].value) for point in report.points}
    assert figures == {"0": (1.0, 0.0), "0.25": (1.0, 0.75), "0.5": (1.0, 1.0), "0.75": (0.75, 1.0), "1": (0.0, 1.0)}
    assert report.best == 0.5 and report.chosen is not None and report.chosen.mean == 1.0
    assert SweepReport.model_validate_json((out / "sweep.json").read_bytes()) == report
    assert read_merge(out / "best").sha256 == report.chosen.sha256
    assert float(weights_of(out / "best")[NORM][0]) == 0.5
    assert not (out / "model").exists(), "other merged models are gone"
    assert [item.name for item in report.inputs] == [str(model) for model in lab.models]


def test_equal_weights_are_measured_once(lab: Lab, tmp_path: Path) -> None:
    report = lab.run(lab.sweep((0.0, 0.5, 1.0)), tmp_path / "sweep")
    assert sorted(lab.opened) == ["0.00", "0.50", "1.00"], "the ends of the axis are the inputs, bit for bit"
    assert report.points[0].sha256 == report.inputs[0].sha256
    assert set(lab.asked.values()) == {1}


@pytest.mark.parametrize("after", [9, 21])
def test_a_sweep_that_was_stopped_goes_on_and_repeats_no_turn(lab: Lab, after: int, tmp_path: Path) -> None:
    lab.breaks_after = after
    with pytest.raises(KeyboardInterrupt):
        lab.run(lab.sweep(), tmp_path / "sweep")
    lab.breaks_after = None
    report = lab.run(lab.sweep(), tmp_path / "sweep")
    assert set(lab.asked.values()) == {1} and len(lab.asked) == 5 * 2 * COUNT
    again = Lab(lab.root, lab.models)
    whole = again.run(again.sweep(), tmp_path / "whole")
    assert report.points == whole.points and report.best == whole.best


def test_a_finished_sweep_does_nothing_again_and_takes_further_values(lab: Lab, tmp_path: Path) -> None:
    lab.run(lab.sweep((0.0, 1.0)), tmp_path / "sweep")
    asked = dict(lab.asked)
    lab.run(lab.sweep((0.0, 1.0)), tmp_path / "sweep")
    assert dict(lab.asked) == asked
    report = lab.run(lab.sweep((0.4,)), tmp_path / "sweep")
    assert report.best == 0.4 and len(lab.asked) == len(asked) + 2 * COUNT
    assert [point.name for point in report.points] == ["0", "0.4", "1"], "all that was ever measured"


def test_another_sweep_is_not_mixed_with_this_one(lab: Lab, tmp_path: Path) -> None:
    lab.run(lab.sweep((0.0, 1.0)), tmp_path / "sweep")
    agent = lab.sweep().agent
    others = [{"agent": agent.model_copy(update=it)} for it in ({"seed": 4}, {"dtype": "bfloat16"}, {"device": "cuda"})]
    others += [{"skills": {"old": questions(tmp_path, "old", 3), "new": questions(tmp_path, "new")}}, {"attempts": 2}]
    for changes in others:
        with pytest.raises(UserError, match="made with other settings"):
            lab.run(lab.sweep((0.0, 1.0)).model_copy(update=changes), tmp_path / "sweep")
    with pytest.raises(UserError, match="holds other things"):
        lab.run(lab.sweep((0.0, 1.0)), lab.models[0])


def test_skills_need_questions(lab: Lab, tmp_path: Path) -> None:
    for skills, told in (({}, "needs skills"), ({"old": questions(tmp_path, "old", 0)}, "holds no question")):
        with pytest.raises(UserError, match=told):
            lab.run(lab.sweep(skills=skills), tmp_path / "sweep")
    with pytest.raises(UserError, match="did you mean 'exact'"):
        lab.run(lab.sweep(judge={"judges": ["exat"]}), tmp_path / "sweep")
    mute = questions(tmp_path, "mute")
    write_questions(mute, [one.model_copy(update={"answers": ()}) for one in read_questions(mute)])
    with pytest.raises(UserError, match="has no accepted answer"):
        lab.run(lab.sweep(skills={"mute": mute}), tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is tried again at once."""
    monkeypatch.setattr("asyncio.sleep", partial(lambda sleep, seconds: sleep(0), asyncio.sleep))


def test_what_could_not_be_measured_is_never_the_best(lab: Lab, tmp_path: Path, hasty: None) -> None:
    lab.outage_from = 0.0
    report = lab.run(lab.sweep((0.5,)), tmp_path / "sweep")
    assert report.best is None and report.points[0].mean is None and not (tmp_path / "sweep" / "best").exists()


def call(lab: Lab, *words: object) -> str:
    asked = ["sweep", "linear", *lab.models, "--world", lab.root / "W", "--out", *words]
    return CliRunner().invoke(app, list(map(str, asked)), catch_exceptions=False, env={"COLUMNS": "200"}).output


def test_the_command_shows_its_table_and_keeps_to_its_settings(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: None
) -> None:
    monkeypatch.setattr("sanderling.policy.load.open_policy", lambda spec, **_: lab.open_policy(Path(spec)))
    skill = ("--skill", f"old={questions(tmp_path, 'old')}", "--set", "values=[0.5]")
    told = call(lab, tmp_path / "out", *skill, "--set", "agent.dtype=bfloat16")
    assert f"The best merge is {tmp_path / 'out/best'}" in told and "0.5 (best)" in told
    how = SweepReport.model_validate_json((tmp_path / "out/sweep.json").read_bytes()).how
    models = {"search": "lexical", "seed": 0, "device": "cpu", "dtype": "bfloat16"}
    assert how["agent"] == {**models, "tools": [], "filters": [], "reader": ""}
    with pytest.raises(UserError, match='is "float32"'):
        call(lab, tmp_path / "out", *skill)
    lab.outage_from = 0.0
    assert "No point could be measured" in call(lab, tmp_path / "none", *skill)
