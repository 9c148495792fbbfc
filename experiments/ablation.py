"""Which parts of RL matter, at a size that a CPU can repeat: arms over seeds and settings, from one supervised model.

    python experiments/ablation.py --out runs/ablation                                     # makes that model first; hours
    python experiments/ablation.py --out runs/ablation --set start=runs/tiny/sft-correct/model
    python experiments/ablation.py --quick

All arms have equal rollouts and equal trials of tuning. ``ablation.toml`` holds the settings that decide it, committed before
the first run. Units (setting, arm, seed) and trials are files of their own: killed at any moment, the same command goes on, and
``report.md`` and ``curves.html`` are written anew after each. What came of it: benchmarks/results/ablation.
"""

import asyncio
import datetime
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from pydantic import Field, field_validator, model_validator
from rich.console import Console

from sanderling.agent.agent import Agent
from sanderling.core.config import Frozen, check_config, read_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, Profile, get_profile
from sanderling.data.questions import read_questions
from sanderling.evaluate.run import evaluate_async
from sanderling.policy.model_directory import check_model
from sanderling.recipes.tiny import HELD_OUT, JUDGE, Questions, TinyConfig, TinyRun, Worlds, build_worlds, find_recipe
from sanderling.recipes.tiny_stages import supervised_stages
from sanderling.rl.config import RlConfig, RlRecipe, RolloutConfig
from sanderling.rl.launch import Order, run_rl_command
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report, command_line
from sanderling.runs.stages import Stage, command_in, content_hash, read_record, run_stages
from sanderling.train.launch import run_tasks
from sanderling.train.metrics import read_metrics

SETTINGS = Path(__file__).with_name("ablation.toml")
QUICK = (
    "title='ablation-tiny, quick'",
    "seeds=[1]",
    "worlds.train=2",
    "questions.per_world=20",
    "questions.validation=4",
    "questions.held_out=6",
    "rl.steps=2",
    "rl.questions_per_step=2",
    "rl.group_size=2",
    "tuning.lrs=[1e-4]",
    "tuning.steps=1",
    "measuring.every=1",
    "measuring.attempts=2",
    "measuring.validation_attempts=1",
    "criterion.resamples=200",
    "start_settings=['worlds.train=2','worlds.held_out=1','questions.per_world=20','questions.validation=4','sft.max_steps=4']",
)
Seed = Annotated[int, Field(ge=0)]


# -- settings ------------------------------------------------------------------------------------------------------------


class Setting(Frozen):
    """What is asked, and within which budgets."""

    label: str
    hops: dict[str, float]
    """Number of relations to follow to its share."""
    rollout: RolloutConfig = RolloutConfig()
    """In training and in every measurement."""

    @field_validator("hops")
    @classmethod
    def _numbers_of_hops(cls, hops: dict[str, float]) -> dict[str, float]:
        return Questions(hops=hops).hops


class Arm(Frozen):
    """What is trained, and how."""

    label: str
    like: str = ""
    """Another arm whose settings it begins with."""
    trained: bool = True
    """False: the supervised model as it is."""
    rl: dict[str, Any] = Field(default={})
    """Laid over the experiment's, or over those of ``like``; an estimator or a loss of another kind replaces it whole."""


class Tuning(Frozen):
    """Trials, the same for every trained arm in every setting: each learning rate once, by the validation world."""

    lrs: tuple[float, ...]
    steps: int = Field(ge=1)
    seed: Seed = 0


class Measuring(Frozen):
    """How models are measured."""

    attempts: int = Field(default=4, ge=1)
    """At each held-out question."""
    every: int = Field(default=5, ge=1)
    """Steps between measurements on the validation world, which also select the model that is measured."""
    validation_attempts: int = Field(default=2, ge=1)
    concurrency: int = Field(default=64, ge=1)


