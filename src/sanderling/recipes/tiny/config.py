"""The settings of the tiny recipe, as data; `recipes/tiny.toml` holds the values that the published numbers were made with."""

import datetime
import re
from math import isfinite
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sanderling.rl.config import Placement, RlConfig
from sanderling.synth.teacher import ModeShares
from sanderling.train.config import SupervisedConfig


class Section(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Worlds(Section):
    """Which worlds are generated."""

    train: int = Field(default=24, ge=1)
    """Number of training worlds."""
    train_entities: int = Field(default=120, ge=40)
    held_out_entities: int = Field(default=240, ge=40)
    first_seed: int = Field(default=1, ge=0)
    """Training worlds have this seed and the ones after it; the validation world comes next."""
    held_out_seed: int = Field(default=7001, ge=0)
    """The held-out world, whose names share no word with any training world."""


def checked_hops(hops: dict[str, float]) -> dict[str, float]:
    """Shares by number of hops, as they are. Raises ValueError for what is no number, and no share."""
    strange = [key for key in hops if re.fullmatch("[1-9][0-9]*", key) is None]
    if strange:
        raise ValueError(f"{strange[0]!r} is not a number of hops: write 1, 2, 3 and so on, each with its share")
    if not all(isfinite(share) and share >= 0 for share in hops.values()) or sum(hops.values()) <= 0:
        raise ValueError("shares of hops cannot be negative, and one at least has to be above 0")
    return hops


class Questions(Section):
    """What is asked."""

    per_world: int = Field(default=150, ge=1)
    validation: int = Field(default=64, ge=1)
    held_out: int = Field(default=250, ge=1)
    hops: dict[str, float] = {"1": 0.35, "2": 0.45, "3": 0.20}
    """Number of relations to follow to its share."""
    seed: int = Field(default=11, ge=0)

    @field_validator("hops")
    @classmethod
    def _numbers_of_hops(cls, hops: dict[str, float]) -> dict[str, float]:
        return checked_hops(hops)

    @property
    def hop_shares(self) -> dict[int, float]:
        """``hops`` with numbers as keys."""
        return {int(key): share for key, share in self.hops.items()}


class Teacher(Section):
    """Whose trajectories are imitated."""

    modes: ModeShares = ModeShares()
    seed: int = Field(default=21, ge=0)


class Evaluation(Section):
    """How every stage is measured."""

    attempts: int = Field(default=4, ge=1)
    concurrency: int = Field(default=128, ge=1)
    seed: int = Field(default=51, ge=0)


class TinyConfig(Section):
    """Everything the recipe does, resolved."""

    title: str = "tiny"
    base: Path | None = None
    """A base model's directory; None: the one that is shipped."""
    profile: str = "tiny"
    date: datetime.date = datetime.date(2026, 1, 1)
    """The day on which every episode happens."""
    workers: int = Field(default=2, ge=1)
    """Processes at a time; each uses one thread."""
    worlds: Worlds = Worlds()
    questions: Questions = Questions()
    teacher: Teacher = Teacher()
    sft: SupervisedConfig = SupervisedConfig()
    rl: RlConfig = RlConfig()
    rl_processes: int = Field(default=2, ge=1)
    """Processes of one thread each that share out every RL step. More than one round differently than one alone does."""
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="after")
    def _what_its_rl_can_do(self) -> Self:
        if self.rl.pipeline.placement is not Placement.TURNS:
            raise ValueError("rl.pipeline.placement: here sampler and trainer take turns; `train rl` has the other placements")
        if self.rl.selection.every:
            raise ValueError("rl.selection.every: nothing is selected here; `train rl` selects by held-out questions")
        return self
