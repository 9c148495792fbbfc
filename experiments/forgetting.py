"""What supervised training forgets, and what a merge keeps: two specialists from one ancestor, and their merges.

    python experiments/forgetting.py --out runs/forgetting
    python experiments/forgetting.py --quick

Both skills are questions of one hop; they differ in what is asked about. The shipped base is trained on both (the *ancestor*);
from there on one skill only, twice (the *specialists*); a linear sweep between the two is measured on a validation world, and
every model on a held-out world, none of whose names occurs in training. For comparison the ancestor goes on with both skills at
once, for as many steps as the two specialists together. ``forgetting.toml`` holds the settings, and what counts as forgotten
and as kept: committed before the held-out world was first measured. What came of it: docs/merging.md. Needs the extra [merge].
"""

import asyncio
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from pydantic import Field, field_validator, model_validator
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sanderling import __version__
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import Frozen, read_config
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate
from sanderling.evaluate.statistics import Interval, paired_difference
from sanderling.judge.opening import JudgeConfig
from sanderling.merge.run import fingerprint, require_mergekit
from sanderling.merge.settings import TRAITS, MergeSettings, Method
from sanderling.merge.sweep import REPORT, SweepConfig, SweepReport, SweptAgent, run_sweep
from sanderling.recipes.tiny import JUDGE, Evaluation, TinyConfig, TinyRun, WorldPlan, Worlds, build, is_right, teach_world
from sanderling.report.numbers import chance, percent, points, span
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Report, command_line, machine
from sanderling.runs.stages import Stage, command_in, run_stages
from sanderling.synth.chains import chain_questions
from sanderling.synth.head import ModeShares
from sanderling.train.config import SupervisedConfig
from sanderling.train.launch import run_tasks
from sanderling.train.metrics import read_metrics
from sanderling.world.encyclopedia import BY_NAME, BY_SUBJECT, Encyclopedia, Kind

SETTINGS = Path(__file__).with_name("forgetting.toml")
QUICK = (
    "title='merge-tiny, quick'",
    "worlds.train=4",
    "questions.per_world=30",
    "questions.validation=6",
    "questions.held_out=10",
    "ancestor.max_steps=20",
    "specialist.max_steps=10",
    "sweep.values=[0.0, 0.5, 1.0]",
)
ANCESTOR, BOTH, MERGED = "ancestor", "both", "merged"
MARGIN = 0.05
"""How far below a skill's specialist the merge may be: 5 points."""
_TEACHER_SEED = 22


# -- settings ------------------------------------------------------------------------------------------------------------


class Questions(Frozen):
    """How many questions are asked of each skill."""

    per_world: int = Field(default=50, ge=1)
    """In each training world."""
    validation: int = Field(default=60, ge=1)
    held_out: int = Field(default=200, ge=1)
    seed: int = Field(default=12, ge=0)


class SweepPart(Frozen):
    """Which merges of the specialists are tried: `sanderling merge sweep` over weight, the second one's share."""

    method: Method = Method.LINEAR
    values: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


class ForgettingConfig(Frozen):
    """Everything the experiment does, resolved."""

    title: str = "merge-tiny"
    base: Path | None = None
    """A base model's directory; None: the one that is shipped."""
    profile: str = "tiny"
    date: datetime.date = datetime.date(2026, 1, 1)
    workers: int = Field(default=2, ge=1)
    worlds: Worlds = Worlds()
    questions: Questions = Questions()
    skills: dict[str, tuple[Kind, ...]]
    """A name, and the kinds of things that its questions start from."""
    teacher: ModeShares = ModeShares(first_result=0, trust_snippet=0, stop_early=0, repeat_call=0, slip=0)
    """No mistakes but those that its world leads it into."""
    ancestor: SupervisedConfig = SupervisedConfig()
    """SFT on both skills, from the base model: what the specialists have in common."""
    specialist: SupervisedConfig = SupervisedConfig()
    """SFT on one skill, from the ancestor; the same for both skills."""
    sweep: SweepPart = SweepPart()
    evaluation: Evaluation = Evaluation()

    @field_validator("skills")
    @classmethod
    def _two_skills(cls, skills: dict[str, tuple[Kind, ...]]) -> dict[str, tuple[Kind, ...]]:
        kinds = [kind for found in skills.values() for kind in found]
        if len(skills) != 2 or len(set(kinds)) != len(kinds) or not all(skills.values()):
            raise ValueError("give two skills, each with kinds of things of its own")
        mute = next((kind for kind in kinds if not BY_SUBJECT[kind]), None)
        if mute is not None:
            raise ValueError(f"no question starts from a {mute}: take {', '.join(kind for kind in Kind if BY_SUBJECT[kind])}")
        return skills

    @model_validator(mode="after")
    def _fixed_lengths(self) -> Self:
        if self.ancestor.max_steps is None or self.specialist.max_steps is None:
            raise ValueError("models are compared by their steps: set max_steps of ancestor and specialist")
        return self