class Criterion(Frozen):
    """What is said of the result, decided beforehand."""

    gain: float = Field(default=0.05, gt=0)
    """The target of learning curves: so much above the supervised model on the validation world."""
    level: float = Field(default=0.95, gt=0, lt=1)
    """An arm differs from another where this interval of the difference, over seeds and questions, excludes 0."""
    resamples: int = Field(default=4000, ge=100)
    seed: int = 0
    compared: dict[str, list[str]] = Field(default={})
    """Each arm to those it is compared with."""


class AblationConfig(Frozen):
    """Everything the experiment does, resolved."""

    title: str = "ablation-tiny"
    start: Path | None = None
    """The supervised model; None: the better arm of the tiny recipe's, made here once."""
    start_settings: tuple[str, ...] = ()
    """Overrides of the tiny recipe that makes it."""
    profile: str = "tiny"
    date: datetime.date = datetime.date(2026, 1, 1)
    workers: int = Field(default=2, ge=1)
    """Units at a time, a process of one thread each."""
    keep_rollouts: bool = False
    """Whether a finished unit's rollouts and checkpoints stay, some 50 MB each."""
    seeds: tuple[Seed, ...] = (1, 2, 3, 4, 5)
    worlds: Worlds = Worlds()
    questions: Questions = Questions()
    """But for their hops, which are each setting's."""
    rl: dict[str, Any]
    settings: dict[str, Setting]
    arms: dict[str, Arm]
    tuning: Tuning
    measuring: Measuring = Measuring()
    criterion: Criterion = Criterion()

    @model_validator(mode="after")
    def _equal_and_known(self) -> Self:
        for name, found in (("settings", self.settings), ("arms", self.arms), ("seeds", self.seeds)):
            if not found:
                raise ValueError(f"there are no {name}: name one at least")
        if self.profile not in PROFILES:
            raise ValueError(f"there is no profile {self.profile!r}: choose one of {', '.join(PROFILES)}")
        if not self.tuning.lrs or min(self.tuning.lrs) <= 0:
            raise ValueError("tuning.lrs: give learning rates above 0, one at least (with one alone there are no trials)")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is there twice, and would be the same run")
        if len(self.tuning.lrs) > 1 and self.tuning.seed in self.seeds:
            raise ValueError(f"tuning.seed: {self.tuning.seed} is a unit's seed, and trials would see what units are judged by")
        if "temperature" in self.rl.get("trainer", {}):
            raise ValueError("rl.trainer.temperature is each setting's own: set settings.NAME.rollout.temperature instead")
        for where, rl in (("rl", self.rl), *((f"arms.{name}.rl", arm.rl) for name, arm in self.arms.items())):
            own = [name for name in ("seed", "selection") if name in rl]
            own += ["trainer.lr"] if "lr" in rl.get("trainer", {}) else []
            if own:
                raise ValueError(f"{where}.{own[0]} is each unit's own: set seeds, tuning.lrs, measuring.every instead")
        check_config(RlConfig, self.rl, "rl")  # in its own name before any arm's
        for name, arm in self.arms.items():
            unequal = [key for key in ("steps", "questions_per_step", "group_size") if key in arm.rl]
            if unequal:
                raise ValueError(
                    f"arms.{name}.rl.{unequal[0]}: arms have equal rollouts, so set rl.{unequal[0]} for all of them"
                )
            self._lineage(name)
            if arm.trained:
                self.rl_of(name, lr=min(self.tuning.lrs), seed=0)
        compared = {*self.criterion.compared, *(other for others in self.criterion.compared.values() for other in others)}
        strange = sorted(compared - self.arms.keys())
        if strange:
            raise ValueError(f"{strange[0]} is compared, and is no arm: choose from {', '.join(self.arms)}")
        return self

    def _lineage(self, name: str) -> list[str]:
        """An arm, the one it is like, and so on. Raises ValueError where that does not end."""
        seen = [name]
        while like := self.arms[seen[-1]].like:
            if like not in self.arms:
                raise ValueError(f"arm {seen[-1]} is like {like}, which is none: choose from {', '.join(self.arms)}")
            if like in seen:
                raise ValueError(f"arm {name} is like itself, by way of {', '.join(seen[1:]) or 'nobody'}")
            seen.append(like)
        return seen

    def rl_of(self, arm: str, *, lr: float, seed: int, steps: int | None = None) -> RlConfig:
        """An arm's RL, with a learning rate and a seed. ``steps``: fewer than the experiment's."""
        merged = self.rl
        for name in reversed(self._lineage(arm)):
            merged = _laid_over(merged, self.arms[name].rl)
        every, attempts = self.measuring.every, self.measuring.validation_attempts
        own = {"seed": seed, "trainer": {"lr": lr}, "selection": {"every": min(every, steps or every), "attempts": attempts}}
        return check_config(RlConfig, _laid_over(merged, own | ({"steps": steps} if steps else {})), f"arms.{arm}.rl")


