"""The tiny recipe's material: its settings, where a run keeps what, worlds, questions, a teacher's trajectories, training sets.

`recipes/tiny.toml` holds the settings that the published numbers were made with. Importable without torch.
"""

import asyncio
import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from sanderling.agent.agent import Agent, Place
from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.config import Frozen, check_config
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock
from sanderling.data.pipeline import Cleaning, DataConfig, DataRun, Judging, bring_in, clean, judge
from sanderling.data.questions import read_questions, write_questions
from sanderling.judge.book import Keep
from sanderling.judge.rules import RuleJudge, exact_match, score_trajectory
from sanderling.policy.contract import Policy
from sanderling.recipes.find import find_settings
from sanderling.rl.config import Placement, RlConfig, RolloutConfig
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Advance, Report
from sanderling.runs.stages import read_record
from sanderling.runs.work import in_parallel
from sanderling.synth.chains import chain_questions
from sanderling.synth.elimination import Form, elimination_questions
from sanderling.synth.head import ModeShares
from sanderling.synth.teacher import TeacherPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.train.config import SupervisedConfig, Title
from sanderling.world.contract import World
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_as_met
from sanderling.world.encyclopedia import Encyclopedia, Names, generate_encyclopedia

ASSETS = Path(__file__).parent / "assets"
SHIPPED_BASE = ASSETS / "tiny-base"
HELD_OUT, VALIDATION, TRIED, CURRICULUM = "held-out", "validation", "tried", "curriculum"
ARMS = ("sft-all", "sft-correct")  # the two supervised models: on everything the teacher wrote, and on what was judged right
JUDGE = RuleJudge("exact", exact_match)
SHIPPED_SFT = ASSETS / "tiny-sft"
QUICK = (
    "title='tiny, quick'",
    f"base='{SHIPPED_SFT}'",
    "worlds.train=4",
    "worlds.held_out=1",
    "questions.per_world=20",
    "questions.held_out=20",
    "questions.validation=10",
    "sft.max_steps=8",
    "sft.trainer.warmup_steps=2",
    "sft.trainer.lr=1e-4",
    "sft.trainer.muon_lr=1e-3",
    "rl.steps=3",
    "rl.questions_per_step=8",
)
"""What `--quick` lays over the recipe: every stage goes on from a shipped SFT model, for too short a time to claim anything."""


# -- settings ------------------------------------------------------------------------------------------------------------


class Worlds(Frozen):
    """Which worlds are generated."""

    train: int = Field(default=24, ge=1)  # training worlds
    train_entities: int = Field(default=120, ge=40)  # things in each
    held_out: int = Field(default=1, ge=1)  # held-out worlds
    held_out_entities: int = Field(default=240, ge=40)  # things in each
    first_seed: int = Field(default=1, ge=0)
    """Seed of the first training world; the others and the validation world have the next ones."""
    held_out_seed: int = Field(default=7001, ge=0)
    """Seed of the first held-out world; the others have the next ones. Their names share no word with any training world."""


class Questions(Frozen):
    """What is asked."""

    per_world: int = Field(default=150, ge=1)  # questions of each training world
    drawn: int = Field(default=1, ge=1)
    """So many are drawn for every other training question, and the one is asked whose answer holds the rarest token."""
    each_token: int = Field(default=8, ge=1)  # a token is rare no more once so many answers hold it
    validation: int = Field(default=64, ge=1)  # questions of the validation world
    held_out: int = Field(default=250, ge=1)  # questions of each held-out world
    curriculum: int = Field(default=5, ge=1)  # of each training world, for a curriculum to choose from
    hops: dict[str, float] = Field(default={"1": 0.35, "2": 0.45, "3": 0.20})  # share of questions, by number of hops
    elimination: Form | None = None  # ask no chains: who of several people fulfils all conditions, in this form
    seed: int = Field(default=11, ge=0)  # random seed of the draws

    @field_validator("hops")
    @classmethod
    def _shares_by_number(cls, hops: dict[str, float]) -> dict[str, float]:
        strange = [key for key in hops if re.fullmatch("[1-9][0-9]*", key) is None]
        if strange:
            raise ValueError(f"{strange[0]!r} is not a number of hops: write 1, 2, 3 and so on, each with its share")
        if not all(isfinite(share) and share >= 0 for share in hops.values()) or sum(hops.values()) <= 0:
            raise ValueError("shares of hops cannot be negative, and one at least has to be above 0")
        return hops

    @property
    def hop_shares(self) -> dict[int, float]:
        return {int(key): share for key, share in self.hops.items()}

    def of(self, world: Encyclopedia, count: int) -> list[Question]:
        """So many questions over a world."""
        if self.elimination is None:
            return chain_questions(world, count, self.seed, self.hop_shares)
        return elimination_questions(world, count, self.seed, self.elimination)