# -- material ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forgetting:
    """One run's directory and settings."""

    root: Path
    config: ForgettingConfig

    @property
    def tiny(self) -> TinyRun:
        """Worlds and places, as the tiny recipe has them."""
        shared = ("title", "base", "profile", "date", "workers", "worlds", "evaluation")
        return TinyRun(self.root, TinyConfig(**{name: getattr(self.config, name) for name in shared}))

    @property
    def skills(self) -> list[str]:
        return list(self.config.skills)

    @property
    def models(self) -> list[str]:
        """Every model, in the order of the tables."""
        return [ANCESTOR, *map(specialist, self.skills), MERGED, BOTH]

    def model(self, name: str) -> Path:
        """A model's directory."""
        return self.root / "sweep" / "best" if name == MERGED else self.root / name / "model"

    def questions_file(self, plan: WorldPlan, skill: str) -> Path:
        return self.root / "questions" / f"{plan.name}.{skill}.jsonl"

    def taught(self, skill: str) -> TrajectoryStore:
        """The teacher's trajectories."""
        return TrajectoryStore(self.root / "teacher" / f"{skill}.jsonl")

    def right(self, skill: str) -> list[Trajectory]:
        """What is trained on, by id: the store's order depends on which of them ended first."""
        return sorted((one for one in self.taught(skill) if is_right(one)), key=lambda trajectory: trajectory.id)

    def held_out(self, name: str, skill: str) -> Path:
        """The directory of a model's run on a skill of the held-out world."""
        return self.root / "held-out" / name / skill

    def result(self, name: str, skill: str) -> EvalResult:
        """Its figures."""
        return EvalResult.load(RunLog(self.held_out(name, skill)).result_file)


def specialist(skill: str) -> str:
    """The name of the model that was trained on one skill only."""
    return f"only-{skill}"


def build_worlds(run: Forgetting, report: Report) -> dict[str, Any]:
    """Generate and index every world of the run, and draw the questions of each skill."""
    tiny, wanted = run.tiny, run.config.questions
    counts = {tiny.validation.name: wanted.validation, tiny.held_out[0].name: wanted.held_out}
    plans = [*tiny.training, tiny.validation, *tiny.held_out]
    with report.task("Worlds and questions", len(plans)) as advance:
        for plan in plans:
            found = _by_skill(run, build(tiny, plan), counts.get(plan.name, wanted.per_world))
            for skill, questions in found.items():
                write_questions(run.questions_file(plan, skill), questions)
            advance(1)
    return {"worlds": len(plans), "held_out_sha256": tiny.open_world(tiny.held_out[0]).fingerprint}


def _by_skill(run: Forgetting, world: Encyclopedia, count: int) -> dict[str, list[Question]]:
    """``count`` questions of each skill. Raises UserError when the world has not that many."""
    drawn = 4 * count
    while True:
        questions = chain_questions(world, drawn, run.config.questions.seed, {1: 1.0})
        found = {
            skill: [question for question in questions if BY_NAME[question.meta["relations"][0]].subject in kinds][:count]
            for skill, kinds in run.config.skills.items()
        }
        if all(len(of_it) == count for of_it in found.values()):
            return found
        drawn *= 2  # the same questions and as many more


