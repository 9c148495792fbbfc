"""Where a run of the tiny recipe keeps its files, and how its stages get at worlds and questions. Knows no stage."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.types import FixedClock
from sanderling.data.pipeline_config import Cleaning, DataConfig, DataRun, Judging, Keep
from sanderling.recipes.tiny.config import TinyConfig
from sanderling.world.contract import World
from sanderling.world.encyclopedia import Encyclopedia, Names, generate_encyclopedia
from sanderling.world.opening import open_as_met

SHIPPED_BASE = Path(__file__).parent.parent / "assets" / "tiny-base"


@dataclass(frozen=True)
class WorldPlan:
    """One world of the run."""

    name: str
    entities: int
    seed: int
    names: Names

    def generate(self) -> Encyclopedia:
        """The world with the truth about it; cheap and deterministic."""
        return generate_encyclopedia(self.entities, self.seed, self.names)


@dataclass(frozen=True)
class Layout:
    """One run's directory and settings."""

    root: Path
    config: TinyConfig

    @property
    def profile(self) -> Profile:
        return get_profile(self.config.profile)

    def check(self) -> None:
        """Raise UserError now, and not after minutes of work, for a profile or a base model that is not there."""
        get_profile(self.config.profile)
        load_tokenizer(self.base)

    def clock(self) -> FixedClock:
        """The date that agents see; it stands still, so that equal seeds give equal records, byte for byte."""
        return FixedClock(self.config.date)

    @property
    def base(self) -> Path:
        """The base model's directory."""
        return self.config.base or SHIPPED_BASE

    @cached_property
    def training(self) -> list[WorldPlan]:
        """The worlds that questions and trajectories for training come from."""
        worlds = self.config.worlds
        seeds = range(worlds.first_seed, worlds.first_seed + worlds.train)
        return [WorldPlan(f"train-{seed:03d}", worlds.train_entities, seed, Names.TRAIN) for seed in seeds]

    @property
    def validation(self) -> WorldPlan:
        """A world of its own for choosing between models; its names are of the training half."""
        worlds = self.config.worlds
        return WorldPlan("validation", worlds.train_entities, worlds.first_seed + worlds.train, Names.TRAIN)

    @property
    def held_out(self) -> WorldPlan:
        """The world that every figure in the report is measured on."""
        worlds = self.config.worlds
        return WorldPlan("held-out", worlds.held_out_entities, worlds.held_out_seed, Names.HELD_OUT)

    def world_directory(self, plan: WorldPlan) -> Path:
        return self.root / "worlds" / plan.name

    def open_world(self, plan: WorldPlan) -> World:
        """As agents meet worlds everywhere: what a question masks is hidden together with its near-duplicates."""
        return open_as_met(self.world_directory(plan))

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

    def model(self, stage: str) -> Path:
        """The model that a training stage ends with."""
        return self.root / stage / "model"
