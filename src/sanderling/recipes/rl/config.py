"""The settings of reinforcement learning as a command runs it: what is asked, how rollouts are sampled, and in which stages.

Importable without torch. Paths are given on the command line more often than in a file; what trains is
:class:`~sanderling.rl.config.RlConfig`. A stage lays its own settings over the run's and begins with the model that the
stage before it selected.
"""

import datetime
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile, get_profile
from sanderling.rl.config import RlConfig
from sanderling.synth.difficulty import BandSettings
from sanderling.train.config import ParallelConfig, ParallelKind, Title

_NAME = re.compile("[a-z0-9][a-z0-9-]*")
_TAKEN = frozenset({"checkpoints", "credit", "model", "stages"})
"""Names in a run's directory."""
_RL_TRAINER = RlConfig().trainer


class Section(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RolloutConfig(Section):
    """How an episode is sampled and when it has to end. What is not given is the profile's.

    Credit needs the whole distribution and every attempt as it was sampled, so four fields have one value each; they are here
    for a recipe to say so, and for another value to be refused with a sentence.
    """

    temperature: float = Field(default=1.0, gt=0)
    """The trainer's, too."""
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    max_retries: int = 0
    turn_tokens: int | None = Field(default=None, ge=1)
    """Most tokens that one turn samples."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    context_tokens: int | None = Field(default=None, ge=16)
    """Most tokens of an episode, prompt and observations included."""
    answer_reserve_tokens: int | None = Field(default=None, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, ge=0)
    """Wall time of an episode; 0: unlimited."""
    tool_timeout_s: float | None = Field(default=None, gt=0)
    force_answer: bool | None = None
    """Whether an episode whose budget is spent is asked for its answer."""
    max_malformed: int | None = Field(default=None, ge=1)
    max_repeated_calls: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.top_p, self.top_k, self.presence_penalty) != (1.0, 0, 0.0):
            raise ValueError(
                "credit needs rollouts of the whole distribution, whose log-probabilities the trainer can take again: set "
                "top_p = 1.0, top_k = 0 and presence_penalty = 0.0"
            )
        if self.max_retries:
            raise ValueError("credit needs every attempt as it was sampled: set max_retries = 0")
        return self

    def applied(self, profile: Profile) -> Profile:
        """The profile as rollouts run it."""
        given = {name: value for name, value in self if value is not None}
        seconds = given.pop("max_seconds", profile.budgets.max_seconds) or None
        sampling = {
            name: given[name] for name in ("temperature", "top_p", "top_k", "presence_penalty", "stop") if name in given
        }
        budgets = {name: given[name] for name in ("answer_reserve_tokens", "max_turns", "tool_timeout_s", "force_answer")
                   if name in given}  # fmt: skip
        guards = {name: given[name] for name in ("max_retries", "max_malformed", "max_repeated_calls") if name in given}
        if "turn_tokens" in given:
            sampling["max_tokens"] = given["turn_tokens"]
        if "context_tokens" in given:
            budgets["max_context_tokens"] = given["context_tokens"]
        return profile.model_copy(
            update={
                "sampling": profile.sampling.model_copy(update=sampling),
                "budgets": profile.budgets.model_copy(update={**budgets, "max_seconds": seconds}),
                "guards": profile.guards.model_copy(update=guards),
            }
        )


class StageConfig(Section):
    """What one stage has otherwise than the run. What is not given is the run's."""

    questions: tuple[Path, ...] = ()
    """Its own files of questions."""
    difficulty: BandSettings | None = None
    """Before the stage, the model that it begins with attempts every question, and the stage asks those of the band alone."""
    steps: int | None = Field(default=None, ge=1)
    questions_per_step: int | None = Field(default=None, ge=1)
    updates_per_step: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, gt=0)
    context_tokens: int | None = Field(default=None, ge=16)
    answer_reserve_tokens: int | None = Field(default=None, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    turn_tokens: int | None = Field(default=None, ge=1)


class SamplerConfig(Section):
    """Who samples, beside where (``rl.pipeline.placement``)."""

    endpoint: str = ""
    """With ``served``: its address, http://host:port/v1."""
    served: str = ""
    """The name of the model there."""
    sessions: int = Field(default=0, ge=0)
    """In this process: turns sampled together at most; 0: those of a step's rollouts."""
    reprefill_stale: bool = False
    """In this process: what a trajectory under way has read is read again after each update, and all its log-probabilities are
    those of the weights they are noted under; else it goes on over the keys that older weights made. A server reads again."""
    sleeps: bool = False
    """With ``served``: the server is on the trainer's devices, and gives its memory back while the trainer works."""
    share: float = Field(default=0.5, gt=0, lt=1)
    """With ``served`` and a server that does not sleep, for the plan: the share of several devices that sample and do nothing
    else. A single one does both."""


class ExpectedConfig(Section):
    """What a mean rollout is like, as far as a plan has to know it: of the published runs, or guessed and marked so."""

    context_tokens: int | None = Field(default=None, ge=1)
    """All it reads and writes; None: half of the limit."""
    sampled_tokens: int | None = Field(default=None, ge=1)
    """What it writes of that; None: a quarter."""
    turns: int | None = Field(default=None, ge=1)
    """None: a token limit's worth of turns, but no more than the limit on turns."""


class RlRecipe(Section):
    """Everything ``sanderling train rl`` does, resolved."""

    title: Title = "rl"
    """Of the run; its directory in runs/, where none is named."""
    profile: str = "tiny"
    model: Path | None = None
    """The Hugging Face directory that training starts from."""
    questions: tuple[Path, ...] = ()
    held_out: tuple[Path, ...] = ()
    """Questions that select the checkpoint (``rl.selection``), and are never trained on."""
    worlds: tuple[Path, ...] = ()
    """One, or several whose names the questions' ``meta.world`` tells apart."""
    judges: tuple[str, ...] = ()
    """As ``--judge`` takes them; none: the rule ``rl.outcome``."""
    dynamics: str = ""
    """How worlds behave (see docs/worlds-dynamics.md): a profile's name or a TOML file; empty: they stand still."""
    world_seed: int = 0
    date: datetime.date | None = None
    """The day that agents see; None: that of the run's beginning, which is recorded."""
    extractor: str = ""
    """A model that reads pages for the agent, http://host:port/v1#model; empty: pages are read without one."""
    rollout: RolloutConfig = RolloutConfig()
    rl: RlConfig = RlConfig()
    stages: dict[str, StageConfig] = {}
    """By name, in order; none: the run is one stage."""
    sampler: SamplerConfig = SamplerConfig()
    parallel: ParallelConfig = ParallelConfig(kind=ParallelKind.NONE)
    """Of the trainer."""
    expected: ExpectedConfig = ExpectedConfig()
    watch: tuple[str, ...] = ()
    """Where the run can be watched beside metrics.jsonl: ``tensorboard``, ``trackio``, ``wandb``."""

    @model_validator(mode="before")
    @classmethod
    def _one_temperature(cls, values: Any) -> Any:
        """The trainer's temperature follows the rollouts' where nobody says it."""
        if not isinstance(values, dict):
            return values
        rollout, rl = values.get("rollout", {}), values.get("rl", {})
        trainer = rl.get("trainer", {}) if isinstance(rl, dict) else None
        if not (isinstance(rollout, dict) and isinstance(trainer, dict)):
            return values
        # Whoever gives a section gives all of it: RL's own defaults come back under what is given.
        told = {"lr": _RL_TRAINER.lr, "entropy": _RL_TRAINER.entropy, "temperature": rollout.get("temperature", 1.0)}
        return {**values, "rl": {**rl, "trainer": {**told, **trainer}}}

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.rl.trainer.temperature != self.rollout.temperature:
            raise ValueError(
                f"rollouts are sampled at temperature {self.rollout.temperature} and trained at {self.rl.trainer.temperature}: "
                "set rollout.temperature alone"
            )
        return self

    @field_validator("stages")
    @classmethod
    def _names_of_directories(cls, stages: dict[str, StageConfig]) -> dict[str, StageConfig]:
        for name in stages:
            if name in _TAKEN:
                raise ValueError(f"{name!r} is a directory of the run's own: name the stage otherwise")
            if _NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} cannot be a stage's directory: name it with small letters, digits and dashes")
        return stages