def teach(run: Forgetting, report: Report) -> dict[str, Any]:
    """Let the teacher research every training question of each skill, through the one loop."""
    figures: dict[str, Any] = {}
    for skill in run.skills:
        store, total = run.taught(skill), len(run.tiny.training) * run.config.questions.per_world
        done = store.ids()
        with report.task(f"Teacher's trajectories: {skill}", total, start=len(done)) as advance:
            for plan in run.tiny.training:
                questions = read_questions(run.questions_file(plan, skill))
                asyncio.run(teach_world(run.tiny, plan, questions, store, done, run.config.teacher, _TEACHER_SEED, advance))
        figures[skill] = {"trajectories": total, "right": len(run.right(skill))}
    return figures


# -- models --------------------------------------------------------------------------------------------------------------


def train(run: Forgetting, name: str) -> dict[str, Any]:
    """One model, from the base or the ancestor to a directory; resumes where it was killed."""
    from sanderling.train.row_source import sft_rows
    from sanderling.train.rows import Encoding, Limit
    from sanderling.train.sft import run_sft

    config, profile = run.config, run.tiny.profile
    start, settings = run.model(ANCESTOR), config.specialist
    if name == ANCESTOR:
        start, settings = run.tiny.base, config.ancestor
    elif name == BOTH:  # as many steps as the two specialists together
        settings = settings.model_copy(update={"max_steps": 2 * (settings.max_steps or 0)})
    skills = [skill for skill in run.skills if specialist(skill) == name] or run.skills
    trajectories = [trajectory for skill in skills for trajectory in run.right(skill)]
    rows = sft_rows(trajectories, Encoding(load_tokenizer(start), profile), Limit(profile.budgets.max_context_tokens))
    run_sft(settings, rows, start, run.root / name)
    metrics = read_metrics(run.root / name / "metrics.jsonl")
    return {"trajectories": len(trajectories), "steps": len(metrics), "final_nll": metrics[-1]["nll"]}


def train_all(run: Forgetting, names: Sequence[str], steps: int, report: Report) -> dict[str, Any]:
    """Train models at the same time, a process each."""
    with report.task("SFT", steps) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(len(read_metrics(run.root / name / "metrics.jsonl")) for name in names)
            advance(done - seen)
            seen = done

        found = run_tasks([partial(train, run, name) for name in names], run.config.workers, poll)
    return dict(zip(names, found, strict=True))


def sweep_models(run: Forgetting, command: str) -> SweepReport:
    """The merges of the specialists, measured on the validation world; the best one is kept."""
    tiny, config = run.tiny, run.config
    method, measuring = config.sweep.method, config.evaluation
    sweep = SweepConfig(
        merge=MergeSettings(
            method=method,
            models=tuple(run.model(specialist(skill)) for skill in run.skills),
            base=run.model(ANCESTOR) if TRAITS[method].base else None,
        ),
        values=config.sweep.values,
        skills={skill: run.questions_file(tiny.validation, skill) for skill in run.skills},
        agent=SweptAgent(
            worlds=(tiny.world_directory(tiny.validation),),
            profile=config.profile,
            seed=measuring.seed,
            concurrency=measuring.concurrency,
        ),
        attempts=measuring.attempts,
        judge=JudgeConfig(judges=(JUDGE.name,)),
    )
    return run_sweep(sweep, run.root / "sweep", command, Report(Console(quiet=True)), clock=tiny.clock())


def sweep_stage(run: Forgetting, command: str, report: Report) -> dict[str, Any]:
    """The sweep in a process of its own."""
    with report.task("Sweep", 1) as advance:
        (found,) = run_tasks([partial(sweep_models, run, command)], 1, lambda: None)
        advance(1)
    return {"best": found.best, "mean": found.chosen.mean if found.chosen else None}


