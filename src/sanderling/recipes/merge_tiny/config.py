"""The settings of the recipe on forgetting, as data; `recipes/merge-tiny.toml` holds those of the published figures."""

import datetime
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from sanderling.merge.settings import Method
from sanderling.recipes.tiny.config import Evaluation, Section, TinyConfig, Worlds
from sanderling.synth.teacher import ModeShares
from sanderling.train.config import SupervisedConfig
from sanderling.world.encyclopedia import BY_SUBJECT, Kind


class Questions(Section):
    """How many questions are asked of each skill."""

    per_world: int = Field(default=50, ge=1)
    """In each training world."""
    validation: int = Field(default=60, ge=1)
    held_out: int = Field(default=200, ge=1)
    seed: int = Field(default=12, ge=0)


class SweepPart(Section):
    """Which merges of the specialists are tried: `sanderling merge sweep` over weight, the second one's share."""

    method: Method = Method.LINEAR
    values: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


NO_FAULTS = ModeShares(first_result=0, trust_snippet=0, stop_early=0, repeat_call=0, slip=0)


class MergeTinyConfig(Section):
    """Everything the recipe does, resolved."""

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
    teacher: ModeShares = NO_FAULTS
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

    @property
    def both(self) -> SupervisedConfig:
        """For comparison: SFT on both skills at once from the ancestor, for as many steps as the two specialists together."""
        steps = self.specialist.max_steps
        return self.specialist.model_copy(update={"max_steps": None if steps is None else 2 * steps})

    @property
    def tiny(self) -> TinyConfig:
        """What the two recipes have in common, as the other one's settings."""
        return TinyConfig(
            title=self.title,
            base=self.base,
            profile=self.profile,
            date=self.date,
            workers=self.workers,
            worlds=self.worlds,
            evaluation=self.evaluation,
        )
