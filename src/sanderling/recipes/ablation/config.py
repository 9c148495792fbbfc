"""The settings of the ablation, as data; `recipes/ablation-tiny.toml` holds those that decide it, committed beforehand."""

import datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sanderling.core.config import check_config
from sanderling.core.profiles import PROFILES
from sanderling.recipes.rl.config import RolloutConfig
from sanderling.recipes.tiny.config import Questions, Worlds, checked_hops
from sanderling.rl.config import RlConfig


class Section(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Seed = Annotated[int, Field(ge=0)]


class Setting(Section):
    """What is asked, and within which budgets."""

    label: str
    hops: dict[str, float]
    """Number of relations to follow to its share."""
    rollout: RolloutConfig = RolloutConfig()
    """In training and in every measurement."""

    @field_validator("hops")
    @classmethod
    def _numbers_of_hops(cls, hops: dict[str, float]) -> dict[str, float]:
        return checked_hops(hops)


class Arm(Section):
    """What is trained, and how."""

    label: str
    like: str = ""
    """Another arm whose settings it begins with."""
    trained: bool = True
    """False: the supervised model as it is."""
    rl: dict[str, Any] = {}
    """Laid over the recipe's, or over those of ``like``; an estimator or a loss of another kind replaces it whole."""


class Tuning(Section):
    """Trials, the same for every trained arm in every setting: each learning rate once, by the validation world."""

    lrs: tuple[float, ...]
    steps: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)


class Measuring(Section):
    """How models are measured."""

    attempts: int = Field(default=4, ge=1)
    """At each held-out question."""
    every: int = Field(default=5, ge=1)
    """Steps between measurements on the validation world, which also select the model that is measured."""
    validation_attempts: int = Field(default=2, ge=1)
    concurrency: int = Field(default=64, ge=1)


class Criterion(Section):
    """What is said of the result, decided beforehand."""

    gain: float = Field(default=0.05, gt=0)
    """The target of learning curves: so much above the supervised model on the validation world."""
    level: float = Field(default=0.95, gt=0, lt=1)
    """An arm differs from another where this interval of the difference, over seeds and questions, excludes 0."""
    resamples: int = Field(default=4000, ge=100)
    seed: int = 0
    compared: dict[str, list[str]] = {}
    """Each arm to those it is compared with."""


class AblationConfig(Section):
    """Everything the recipe does, resolved."""

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

    @field_validator("profile")
    @classmethod
    def _profile_there_is(cls, name: str) -> str:
        if name not in PROFILES:
            raise ValueError(f"there is no profile {name!r}: choose one of {', '.join(PROFILES)}")
        return name

    @model_validator(mode="after")
    def _enough_to_compare(self) -> Self:
        for name, found in (("settings", self.settings), ("arms", self.arms), ("seeds", self.seeds)):
            if not found:
                raise ValueError(f"there are no {name}: name one at least")
        if not self.tuning.lrs or min(self.tuning.lrs) <= 0:
            raise ValueError("tuning.lrs: give learning rates above 0, one at least (with one alone there are no trials)")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is there twice, and would be the same run")
        if len(self.tuning.lrs) > 1 and self.tuning.seed in self.seeds:
            raise ValueError(f"tuning.seed: {self.tuning.seed} is a unit's seed, and trials would see what units are judged by")
        if "temperature" in self.rl.get("trainer", {}):
            raise ValueError("rl.trainer.temperature is each setting's own: set settings.NAME.rollout.temperature instead")
        return self

    @model_validator(mode="after")
    def _known(self) -> Self:
        check_config(RlConfig, self.rl, "rl")  # in its own name before any arm's
        for name, arm in self.arms.items():
            self._check_like(name)
            if arm.trained:
                self.rl_of(name, lr=self.tuning.lrs[0], seed=0)
        strange = {*self.criterion.compared, *(other for others in self.criterion.compared.values() for other in others)} - set(
            self.arms
        )
        if strange:
            raise ValueError(f"{sorted(strange)[0]} is compared, and is no arm: choose from {', '.join(self.arms)}")
        return self

    @field_validator("rl")
    @classmethod
    def _not_said_elsewhere(cls, rl: dict[str, Any]) -> dict[str, Any]:
        _refuse_units_own(rl, "rl")
        return rl

    @field_validator("arms")
    @classmethod
    def _equal_rollouts(cls, arms: dict[str, Arm]) -> dict[str, Arm]:
        for name, arm in arms.items():
            _refuse_units_own(arm.rl, f"arms.{name}.rl")
            for key in ("steps", "questions_per_step", "group_size"):
                if key in arm.rl:
                    raise ValueError(f"arms.{name}.rl.{key}: arms have equal rollouts, so set rl.{key} for all of them")
        return arms

    def _check_like(self, name: str) -> None:
        """An arm's settings begin with another's, and that ends somewhere."""
        seen, arm = [name], self.arms[name]
        while arm.like:
            if arm.like not in self.arms:
                raise ValueError(f"arm {name} is like {arm.like}, which is none: choose from {', '.join(self.arms)}")
            if arm.like in seen:
                raise ValueError(f"arm {name} is like itself, by way of {', '.join(seen[1:]) or 'nobody'}")
            seen.append(arm.like)
            arm = self.arms[arm.like]

    def rl_of(self, arm: str, *, lr: float, seed: int, steps: int | None = None) -> RlConfig:
        """An arm's RL, with a learning rate and a seed. ``steps``: fewer than the recipe's."""
        merged = _laid_over(self.rl, self._own(arm))
        merged = _laid_over(merged, {"seed": seed, "trainer": {"lr": lr}})
        every, attempts = self.measuring.every, self.measuring.validation_attempts
        merged = _laid_over(merged, {"selection": {"every": min(every, steps or every), "attempts": attempts}})
        if steps is not None:
            merged["steps"] = steps
        return check_config(RlConfig, merged, f"arms.{arm}.rl")

    def _own(self, arm: str) -> dict[str, Any]:
        own = self.arms[arm]
        return _laid_over(self._own(own.like), own.rl) if own.like else own.rl


def _refuse_units_own(rl: dict[str, Any], where: str) -> None:
    """Raises ValueError for what every unit says itself."""
    trainer = rl.get("trainer", {})
    told = [name for name in ("seed", "selection") if name in rl]
    told += ["trainer.lr"] if isinstance(trainer, dict) and "lr" in trainer else []
    if told:
        raise ValueError(f"{where}.{told[0]} is each unit's own: set seeds, tuning.lrs, measuring.every instead")


def _laid_over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Sections merged; one that names another ``kind`` replaces what was there."""
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        both = isinstance(below, dict) and isinstance(value, dict) and value.get("kind", below.get("kind")) == below.get("kind")
        found[key] = _laid_over(below, value) if both and isinstance(below, dict) else value
    return found