def _laid_over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Sections merged; one that names another ``kind`` replaces what was there."""
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        both = isinstance(below, dict) and isinstance(value, dict) and value.get("kind", below.get("kind")) == below.get("kind")
        found[key] = _laid_over(below, value) if both and isinstance(below, dict) else value
    return found


# -- a run ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """One thing that is run, or gone on with: an arm in a setting with a seed."""

    setting: str
    arm: str
    seed: int
    lr: float
    trial: bool = False
    """Of tuning: shorter, and not measured on the held-out world."""

    @property
    def place(self) -> str:
        """Of its files."""
        name = f"{self.setting}.{self.arm}"
        return f"trials/{name}.lr-{self.lr:g}" if self.trial else f"units/{name}.seed-{self.seed}"


@dataclass(frozen=True)
class Ablation:
    """One run's directory and settings."""

    root: Path
    config: AblationConfig

    def worlds(self, setting: str) -> TinyRun:
        """A setting's worlds and questions, laid out as the tiny recipe's."""
        config = self.config
        questions = config.questions.model_copy(update={"hops": config.settings[setting].hops})
        title = f"{config.title}, {setting}"
        tiny = TinyConfig(title=title, profile=config.profile, date=config.date, worlds=config.worlds, questions=questions)
        return TinyRun(self.root / "settings" / setting, tiny)

    def profile(self, setting: str) -> Profile:
        """As a setting's agents run it."""
        return self.config.settings[setting].rollout.applied(get_profile(self.config.profile))

    def result(self, unit: Unit) -> Path:
        """What a finished unit leaves."""
        return self.root / f"{unit.place}.json"

    @property
    def trained(self) -> list[str]:
        """Arms that are trained."""
        return [name for name, arm in self.config.arms.items() if arm.trained]

    def trials(self) -> list[Unit]:
        """Every trial, those of one learning rate after one another; with a single rate there is nothing to try."""
        lrs, seed = self.config.tuning.lrs, self.config.tuning.seed
        if len(lrs) == 1:
            return []
        return [Unit(setting, arm, seed, lr, True) for lr in lrs for setting in self.config.settings for arm in self.trained]

    def units(self, lrs: dict[str, dict[str, float]]) -> list[Unit]:
        """Every unit, seed by seed. ``lrs``: chosen learning rates by setting and arm."""
        return [
            Unit(setting, arm, seed, lrs[setting].get(arm, 0.0))
            for seed in self.config.seeds
            for setting in self.config.settings
            for arm in self.config.arms
        ]