def measure_model(run: Forgetting, name: str, command: str) -> dict[str, float | None]:
    """A model on both skills of the held-out world: pass@1."""
    from sanderling.policy.transformers_policy import TransformersPolicy

    measuring, plan = run.config.evaluation, run.tiny.held_out[0]
    agent = run.tiny.agent(TransformersPolicy.load(run.model(name), max_batch=measuring.concurrency), plan)
    how = measuring.model_dump() | {"weights": fingerprint(run.model(name)), "command": command}
    found = {}
    for skill in run.skills:
        result = evaluate(agent, read_questions(run.questions_file(plan, skill)), JUDGE, run.held_out(name, skill), **how)
        found[skill] = result.pass_at_1.value
    return found


def measure_stage(run: Forgetting, command: str, report: Report) -> dict[str, Any]:
    """Every model on the held-out world, a process each."""
    with report.task("Measure on held-out", len(run.models)) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum((run.held_out(name, run.skills[-1]) / "result.json").is_file() for name in run.models)
            advance(done - seen)
            seen = done

        found = run_tasks([partial(measure_model, run, name, command) for name in run.models], run.config.workers, poll)
    return dict(zip(run.models, found, strict=True))


# -- what was found ------------------------------------------------------------------------------------------------------


class Cell(Frozen):
    """A model on a skill."""

    pass_at_1: float | None
    interval: Interval | None
    questions: int
    attempts: int
    unscored: int


class Difference(Frozen):
    """How far one model is above another on a skill, on the same questions."""

    skill: str
    model: str
    beside: str
    difference: float
    interval: Interval
    p_value: float
    questions: int

    @property
    def sentence(self) -> str:
        """In plain words."""
        low, high = self.interval
        side = "above" if low > 0 else "below" if high < 0 else "not to be told from"
        return (
            f"{self.model} is {side} {self.beside} on {self.skill}: {points(self.difference)} points (95% interval "
            f"{points(low)} to {points(high)}, {chance(self.p_value)}, {self.questions} questions)."
        )


class Verdict(Frozen):
    """What the differences come to, by what ``forgetting.toml`` says counts."""

    forgotten: dict[str, bool]
    """Of each specialist: whether it has forgotten the other skill."""
    keeps_both: bool

    @property
    def sentences(self) -> list[str]:
        """In plain words."""
        found = [f"{name} has {'' if lost else 'not '}forgotten the other skill." for name, lost in self.forgotten.items()]
        return [*found, f"The merge {'keeps both skills' if self.keeps_both else 'does not keep both skills'}."]


def differences(skills: Sequence[str], results: Mapping[str, Mapping[str, EvalResult]]) -> list[Difference]:
    """Paired differences on every skill: what specialists forgot, and what their merge kept."""
    pairs = [(specialist(skill), ANCESTOR) for skill in skills]
    pairs += [(MERGED, name) for name in (*map(specialist, skills), ANCESTOR, BOTH)]
    found = []
    for (model, beside), skill in ((pair, skill) for pair in pairs for skill in skills):
        one, two = results[model][skill].per_question(), results[beside][skill].per_question()
        names = [name for name in one if name in two]
        gap = paired_difference([one[name] for name in names], [two[name] for name in names], seed=0)
        figures = {"difference": gap.difference, "interval": gap.interval, "p_value": gap.p_value, "questions": gap.questions}
        found.append(Difference(skill=skill, model=model, beside=beside, **figures))
    return found


def judged(skills: Sequence[str], found: Sequence[Difference]) -> Verdict:
    """Forgotten: below the ancestor at the other skill, with the whole interval.

    Keeps both: at each skill above the specialist in the other one, with the whole interval, and at most `MARGIN` below the
    specialist in it.
    """
    by = {(item.skill, item.model, item.beside): item for item in found}
    one, two = skills
    pairs = ((one, two), (two, one))
    return Verdict(
        forgotten={specialist(skill): by[other, specialist(skill), ANCESTOR].interval.high < 0 for skill, other in pairs},
        keeps_both=all(
            by[skill, MERGED, specialist(other)].interval.low > 0
            # Rounded: a mean that is exactly at the margin may be stored a hair beyond it.
            and round(by[skill, MERGED, specialist(skill)].difference, 9) >= -MARGIN
            for skill, other in pairs
        ),
    )