class Teacher(Frozen):
    """Whose trajectories are imitated."""

    modes: ModeShares = ModeShares()
    seed: int = Field(default=21, ge=0)  # random seed of the teacher's faults


class Evaluation(Frozen):
    """How every stage is measured."""

    attempts: int = Field(default=4, ge=1)  # attempts at each question
    concurrency: int = Field(default=128, ge=1)  # episodes at the same time
    seed: int = Field(default=51, ge=0)  # random seed of the attempts


class Variant(Frozen):
    """Another way of RL, from the same SFT model and for as many rollouts."""

    label: str  # what the report calls it
    note: str  # what sets it apart
    rl: dict[str, Any] = Field(default={})  # whole sections of rl in place of the recipe's
    curriculum: bool = False  # whether only questions are asked that the SFT model gets right sometimes, and not always


class TinyConfig(Frozen):
    """Everything the recipe does, resolved."""

    title: str = "tiny"  # heading of the report
    base: Path | None = None  # a base model's directory; by default the shipped one
    profile: str = "tiny"  # prompt, tools and budgets of the agent
    rollout: RolloutConfig | None = None  # budgets and sampling in place of the profile's, also where models are measured
    date: datetime.date = datetime.date(2026, 1, 1)  # the date that agents see
    workers: int = Field(default=2, ge=1)  # processes at a time, of one thread each
    worlds: Worlds = Worlds()
    questions: Questions = Questions()
    teacher: Teacher = Teacher()
    sft: SupervisedConfig = SupervisedConfig()
    text_share: float = Field(default=0.0, ge=0, lt=1)
    """Share of the tokens SFT reads that are text about other worlds, like the base model's, so that it keeps copying names.
    All of them are trained, and of a trajectory only the agent's turns."""
    rl: RlConfig = RlConfig()
    rl_processes: int = Field(default=2, ge=1)
    """Processes of one thread each that share every RL step. More than one round differently than one alone does."""
    evaluation: Evaluation = Evaluation()
    full: bool = False  # go on with the variants and the merge of both SFT models
    variants: dict[Title, Variant] = Field(default={})  # by name, which is a directory's, too

    def rl_of(self, variant: str) -> RlConfig:
        """The settings of a variant; of none, the recipe's own. Raises UserError."""
        own = self.variants[variant].rl if variant else {}
        return check_config(RlConfig, self.rl.model_dump() | own, f"variants.{variant}.rl") if own else self.rl

    @model_validator(mode="after")
    def _what_its_rl_can_do(self) -> Self:
        for rl in map(self.rl_of, ("", *self.variants)):
            if rl.pipeline.placement is not Placement.TURNS:
                raise ValueError("rl.pipeline.placement: here sampler and trainer take turns; `train rl` has other placements")
            if rl.selection.every:
                raise ValueError("rl.selection.every: nothing is selected here; `train rl` selects by held-out questions")
        return self


def find_recipe(name: str, *, quick: bool = False, overrides: Sequence[str] = ()) -> TinyConfig:
    """The settings of the recipe ``tiny``, or of a TOML file in their place. Raises UserError."""
    return find_settings("", TinyConfig, name, [*(QUICK if quick else ()), *overrides])


# -- a run ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorldPlan:
    """One world of the run."""

    name: str
    entities: int
    seed: int
    names: Names
    registers: bool = False

    def generate(self) -> Encyclopedia:
        return generate_encyclopedia(self.entities, self.seed, self.names, registers=self.registers)


