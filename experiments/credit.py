"""Does information gain help? Estimators of credit compared over seeds, from one supervised model a task, behind a gate.

    python experiments/credit.py --out runs/credit        # hours; if killed, the same command resumes
    python experiments/credit.py --out runs/short --task short
    python experiments/credit.py --quick

``credit.toml`` holds the settings that decide it, committed before the first unit. First the *gate*: whether gains can teach at
all on each task, by the supervised model's own rollouts (`sanderling rl check-gains`). Where they cannot, the command stops and
says so: then change the task, not the criterion. Then *trials* of learning rates, and *units*: a task, an arm and a
seed. Each is a file of its own, and ``report.md`` and ``curves.html`` are rewritten after each.
"""

import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import typer
from pydantic import Field, model_validator
from rich.console import Console

from sanderling.core.config import Frozen, check_config, read_config
from sanderling.core.errors import UserError
from sanderling.recipes.tiny import HELD_OUT, VALIDATION, TinyConfig, TinyRun, find_recipe
from sanderling.recipes.tiny_stages import measure, supervised_stages
from sanderling.rl.check_gains import GainCheck
from sanderling.rl.config import RlConfig, RlRecipe, RolloutConfig
from sanderling.rl.credit import Components, IgpoConfig, igpo
from sanderling.rl.gain_report import CheckConfig, run_check
from sanderling.rl.launch import Order, run_rl_command
from sanderling.rl.table import TurnTable
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report, command_line
from sanderling.runs.stages import Stage, command_in, read_record, run_stages
from sanderling.train.checkpoint import CHECKPOINTS
from sanderling.train.launch import run_tasks
from sanderling.train.metrics import read_metrics

SETTINGS = Path(__file__).with_name("credit.toml")
QUICK = (
    "title='credit, quick'",
    "seeds=[1]",
    "tuning.lrs=[1e-4]",
    "tuning.seeds=[101]",
    "gate.attempts=8",
    "gate.stops=false",
    "rl.steps=2",
    "rl.questions_per_step=2",
    "rl.group_size=4",
    "measuring.attempts=2",
    "criterion.resamples=200",
    "recipe=['worlds.train=2','worlds.held_out=2','questions.per_world=8','questions.validation=6','questions.held_out=4',"
    "'sft.max_steps=4','sft.trainer.warmup_steps=1']",
)
Seed = Annotated[int, Field(ge=0)]


def placebo(table: TurnTable, config: IgpoConfig) -> Components:
    """IGPO whose gains are permuted within the group: their sizes without what they say."""
    gain = table.gain.copy()
    rng = np.random.default_rng(gain.view(np.uint32))  # other draws in each step, and on every rank the same
    for group in np.unique(table.group):
        own = np.flatnonzero((table.group == group) & table.gain_scored)
        gain[own] = rng.permutation(gain[own])
    return igpo(replace(table, gain=gain), config)


# -- settings ------------------------------------------------------------------------------------------------------------


class Task(Frozen):
    """What is asked: a recipe's worlds, questions, teacher, SFT and budgets."""

    label: str
    recipe: Path  # a TOML file of the tiny recipe's settings, seen from here
    overrides: tuple[str, ...] = ()  # of its settings
    after: str = ""  # an earlier task whose supervised model this SFT starts from; by default the shipped base
    without: tuple[str, ...] = ()  # arms that make no sense here
    model: Path | None = None  # an existing supervised model; by default one is trained
    gate_arms: tuple[str, ...] = Field(min_length=1)  # whose credit of gains the gate looks at; the first one's decides


class Arm(Frozen):
    """What is trained, and how."""

    label: str
    trained: bool = True  # False: the supervised model as it is
    tuned_as: str = ""  # another arm whose learning rate it takes; by default it has its own trials
    rl: dict[str, Any] = Field(default={})
    """Laid over the experiment's; a section of another ``kind`` replaces it whole."""


class Gate(Frozen):
    """What the supervised model's rollouts have to show before anything is trained."""

    attempts: int = Field(default=32, ge=8)  # at each question of the validation world
    pass_1: tuple[float, float] = (0.20, 0.40)  # between
    pass_8: float = 0.80  # at least: there is something to reinforce
    auc_before: float = 0.75  # at least, of needed visits before the last
    added_r2: float = 0.02  # at least, that gains add to outcomes
    stops: bool = True  # whether a task that does not pass ends the command


class Tuning(Frozen):
    """Trials of full length; the rate with the best mean on the validation world is taken."""

    lrs: tuple[float, ...] = Field(min_length=1)
    seeds: tuple[Seed, ...] = Field(min_length=1)