@dataclass(frozen=True)
class Stage:
    """One stage, resolved: what it asks of whom, and how it trains."""

    name: str
    """Empty where the run is one stage."""
    rl: RlConfig
    profile: Profile
    questions: tuple[Path, ...]
    difficulty: BandSettings | None = None

    def directory(self, out: Path) -> Path:
        """Where it lies in the run's directory."""
        return out / self.name if self.name else out


def stages_of(recipe: RlRecipe) -> list[Stage]:
    """The run's stages in order. Raises UserError for a profile that is not there, and budgets that leave no turn room."""
    return [_stage(recipe, name, stage) for name, stage in (recipe.stages or {"": StageConfig()}).items()]


def _stage(recipe: RlRecipe, name: str, stage: StageConfig) -> Stage:
    rollout = {key: value for key in ("temperature", "context_tokens", "answer_reserve_tokens", "max_turns", "turn_tokens")
               if (value := getattr(stage, key)) is not None}  # fmt: skip
    training = {key: value for key in ("steps", "questions_per_step", "updates_per_step")
                if (value := getattr(stage, key)) is not None}  # fmt: skip
    asked = recipe.rollout.model_copy(update=rollout)
    profile = asked.applied(get_profile(recipe.profile))
    _check_room(profile, name)
    trainer = recipe.rl.trainer.model_copy(update={"temperature": asked.temperature})
    rl = recipe.rl.model_copy(update={**training, "trainer": trainer})
    return Stage(name, rl, profile, stage.questions or recipe.questions, stage.difficulty)


def _check_room(profile: Profile, name: str) -> None:
    budgets = profile.budgets
    if budgets.answer_reserve_tokens >= budgets.max_context_tokens:
        raise UserError(
            f"{f'Stage {name} keeps' if name else 'Rollouts keep'} {budgets.answer_reserve_tokens:,} tokens of "
            f"{budgets.max_context_tokens:,} for an answer, and none to research: lower rollout.answer_reserve_tokens."
        )