@dataclass(frozen=True)
class TinyRun:
    """One run's directory and settings, and what its stages share."""

    root: Path
    config: TinyConfig

    @property
    def profile(self) -> Profile:
        profile, rollout = get_profile(self.config.profile), self.config.rollout
        return profile if rollout is None else rollout.applied(profile)

    def check(self) -> None:
        """Raise UserError now, and not after minutes of work, for a profile or a base model that is not there."""
        get_profile(self.config.profile)
        load_tokenizer(self.base)

    def clock(self) -> FixedClock:
        """The date that agents see; it stands still, so that equal seeds give equal records, byte for byte."""
        return FixedClock(self.config.date)

    @property
    def base(self) -> Path:
        return self.config.base or SHIPPED_BASE

    @cached_property
    def training(self) -> list[WorldPlan]:
        worlds = self.config.worlds
        seeds = range(worlds.first_seed, worlds.first_seed + worlds.train)
        return [self._plan(f"train-{seed:03d}", worlds.train_entities, seed, Names.TRAIN) for seed in seeds]

    @property
    def validation(self) -> WorldPlan:
        """A world of its own for choosing between models; its names are of the training half."""
        worlds = self.config.worlds
        return self._plan(VALIDATION, worlds.train_entities, worlds.first_seed + worlds.train, Names.TRAIN)

    @property
    def held_out(self) -> list[WorldPlan]:
        """The worlds that every figure in the report is measured on."""
        worlds = self.config.worlds
        seeds = range(worlds.held_out_seed, worlds.held_out_seed + worlds.held_out)
        return [self._plan(f"{HELD_OUT}-{seed}", worlds.held_out_entities, seed, Names.HELD_OUT) for seed in seeds]

    def _plan(self, name: str, entities: int, seed: int, names: Names) -> WorldPlan:
        return WorldPlan(name, entities, seed, names, registers=self.config.questions.elimination is not None)

    def world_directory(self, plan: WorldPlan) -> Path:
        return self.root / "worlds" / plan.name

    def open_world(self, plan: WorldPlan) -> World:
        """As agents meet worlds everywhere: what a question masks is hidden together with its near-duplicates."""
        return open_as_met(self.world_directory(plan))

    def place(self, plan: WorldPlan) -> Place:
        world = self.open_world(plan)
        return Place(world.name, world.fingerprint, world_tools(world, self.profile))

    def agent(self, policy: Policy, *plans: WorldPlan) -> Agent:
        """A model as every stage lets it research: of several worlds each question in its own."""
        first, *others = map(self.place, plans)
        places = {place.name: place for place in (first, *others)} if others else {}
        return Agent(policy, first.tools, self.profile, self.clock(), first.name, first.fingerprint, places=places)

    def questions_file(self, name: str) -> Path:
        return self.root / "questions" / f"{name}.jsonl"

    @property
    def teacher_store(self) -> Path:
        return self.root / "teacher" / "trajectories.jsonl"

    @property
    def data(self) -> DataRun:
        """The data pipeline over the teacher's trajectories: records of the loop are kept or dropped, never rewritten."""
        config = DataConfig(
            title="tiny",
            profile=self.config.profile,
            clean=Cleaning(recipe="minimal"),
            judge=Judging(judges=("exact",), keep=Keep.CORRECT),
        )
        return DataRun((self.teacher_store,), self.root / "data", config)

    def rl_questions(self, variant: str) -> list[Question]:
        """What RL trains on."""
        if variant and self.config.variants[variant].curriculum:
            return read_questions(self.questions_file(CURRICULUM))
        return [question for plan in self.training for question in read_questions(self.questions_file(plan.name))]

    def training_set(self, arm: str) -> list[Trajectory]:
        """The trajectories of one arm, by id: the store's order depends on which of them ended first."""
        source = self.data.cleaned if arm == "sft-all" else self.data.judged
        return sorted(TrajectoryStore(source), key=lambda trajectory: trajectory.id)

    def model(self, stage: str) -> Path:
        """The model that a training stage ends with."""
        return self.root / stage / "model"

    def chosen(self) -> str:
        """The arm that RL starts from. Raises UserError before it is chosen."""
        return read_record(self.root, "choose").figures["chosen"]

    def measurement(self, stage: str, split: str) -> Path:
        return self.root / "evaluation" / f"{stage}.{split}"


# -- its material --------------------------------------------------------------------------------------------------------