class Measuring(Frozen):
    """How models are measured on the held-out worlds."""

    attempts: int = Field(default=4, ge=1)
    halfway: tuple[str, ...] = ()  # arms that are also measured after half of their steps


class Criterion(Frozen):
    """What is said of the result, decided beforehand."""

    level: float = Field(default=0.95, gt=0, lt=1)
    """An arm differs from another where this interval of the difference, over worlds, seeds and questions, excludes 0."""
    resamples: int = Field(default=4000, ge=100)
    seed: int = 0
    compared: dict[str, list[str]] = Field(default={})  # each arm to those it is compared with
    halved: dict[str, str] = Field(default={})  # an arm after half of its rollouts to another's end
    margin: float = Field(default=0.0, ge=0)  # what it may lack there and have reached it, by the interval's lower end


class CreditConfig(Frozen):
    """Everything the experiment does."""

    title: str = "credit"
    recipe: tuple[str, ...] = ()  # overrides of every task's recipe
    workers: int = Field(default=2, ge=1)  # units at a time, a process of one thread each
    seeds: tuple[Seed, ...] = Field(min_length=1)
    tasks: dict[str, Task] = Field(min_length=1)
    gate: Gate = Gate()
    rl: dict[str, Any]
    arms: dict[str, Arm] = Field(min_length=1)
    tuning: Tuning
    measuring: Measuring = Measuring()
    criterion: Criterion = Criterion()

    @model_validator(mode="after")
    def _known(self) -> Self:
        named = {*self.criterion.compared, *self.criterion.halved, *self.criterion.halved.values(), *self.measuring.halfway}
        named |= {other for others in self.criterion.compared.values() for other in others}
        for at, (name, task) in enumerate(self.tasks.items()):
            if task.model is None and task.after not in {"", *[*self.tasks][:at]}:
                raise ValueError(f"tasks.{name}.after: {task.after} is no task before it")
        named |= {arm.tuned_as for arm in self.arms.values() if arm.tuned_as}
        named |= {arm for task in self.tasks.values() for arm in (*task.without, *task.gate_arms)}
        if strange := sorted(named - self.arms.keys()):
            raise ValueError(f"{strange[0]} is no arm: choose from {', '.join(self.arms)}")
        if plain := [arm for task in self.tasks.values() for arm in task.gate_arms if "gain" not in self.arms[arm].rl]:
            raise ValueError(f"tasks: the gate looks at gains, and the arm {plain[0]} has none")
        if both := sorted({*self.seeds} & {*self.tuning.seeds}):
            raise ValueError(f"seed {both[0]} is in both trials and units: trials would see what units are judged by")
        if len({*self.seeds}) < len(self.seeds):
            raise ValueError("seeds: one occurs twice and would repeat a run")
        for name, arm in self.arms.items():
            if unequal := [key for key in ("steps", "questions_per_step", "group_size", "seed") if key in arm.rl]:
                raise ValueError(f"arms.{name}.rl.{unequal[0]}: arms have equal rollouts, so set rl.{unequal[0]} for all")
            if arm.trained:
                self.rl_of(name, min(self.tuning.lrs), 0, 1.0)
        return self

    @property
    def half(self) -> int:
        return max(1, int(self.rl.get("steps", 0)) // 2)

    def rl_of(self, arm: str, lr: float, seed: int, temperature: float) -> RlConfig:
        """An arm's RL. Half of the way is kept as a checkpoint."""
        merged = _laid_over(self.rl, self.arms[arm].rl)
        own = {"seed": seed, "trainer": {"lr": lr, "temperature": temperature}}
        own |= {"save_every": self.half, "keep": max(1, int(merged.get("steps", 0)))}  # alarms make checkpoints, too
        return check_config(RlConfig, _laid_over(merged, own), f"arms.{arm}.rl")


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
    """One resumable piece of work."""

    task: str
    arm: str
    seed: int
    lr: float
    trial: bool = False
    """Measured on the validation world, not the held-out ones."""

    @property
    def name(self) -> str:
        return f"{self.task}.{self.arm}." + (f"lr-{self.lr:g}." if self.trial else "") + f"seed-{self.seed}"

    @property
    def folder(self) -> str:
        return "trials" if self.trial else "units"


@dataclass(frozen=True)
class Comparison:
    """One run's directory and settings."""

    root: Path
    config: CreditConfig

    def recipe(self, name: str) -> TinyConfig:
        told = self.config.tasks[name]
        return find_recipe(str(SETTINGS.parent / told.recipe), overrides=[*self.config.recipe, *told.overrides])

    def task(self, name: str) -> TinyRun:
        """A task as a run of the tiny recipe: its worlds, questions and supervised models."""
        recipe, told = self.recipe(name), self.config.tasks[name]
        if told.after and told.model is None:
            recipe = recipe.model_copy(update={"base": self.supervised(told.after)})
        return TinyRun(self.root / "tasks" / name, recipe)

    def supervised(self, name: str) -> Path:
        """The model that a task's arms begin with. Raises UserError before it is chosen."""
        given, task = self.config.tasks[name].model, self.task(name)
        return task.model(task.chosen()) if given is None else given.resolve()

    def result(self, unit: Unit) -> Path:
        """What a finished unit leaves."""
        return self.root / unit.folder / f"{unit.name}.json"

    @property
    def trained(self) -> list[str]:
        return [name for name, arm in self.config.arms.items() if arm.trained]

    def trials(self) -> list[Unit]:
        """Every trial; with a single rate there is nothing to try."""
        tuning, arms = self.config.tuning, self.config.arms
        if len(tuning.lrs) == 1:
            return []
        used = {
            task: dict.fromkeys(arms[arm].tuned_as or arm for arm in self.trained if arm not in told.without)
            for task, told in self.config.tasks.items()
        }
        return [
            Unit(task, arm, seed, lr, True) for seed in tuning.seeds for task in used for arm in used[task] for lr in tuning.lrs
        ]

    def units(self, lrs: dict[str, dict[str, float]]) -> list[Unit]:
        """Every unit, seed by seed. ``lrs``: chosen learning rates by task and arm."""
        arms = self.config.arms
        every = [
            (seed, task, arm)
            for seed, (task, told), arm in itertools.product(self.config.seeds, self.config.tasks.items(), arms)
            if arm not in told.without
        ]
        return [Unit(task, arm, seed, lrs[task].get(arms[arm].tuned_as or arm, 0.0)) for seed, task, arm in every]


def run_comparison(config: CreditConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet and write the report.

    Raises UserError when the directory holds a run with other settings, and where a task does not pass the gate.
    """
    from credit_report import write_report

    run = Comparison(directory.resolve(), config)

    def units() -> dict[str, Any]:
        found = run.units(read_record(run.root, "tune").figures["lrs"])
        _run_units(run, found, "Units", report, lambda: write_report(run, command))
        return {"units": len(found)}

    stages = [
        Stage("start", "Worlds, data and the supervised model of each task", lambda: _start(run, command, report)),
        Stage("gate", "Whether gains can teach", lambda: _gate(run, command, report)),
        Stage("tune", "Learning rates", lambda: _tune(run, report)),
        Stage("units", "Arms over seeds", units),
    ]
    recipes = {name: run.recipe(name).model_dump(mode="json", exclude={"workers"}) for name in config.tasks}
    decisive = config.model_dump(mode="json", exclude={"workers", "title", "recipe"}) | {"recipes": recipes}
    run_stages(stages, run.root, decisive, report)
    page = write_report(run, command)
    report.console.print(page.read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    report.say(f"The report is {page}; what it is made of: {run.root / 'units'}.")


def _start(run: Comparison, command: str, report: Report) -> dict[str, Any]:
    """The supervised models that arms begin with."""
    found: dict[str, Any] = {}
    for name in run.config.tasks:
        task = run.task(name)
        settings = task.config.model_dump(mode="json", exclude={"workers"})
        stages = supervised_stages(task, command, report)
        given = run.config.tasks[name].model is not None
        found[name] = run_stages(stages[:1] if given else stages, task.root, settings, report)[-1].figures
    return found


# -- the gate ------------------------------------------------------------------------------------------------------------


def _gate(run: Comparison, command: str, report: Report) -> dict[str, Any]:
    """Rollouts of each supervised model, and what gains see in them. Raises UserError where a task does not pass."""
    gate, found, failed = run.config.gate, dict[str, Any](), list[str]()
    for name in run.config.tasks:
        task = run.task(name)
        own = task.config.evaluation.model_copy(update={"attempts": gate.attempts})
        there, model = TinyRun(task.root, task.config.model_copy(update={"evaluation": own})), run.supervised(name)
        result = measure(there, "gate", model, VALIDATION, command)
        rollouts = there.measurement("gate", VALIDATION)
        figures: dict[str, Any] = {f"pass_{k}": result.pass_at_k[k].value for k in (1, 8)}
        arms = run.config.tasks[name].gate_arms
        for arm in arms:
            rl = run.config.rl_of(arm, min(run.config.tuning.lrs), 0, 1.0)
            of = {"files": (rollouts,), "model": model, "profile": task.config.profile, "most": 10**6}
            of |= {"gain": rl.gain, "estimator": rl.estimator, "group_size": rl.group_size}
            figures[arm] = _seen(run_check(CheckConfig(**of), run.root / "gate" / f"{name}.{arm}", report, command))
        figures["fails"] = fails(gate, figures, arms[0])
        found[name] = figures
        failed += [f"{name}: {reason}" for reason in figures["fails"]]
    replace_file(run.root / "gate.json", json.dumps(found, indent=1) + "\n")
    if failed and gate.stops:
        raise UserError(
            f"The gate is not passed ({'; '.join(failed)}): change the task and begin in another --out. Figures are in "
            f"{run.root / 'gate.json'}."
        )
    return found


def _seen(check: GainCheck) -> dict[str, Any]:
    """What the gate reads of a check."""
    figures = {
        "auc_final": check.auc_final,
        "auc_before": check.auc_before,
        "added_r2": check.added_r2,
        "own_r2": check.own_r2,
        "needed_r2": check.needed_r2,
        "outcome_r": check.outcome_r,
        "advantage_r": check.advantage_r,
    }
    return {name: None if one is None else [one.value, one.interval] for name, one in figures.items()} | {
        "probe": [check.probe.own, check.probe.behind], "sentence": check.sentence,
        "known": check.known, "missed": check.missed, "company": check.company,
    }  # fmt: skip


def fails(gate: Gate, figures: dict[str, Any], arm: str) -> list[str]:
    """Why a task does not pass, by an arm's credit of gains."""
    low, high = gate.pass_1
    found = [] if low <= figures["pass_1"] <= high else [f"pass@1 {figures['pass_1']:.1%} is not from {low:.0%} to {high:.0%}"]
    found += [] if figures["pass_8"] >= gate.pass_8 else [f"pass@8 {figures['pass_8']:.1%} is below {gate.pass_8:.0%}"]
    for name, words, least in (("auc_before", "AUC of needed visits", gate.auc_before), ("added_r2", "R²", gate.added_r2)):
        seen = figures[arm][name]
        if seen is None or seen[0] < least:
            found.append(f"{words} {'is not known' if seen is None else f'{seen[0]:.3f} is below {least:g}'}")
    return found


# -- trials and units ----------------------------------------------------------------------------------------------------


def _tune(run: Comparison, report: Report) -> dict[str, Any]:
    """Each arm's learning rate on each task: the one with the best mean on the validation world, the lowest on ties."""
    trials, lrs = run.trials(), sorted(run.config.tuning.lrs)
    found = {task: dict.fromkeys(run.trained, lrs[0]) for task in run.config.tasks}
    if not trials:
        return {"lrs": found, "trials": {}}
    _run_units(run, trials, "Trials", report, lambda: None)
    ended = {unit: share_of(json.loads(run.result(unit).read_text(encoding="utf-8"))["counts"]) for unit in trials}
    for task, arm in {(unit.task, unit.arm) for unit in trials}:
        own = [unit for unit in trials if (unit.task, unit.arm) == (task, arm)]
        found[task][arm] = max(lrs, key=lambda lr: np.mean([ended[unit] for unit in own if unit.lr == lr]))
    return {"lrs": found, "trials": {unit.name: value for unit, value in ended.items()}}


def share_of(counts: dict[str, list[Any]]) -> float:
    """Right attempts of those that were scored, over all questions."""
    return sum(right for right, *_ in counts.values()) / max(1, sum(scored for _, scored, *_ in counts.values()))


def _run_units(run: Comparison, units: Sequence[Unit], title: str, report: Report, on_finished: Callable[[], object]) -> None:
    """Run units at the same time, a process each; ``on_finished`` is called when another one has come to its end."""

    def finished() -> int:
        return sum(run.result(unit).is_file() for unit in units)

    seen = finished()
    with report.task(title, len(units), start=seen) as advance:

        def poll() -> None:
            nonlocal seen
            if (now := finished()) != seen:
                advance(now - seen)
                seen = now
                on_finished()

        tasks = [partial(run_unit, run, unit) for unit in units if not run.result(unit).is_file()]
        if tasks:
            run_tasks(tasks, run.config.workers, poll)
        poll()


def run_unit(run: Comparison, unit: Unit) -> None:
    """Train an arm with a seed and count right answers, or resume; does nothing if the result exists."""
    result, work = run.result(unit), run.root / "work" / unit.name
    if result.is_file():
        return
    began, spent = time.monotonic(), work / "seconds"
    work.mkdir(parents=True, exist_ok=True)
    earlier = float(spent.read_text()) if spent.is_file() else 0.0
    found: dict[str, Any] = {"task": unit.task, "arm": unit.arm, "seed": unit.seed, "lr": unit.lr}
    models = {"counts": run.supervised(unit.task)}
    if run.config.arms[unit.arm].trained:
        models = {"counts": train(run, unit, work / "rl")}
        found |= learning_of(work / "rl")
        if unit.arm in run.config.measuring.halfway and not unit.trial:
            models["counts_at_half"] = work / "rl" / CHECKPOINTS / f"step_{run.config.half:08d}"
    spent.write_text(str(earlier + time.monotonic() - began))
    for name, model in models.items():
        found[name] = counts_of(run, unit, f"{unit.name}.{name}", model)
    found["seconds"] = round(earlier + time.monotonic() - began, 1)
    result.parent.mkdir(parents=True, exist_ok=True)
    replace_file(result, json.dumps(found) + "\n", durable=True)
    shutil.rmtree(work)


def train(run: Comparison, unit: Unit, out: Path) -> Path:
    """The arm's last model, unselected."""
    task = run.task(unit.task)
    rollout = task.config.rollout or RolloutConfig()
    temperature = rollout.temperature or 1.0
    recipe = RlRecipe(
        title=unit.name,
        profile=task.config.profile,
        model=run.supervised(unit.task),
        questions=tuple(task.questions_file(plan.name) for plan in task.training),
        worlds=tuple(task.world_directory(plan) for plan in task.training),
        date=task.config.date,
        rollout=rollout.model_copy(update={"temperature": temperature}),
        rl=run.config.rl_of(unit.arm, unit.lr, unit.seed, temperature),
    )
    run_rl_command(Order(recipe, out), Report(Console(quiet=True)))
    return out / "model"


def learning_of(out: Path) -> dict[str, Any]:
    """The share of right rollouts by how many were made before, and what the last steps looked like."""
    steps = read_metrics(out / "metrics.jsonl")
    made = [0, *itertools.accumulate(int(line["rollouts"]) for line in steps)]
    names = ("turns", "browse_share", "malformed_share", "groups_with_signal", "no_answer", "truncated")
    figures = {name: sum(line.get(name, 0.0) for line in steps[-5:]) / len(steps[-5:]) for name in names}
    curve = [[before, line["reward"]] for before, line in zip(made, steps, strict=False)]
    return {"curve": curve, "rollouts": made[-1], "last_steps": figures}


def counts_of(run: Comparison, unit: Unit, name: str, model: Path) -> dict[str, list[Any]]:
    """By question: right and scored attempts, and the world."""
    task = run.task(unit.task)
    own = task.config.evaluation.model_copy(update={"attempts": run.config.measuring.attempts, "seed": unit.seed})
    there = TinyRun(task.root, task.config.model_copy(update={"evaluation": own}))
    split = VALIDATION if unit.trial else HELD_OUT
    result = measure(there, name, model, split, "")
    shutil.rmtree(there.measurement(name, split))  # some 50 MB
    return {one.id: [one.correct, one.scored, one.id.rpartition("-")[0]] for one in result.questions}


def main(
    out: Annotated[Path | None, typer.Option(help="Directory of the run.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="All stages, far too short to learn much.")] = False,
    tasks: Annotated[list[str] | None, typer.Option("--task", help="Only this task; repeatable.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; repeatable.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Pass the gate, train and measure every arm; finished work is skipped, interrupted work resumes."""
    config = read_config(CreditConfig, SETTINGS, [*(QUICK if quick else ()), *(sets or [])])
    if strange := [name for name in tasks or () if name not in config.tasks]:
        raise UserError(f"{strange[0]} is no task: choose from {', '.join(config.tasks)}")
    if tasks:
        config = check_config(
            CreditConfig, {**config.model_dump(), "tasks": {name: config.tasks[name] for name in tasks}}, "--task"
        )
    directory = out or Path("runs/credit-quick" if quick else "runs/credit")
    reads = [task.model for task in config.tasks.values() if task.model]
    with command_in(directory, fresh=fresh, reads=reads):
        run_comparison(config, directory, Report(Console()), command_line())


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"error: {error}")