def run_forgetting(config: ForgettingConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet, write ``figures.json`` and print it. Raises UserError as the tiny recipe does."""
    mergekit = require_mergekit()
    run = Forgetting(directory.resolve(), config)
    run.tiny.check()
    specialists = [specialist(skill) for skill in run.skills]
    first, steps = config.ancestor.max_steps or 0, 4 * (config.specialist.max_steps or 0)
    stages = [
        Stage("worlds", "Worlds, and questions of each skill", lambda: build_worlds(run, report)),
        Stage("teach", "Trajectories of a teacher", lambda: teach(run, report)),
        Stage("ancestor", "SFT on both skills, for the ancestor", lambda: train_all(run, [ANCESTOR], first, report)),
        Stage(
            "branches",
            "SFT on one skill only from there, twice; and on both",
            lambda: train_all(run, [BOTH, *specialists], steps, report),
        ),
        Stage("sweep", "Merges, measured on the validation world", lambda: sweep_stage(run, command, report)),
        Stage("measure", "Every model on the held-out world", lambda: measure_stage(run, command, report)),
    ]
    records = run_stages(stages, run.root, config.model_dump(mode="json"), report)
    results = {name: {skill: run.result(name, skill) for skill in run.skills} for name in run.models}
    compared = differences(run.skills, results)
    verdict = judged(run.skills, compared)
    sweep = SweepReport.model_validate_json((run.root / "sweep" / REPORT).read_bytes())
    cells = {name: {skill: _cell(result) for skill, result in of_it.items()} for name, of_it in results.items()}
    weight = sweep.best
    figures = {
        "command": command,
        "version": __version__,
        "mergekit": mergekit,
        "machine": machine(),
        "date": datetime.datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": config.model_dump(mode="json"),
        "stages": {record.name: round(record.seconds, 1) for record in records},
        "method": config.sweep.method.value,
        "weight": weight,  # the second specialist's share in the merge that was chosen on the validation world
        "validation": {point.name: {name: score.value for name, score in point.skills.items()} for point in sweep.points},
        "held_out": {
            name: {skill: cell.model_dump(mode="json") for skill, cell in of_it.items()} for name, of_it in cells.items()
        },
        "differences": [one.model_dump(mode="json") for one in compared],
        "verdict": verdict.model_dump(mode="json"),
    }
    replace_file(run.root / "figures.json", json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    report.console.print(_table(run, cells, weight))
    for sentence in (*(one.sentence for one in compared), *verdict.sentences):
        report.say(sentence)
    report.say(f"The figures are {run.root / 'figures.json'}.")


def _cell(result: EvalResult) -> Cell:
    return Cell(
        pass_at_1=result.pass_at_1.value,
        interval=result.pass_at_1.interval,
        questions=len(result.questions),
        attempts=result.attempts,
        unscored=result.unscored,
    )


def _table(run: Forgetting, cells: Mapping[str, Mapping[str, Cell]], weight: float | None) -> Table:
    """Models by skills, on the held-out world."""
    meaning = {
        ANCESTOR: "SFT on both",
        **{specialist(skill): f"… then on {skill} only" for skill in run.skills},
        MERGED: f"{run.config.sweep.method} merge of the two, weight {weight}",
        BOTH: "… then on both, as many steps as the two",
    }
    table = Table("model", "what it is", *map(escape, run.skills), box=box.SIMPLE_HEAD, header_style="bold")
    for name, words in meaning.items():
        found = (cells[name][skill] for skill in run.skills)
        table.add_row(name, words, *[Text(f"{percent(cell.pass_at_1)} ({span(cell.interval)})") for cell in found])
    return table


def main(
    out: Annotated[Path | None, typer.Option(help="Directory of the run.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="All stages, far too short to learn much.")] = False,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; repeatable.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Train, merge and measure; what is done is skipped, and what was killed goes on."""
    config = read_config(ForgettingConfig, SETTINGS, [*(QUICK if quick else ()), *(sets or [])])
    directory = out or Path("runs/forgetting-quick" if quick else "runs/forgetting")
    with command_in(directory, fresh=fresh, reads=[config.base] if config.base else []):
        run_forgetting(config, directory, Report(Console()), command_line())


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"error: {error}")