def build_worlds(run: TinyRun, report: Report) -> dict[str, Any]:
    """Generate and index every world of the run, and draw the questions over each."""
    wanted = run.config.questions
    files = [(plan.name, [plan], wanted.per_world * wanted.drawn) for plan in run.training]
    files += [(VALIDATION, [run.validation], wanted.validation), (HELD_OUT, run.held_out, wanted.held_out)]
    choice, pages = Choice(load_tokenizer(run.base), wanted.drawn, wanted.each_token), 0
    with report.task("Worlds and questions", len(files)) as advance:
        for name, plans, count in files:
            worlds = [build(run, plan) for plan in plans]
            pages += sum(len(world.pages) + len(world.registers) for world in worlds)
            questions = [question for world in worlds for question in wanted.of(world, count)]
            write_questions(run.questions_file(name), choice.of(questions) if plans[0] in run.training else questions)
            advance(1)
    held_out = [run.open_world(plan).fingerprint for plan in run.held_out]
    return {"worlds": sum(len(plans) for _, plans, _ in files), "pages": pages, "held_out_sha256": held_out}


@dataclass
class Choice:
    """Which training questions are asked: every other one for an answer with a token that few answers so far have held.

    What SFT has hardly ever written, the model does not copy: of years, which are a token each, a random draw of questions asks
    for each once or twice, or never.
    """

    tokenizer: Tokenizer
    drawn: int
    each_token: int
    asked: Counter[int] = field(default_factory=Counter[int])

    def of(self, questions: Sequence[Question]) -> list[Question]:
        """One of every ``drawn`` questions with as many hops, in the order in which they were drawn."""
        order = sorted(questions, key=lambda question: question.hops or 0)
        groups = [order[at : at + self.drawn] for at in range(0, len(order), self.drawn)]
        chosen = {self._rarest(group if number % 2 else group[:1]) for number, group in enumerate(groups)}
        return [question for question in questions if question.id in chosen]

    def _rarest(self, questions: Sequence[Question]) -> str:
        tokens = [self.tokenizer.encode(f" {question.answers[0]}") for question in questions]
        counts = [min(self.each_token, *(self.asked[token] for token in answer)) for answer in tokens]
        best = counts.index(min(counts))
        self.asked.update(tokens[best])
        return questions[best].id


def build(run: TinyRun, plan: WorldPlan) -> Encyclopedia:
    """A world on the disk, built unless it is there."""
    world, directory = plan.generate(), run.world_directory(plan)
    if not directory.is_dir():
        build_world(directory, world.all_pages(), name=world.name, source="encyclopedia", seed=plan.seed)
    return world


def teach(run: TinyRun, report: Report) -> dict[str, Any]:
    """Let the teacher research every training question, through the one loop, into an append-only store."""
    store, teacher = TrajectoryStore(run.teacher_store), run.config.teacher
    done = store.ids()
    total = len(run.training) * run.config.questions.per_world
    with report.task("Teacher's trajectories", total, start=len(done)) as advance:
        for plan in run.training:
            questions = read_questions(run.questions_file(plan.name))
            asyncio.run(teach_world(run, plan, questions, store, done, teacher.modes, teacher.seed, advance))
    right = [is_right(trajectory) for trajectory in store]
    return {"trajectories": len(right), "correct": sum(right)}


async def teach_world(
    run: TinyRun,
    plan: WorldPlan,
    questions: Sequence[Question],
    store: TrajectoryStore,
    done: set[str],
    modes: ModeShares,
    seed: int,
    advance: Advance,
) -> None:
    """What the teacher writes on a world's questions, into a store, but for those that are ``done``."""
    asked = [question for question in questions if question.id not in done]
    if not asked:
        return
    world = run.open_world(plan)

    async def research(question: Question) -> None:
        store.append(await agent.run(question, Seeds(run=seed), id=question.id))
        advance(1)

    teacher = TeacherPolicy(plan.generate(), {question.id: question for question in questions}, modes)
    agent = Agent(teacher, world_tools(world, run.profile), run.profile, run.clock(), world.name)
    await in_parallel(research, asked, 32)


def curate(run: TinyRun, report: Report) -> dict[str, Any]:
    """What the arms are trained on: the first steps of the data pipeline, over the teacher's trajectories."""
    run.data.root.mkdir(exist_ok=True)
    return {name: step(run.data, report) for name, step in (("import", bring_in), ("clean", clean), ("judge", judge))}


def is_right(trajectory: Trajectory) -> bool:
    """Whether the agent's own answer is one of the accepted ones."""
    return score_trajectory(trajectory, exact_match) == 1.0