def run_ablation(config: AblationConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet and write the report.

    Raises UserError when the directory holds a run with other settings, and when ``start`` is no model.
    """
    from ablation_report import write_report

    run = Ablation(directory.resolve(), config)
    if config.start is not None:
        check_model(config.start)  # before worlds are built for it

    def worlds() -> dict[str, Any]:
        return {setting: build_worlds(run.worlds(setting), report) for setting in config.settings}

    def units() -> dict[str, Any]:
        found = run.units(read_record(run.root, "tune").figures["lrs"])
        _run_units(run, found, "Units", report, lambda: write_report(run, command))
        return {"units": len(found)}

    stages = [
        Stage("worlds", "Worlds and questions of each setting", worlds),
        Stage("start", "The model that every arm begins with", lambda: _start(run, command, report)),
        Stage("tune", "Trials of each arm", lambda: _tune(run, report)),
        Stage("units", "Arms over seeds", units),
    ]
    decisive = config.model_dump(mode="json", exclude={"workers", "keep_rollouts", "title"})
    run_stages(stages, run.root, decisive, report)
    page = write_report(run, command)
    report.console.print(page.read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    report.say(f"The report is {page}; what it is made of: {run.root / 'units'}.")


def _start(run: Ablation, command: str, report: Report) -> dict[str, Any]:
    """The supervised model that all begin with: one that was given, or the better arm of the tiny recipe, made here once."""
    model, figures = run.config.start, {}
    if model is None:
        config = find_recipe("tiny", overrides=[f"workers={run.config.workers}", *run.config.start_settings])
        tiny = TinyRun(run.root / "start", config)
        stages = supervised_stages(tiny, command, report)
        figures = run_stages(stages, tiny.root, config.model_dump(mode="json", exclude={"workers"}), report)[-1].figures
        model = tiny.model(figures["chosen"])
    check_model(model)
    weights = {file.name: content_hash(file) for file in sorted(model.glob("*.safetensors"))}
    return {"model": str(model.resolve()), "weights": weights, **figures}


def _tune(run: Ablation, report: Report) -> dict[str, Any]:
    """Each arm's learning rate in each setting: of its trials the one that ended best on the validation world."""
    trials, first = run.trials(), run.config.tuning.lrs[0]
    found = {setting: dict.fromkeys(run.trained, first) for setting in run.config.settings}
    if not trials:
        return {"lrs": found, "trials": {}}
    _run_units(run, trials, "Trials", report, lambda: None)
    ended = {unit: json.loads(run.result(unit).read_text(encoding="utf-8"))["curve"][-1][1] for unit in trials}
    for setting, arms in found.items():
        for arm in arms:
            own = [unit for unit in trials if (unit.setting, unit.arm) == (setting, arm)]
            arms[arm] = max(own, key=lambda unit: (ended[unit], -unit.lr)).lr
    return {"lrs": found, "trials": {Path(unit.place).name: value for unit, value in ended.items()}}


def _run_units(run: Ablation, units: Sequence[Unit], title: str, report: Report, on_finished: Callable[[], object]) -> None:
    """Run units at the same time, a process each; ``on_finished`` is called when another one has come to its end."""
    start = Path(read_record(run.root, "start").figures["model"])

    def finished() -> int:
        return sum(run.result(unit).is_file() for unit in units)

    seen = finished()
    with report.task(title, len(units), start=seen) as advance:

        def poll() -> None:
            nonlocal seen
            now = finished()
            if now != seen:
                advance(now - seen)
                seen = now
                on_finished()

        tasks = [partial(run_unit, run, unit, start) for unit in units if not run.result(unit).is_file()]
        if tasks:
            run_tasks(tasks, run.config.workers, poll)
        poll()


# -- a unit --------------------------------------------------------------------------------------------------------------


def run_unit(run: Ablation, unit: Unit, start: Path) -> None:
    """Train an arm with a seed and count right answers on the held-out world, or go on; nothing where its result is there."""
    result, work = run.result(unit), run.root / "work" / unit.place
    if result.is_file():
        return
    work.mkdir(parents=True, exist_ok=True)
    began, spent = time.monotonic(), work / "seconds"
    earlier = float(spent.read_text()) if spent.is_file() else 0.0
    found: dict[str, Any] = {"setting": unit.setting, "arm": unit.arm, "seed": unit.seed, "lr": unit.lr, "trial": unit.trial}
    model = start
    if run.config.arms[unit.arm].trained:
        model = _train(run, unit, start, work / "rl")
        found |= learning_of(work / "rl")
    trained = time.monotonic() - began
    spent.write_text(str(earlier + trained))
    if not unit.trial:
        found["counts"] = asyncio.run(_counts(run, unit, model, work))
    found |= {"train_seconds": round(earlier + trained, 1), "seconds": round(earlier + time.monotonic() - began, 1)}
    result.parent.mkdir(parents=True, exist_ok=True)
    replace_file(result, json.dumps(found) + "\n", durable=True)
    if not run.config.keep_rollouts:
        shutil.rmtree(work)


def _train(run: Ablation, unit: Unit, start: Path, out: Path) -> Path:
    """The arm's model."""
    config, worlds = run.config, run.worlds(unit.setting)
    rl = config.rl_of(unit.arm, lr=unit.lr, seed=unit.seed, steps=config.tuning.steps if unit.trial else None)
    rollout = config.settings[unit.setting].rollout
    rl = rl.model_copy(update={"trainer": rl.trainer.model_copy(update={"temperature": rollout.temperature})})
    recipe = RlRecipe(
        title=Path(unit.place).name,
        profile=config.profile,
        model=start,
        questions=tuple(worlds.questions_file(plan.name) for plan in worlds.training),
        held_out=(worlds.questions_file(worlds.validation.name),),
        worlds=tuple(worlds.world_directory(plan) for plan in (*worlds.training, worlds.validation)),
        date=config.date,
        rollout=rollout,
        rl=rl,
    )
    run_rl_command(Order(recipe, out), Report(Console(quiet=True)))
    return out / "model"


def learning_of(out: Path) -> dict[str, Any]:
    """The learning curve on the validation world by rollouts that were made, and what the last steps looked like."""
    steps = read_metrics(out / "metrics.jsonl")
    made = [0, *accumulate(int(line["rollouts"]) for line in steps)]
    curve = [[made[int(line["step"])], line["held_out"]] for line in read_metrics(out / "selection.jsonl")]
    names = ("reward", "turns", "browse_share", "malformed_share", "groups_with_signal", "no_answer", "truncated")
    figures = {name: sum(line.get(name, 0.0) for line in steps[-5:]) / len(steps[-5:]) for name in names}
    return {"curve": curve, "rollouts": made[-1], "last_steps": figures}


async def _counts(run: Ablation, unit: Unit, model: Path, work: Path) -> dict[str, list[int]]:
    """By question of the held-out world: right and scored attempts, and hops."""
    import torch

    from sanderling.policy.transformers_policy import TransformersPolicy

    device = "cuda" if torch.cuda.is_available() else "cpu"  # as where it was trained
    config, worlds = run.config, run.worlds(unit.setting)
    questions = read_questions(worlds.questions_file(HELD_OUT))
    place, concurrency = worlds.place(worlds.held_out[0]), config.measuring.concurrency
    policy = TransformersPolicy.load(model, device=device, max_batch=concurrency)
    agent = Agent(policy, place.tools, run.profile(unit.setting), worlds.clock(), place.name, place.fingerprint)
    how = {"attempts": config.measuring.attempts, "seed": unit.seed, "concurrency": concurrency, "together": True}
    result = await evaluate_async(agent, questions, JUDGE, work / "held-out", command="", **how)
    hops = {question.id: question.hops or 0 for question in questions}
    return {one.id: [one.correct, one.scored, hops[one.id]] for one in result.questions}


def main(
    out: Annotated[Path | None, typer.Option(help="Directory of the run.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="All stages, far too short to learn much.")] = False,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; repeatable.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Train and measure every arm; what is done is skipped, and what was killed goes on."""
    config = read_config(AblationConfig, SETTINGS, [*(QUICK if quick else ()), *(sets or [])])
    directory = out or Path("runs/ablation-quick" if quick else "runs/ablation")
    with command_in(directory, fresh=fresh, reads=[config.start] if config.start else []):
        run_ablation(config, directory, Report(Console()), command_line())


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"error: {error}")
