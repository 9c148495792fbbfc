"""The settings of reinforcement learning: how a run trains (:class:`RlConfig`), and all of the command (:class:`RlRecipe`).

Importable without torch. Estimators, losses, gains, denoising and health have their settings beside their code.
"""

import datetime
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from sanderling.agent.places import PlaceConfig
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve, takes
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import Question
from sanderling.data.questions import require_distinct
from sanderling.judge.rules import OUTCOMES
from sanderling.rl.credit import EstimatorConfig, GrpoConfig
from sanderling.rl.gain import GainConfig, read_facts
from sanderling.rl.health import HealthConfig
from sanderling.rl.losses import LossConfig, PpoConfig, RatioTo
from sanderling.rl.rollouts import DenoiseConfig
from sanderling.train.config import ParallelConfig, ParallelKind, Title, TrainerConfig
from sanderling.train.rows import Encoding


class Placement(StrEnum):
    """Where the model that samples is, seen from the one that is trained."""

    TURNS = "turns"
    """The same module: sampling pauses while an update is computed; tools and judges go on."""
    BESIDE = "beside"
    """A copy of its own, which samples while the other is trained and takes over its weights after each update."""
    SERVED = "served"
    """Behind an endpoint, which is handed the weights after each update."""


class Straggler(StrEnum):
    """What becomes of rollouts that take too long."""

    CARRY_OVER = "carry_over"
    """They go on; whoever comes too late for the bound on staleness is left out and made again."""
    CUT_OFF = "cut_off"
    """In a synchronous run they are asked for their answer at their next turn."""


class PipelineConfig(Frozen):
    """How sampling and training overlap. With ``max_staleness`` 0 the run is synchronous."""

    max_staleness: int = Field(default=0, ge=0)
    """Most steps between the weights that sampled a trajectory's oldest token and those it updates; 0: synchronous."""
    placement: Placement = Placement.TURNS  # who samples: the trained module, a copy of it, or a server
    straggler: Straggler = Straggler.CARRY_OVER  # whether slow rollouts go on or are asked for their answer
    cut_off_share: float = Field(default=0.9, gt=0, le=1)
    """With ``cut_off``: once this share of a process's rollouts of a step is done, the others are asked for their answers
    (DR-Venus: 0.9). Replacement groups are not."""

    @model_validator(mode="after")
    def _cuts_off_in_step(self) -> Self:
        if self.straggler is Straggler.CUT_OFF and self.max_staleness:
            raise ValueError("stragglers are cut off in a synchronous run alone: set max_staleness to 0, or carry them over")
        return self


class SelectionConfig(Frozen):
    """Which checkpoint is kept as the best: by a held-out set, never by the training reward."""

    every: int = Field(default=0, ge=0)
    """Steps between measurements on held-out questions; 0: the last model is the result."""
    attempts: int = Field(default=1, ge=1)  # rollouts of each held-out question


class RlConfig(Frozen):
    """An RL run."""

    trainer: TrainerConfig = TrainerConfig(lr=1e-6, entropy=True)
    """Its temperature has to be the one that rollouts are sampled at."""
    estimator: EstimatorConfig = GrpoConfig()
    loss: LossConfig = PpoConfig()
    outcome: str = "exact"
    """Rule that scores answers without a judge: ``exact``, ``f1``, or ``file.py:name``, a function of an answer and an accepted
    one with a score in [0, 1]."""
    gain: GainConfig | None = None
    """How information gain is measured; None: it is not, which IGPO cannot do without."""
    denoise: DenoiseConfig = DenoiseConfig()
    pipeline: PipelineConfig = PipelineConfig()
    health: HealthConfig = HealthConfig()
    selection: SelectionConfig = SelectionConfig()
    steps: int = Field(default=100, ge=1, le=10**9)  # steps of the run
    questions_per_step: int = Field(default=16, ge=1)  # groups of a step
    group_size: int = Field(default=8, ge=1)  # rollouts of each question
    updates_per_step: int = Field(default=1, ge=1)
    """Optimizer steps on the rows of a step, each on its share."""
    drop_zero_advantage: bool = True
    """Leave out trajectories whose advantages are all zero. They cost time, and means are then over the others."""
    save_every: int = Field(default=10, ge=1)  # steps between checkpoints
    keep: int = Field(default=1, ge=1)  # checkpoints
    seed: int = Field(default=0, ge=0, lt=2**63)  # random seed of the questions' order and of rollouts

    def under_way(self, processes: int) -> int:
        """Most rollouts at once of a process, of so many that share a step's groups."""
        return -(-self.questions_per_step // processes) * (self.pipeline.max_staleness + 1) * self.group_size

    @field_validator("outcome")
    @classmethod
    def _is_outcome(cls, name: str) -> str:
        try:
            takes(name, resolve(name, OUTCOMES, "outcome"), "answer", "accepted")
        except UserError as error:
            raise ValueError(str(error).removesuffix(".")) from error
        return name

    @model_validator(mode="after")
    def _enough_to_estimate_from(self) -> Self:
        kind = self.estimator.kind
        if self.estimator.needs_gain and self.gain is None:
            raise ValueError(f"the {kind} estimator needs information gain: measure it, with --set rl.gain={{}}")
        if self.group_size < self.estimator.least_group:
            raise ValueError(
                f"the {kind} estimator compares the rollouts of a question with each other, and one alone teaches nothing: set "
                "group_size to 2 at least"
            )
        return self


def check_run(config: RlConfig, questions: Sequence[Question], held_out: Sequence[Question], encoding: Encoding) -> None:
    """Raises UserError for questions and rollouts that cannot be trained on."""
    if not questions:
        raise UserError("There are no questions to train on: name a file with --questions.")
    for asked in (questions, held_out):
        require_distinct(asked)
    budgets, sampling, trained = encoding.profile.budgets, encoding.profile.sampling, config.trainer.temperature
    room = budgets.max_context_tokens - budgets.answer_reserve_tokens
    for question in (*questions, *held_out):
        named = f"Question {question.id!r} ({question.text.strip()[:60]})"
        if not question.text.strip():
            raise UserError(f"{named} has no text: write it, or leave the question out.")
        if not question.answers or not all(answer.strip() for answer in question.answers):
            raise UserError(f"{named} has no accepted answer, or an empty one: mend it, or leave the question out.")
        # Of most questions it is plain without an encoding: a token is a byte at least.
        if len(question.text.encode()) >= room and (length := len(encoding.tokenizer.encode(question.text))) >= room:
            raise UserError(f"{named} has {length:,} tokens, and rollouts have {room:,} for all they read: leave it out.")
    for question in questions if config.gain is not None else ():
        read_facts(question)
    if both := {question.id for question in held_out} & {question.id for question in questions}:
        raise UserError(f"Question {min(both)!r} is trained on and held out: take it out of one of the files.")
    if config.pipeline.straggler is Straggler.CUT_OFF and not budgets.force_answer:
        # They would end without having been asked, and this stop of the trainer's would count as a wrong answer.
        raise UserError(
            "Stragglers that are cut off have to be asked for an answer: set rollout.force_answer=true, or "
            "rl.pipeline.straggler=carry_over."
        )
    if sampling.temperature != trained:
        raise UserError(
            f"Rollouts are sampled at temperature {sampling.temperature} and trained at {trained}: "
            f"set trainer.temperature to {sampling.temperature}."
        )
    if sampling.presence_penalty or encoding.profile.guards.max_retries:
        raise UserError("RL needs every attempt as it was sampled: give a profile with no penalty and guards.max_retries 0.")
    # A ratio to a cut distribution starts below 1 and not at it: clips and bounds would act on the cut, not on what is learnt.
    if (sampling.top_p < 1.0 or sampling.top_k) and config.loss.ratio_to is RatioTo.SAMPLER:
        raise UserError(
            "Rollouts cut to their likelier tokens (top_p, top_k) need a loss whose ratio is to the trainer's own "
            f"log-probabilities: set rl.loss.kind={config.loss.kind} and rl.loss.ratio_to=proximal, or sample from the whole "
            "distribution with rollout.top_p=1."
        )


# -- the command's settings ------------------------------------------------------------------------------------------------


class RolloutConfig(Frozen):
    """How an episode is sampled and when it has to end. What is not given is the profile's.

    Every attempt counts as it was sampled: top_k is 0, nothing is penalised, and no turn is tried again.
    """

    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature, also the trainer's."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling; below 1 only with ``rl.loss.ratio_to = proximal``. What bias remains: tokens outside the nucleus, at
    most 1 - top_p of the probability, are never sampled, so updates lack their share and favour what is likely already."""
    turn_tokens: int | None = Field(default=None, ge=1)
    """Most sampled tokens of a turn."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None  # texts that end a turn
    context_tokens: int | None = Field(default=None, ge=16)
    """Most tokens of an episode, prompt and observations included."""
    answer_reserve_tokens: int | None = Field(default=None, ge=1)  # context kept for the answer
    max_turns: int | None = Field(default=None, ge=1)  # most turns of an episode
    max_seconds: float | None = Field(default=None, ge=0)
    """Wall time of an episode; 0: unlimited."""
    tool_timeout_s: float | None = Field(default=None, gt=0)  # longest tool call
    force_answer: bool | None = None
    """Ask an episode whose budget is spent for its answer."""
    max_malformed: int | None = Field(default=None, ge=1)  # malformed turns that end an episode
    max_repeated_calls: int | None = Field(default=None, ge=1)  # repeated calls that end an episode

    def applied(self, profile: Profile) -> Profile:
        """The profile as rollouts run it."""
        plain = {"top_k": 0, "presence_penalty": 0.0, "max_retries": 0}
        names = {"turn_tokens": "max_tokens", "context_tokens": "max_context_tokens"}
        given = {names.get(name, name): value for name, value in (self.model_dump(exclude_none=True) | plain).items()}
        given |= {"max_seconds": given.get("max_seconds", profile.budgets.max_seconds) or None}

        def applied(section: BaseModel) -> BaseModel:
            return section.model_copy(update={name: given[name] for name in type(section).model_fields.keys() & given})

        return profile.model_copy(update={name: applied(getattr(profile, name)) for name in ("sampling", "budgets", "guards")})


class SamplerConfig(Frozen):
    """Who samples, beside where (``rl.pipeline.placement``)."""

    endpoint: str = ""
    """The vLLM server's address, http://host:port/v1."""
    served: str = ""
    """The model's name there."""
    sessions: int = Field(default=0, ge=0)
    """Without a server: most turns sampled together; 0: those of a step's rollouts."""
    sleeps: bool = False
    """The server shares the trainer's GPUs, and gives its memory back while the trainer works."""


class RlRecipe(PlaceConfig):
    """Everything ``sanderling train rl`` does, resolved."""

    title: Title = "rl"
    """Names the run; its directory is runs/TITLE by default."""
    profile: str = "tiny"  # prompt, tools and budgets, as the agent has them later
    model: Path | None = None
    """The Hugging Face directory that training starts from."""
    questions: tuple[Path, ...] = ()  # what is asked, with accepted answers
    held_out: tuple[Path, ...] = ()
    """Questions that select the checkpoint, and are never trained on."""
    judges: tuple[str, ...] = ()
    """As ``--judge``; empty: the rule ``rl.outcome``."""
    date: datetime.date | None = None
    """The date that agents see; unset: the day on which the run began."""
    rollout: RolloutConfig = RolloutConfig()
    rl: RlConfig = RlConfig()
    sampler: SamplerConfig = SamplerConfig()
    parallel: ParallelConfig = ParallelConfig(kind=ParallelKind.NONE)
    """Of the trainer."""
    watch: tuple[str, ...] = ()
    """Where to log besides metrics.jsonl: ``tensorboard``, ``trackio``, ``wandb``."""

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
        own = RlConfig().trainer
        defaults = {"lr": own.lr, "entropy": own.entropy, "temperature": rollout.get("temperature", 1.0)}
        return {**values, "rl": {**rl, "trainer": {**defaults, **trainer}}}

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.rl.trainer.temperature != self.rollout.temperature:
            raise ValueError(
                f"rollouts are sampled at temperature {self.rollout.temperature} and trained at {self.rl.trainer.temperature}: "
                "set rollout.temperature alone"
            )
        served, sampler = self.rl.pipeline.placement is Placement.SERVED, self.sampler
        if self.parallel.kind is ParallelKind.FSDP and not served:
            raise ValueError(
                "a model in shards (parallel.kind fsdp) cannot sample in the trainer's processes: set "
                "rl.pipeline.placement=served, or parallel.kind to none or replicate"
            )
        if not served and (sampler.sleeps or sampler.endpoint or sampler.served):
            raise ValueError("there is no server: set rl.pipeline.placement=served, or leave out what sampler says of one")
        return self


def rollout_profile(recipe: RlRecipe) -> Profile:
    """The profile as rollouts run it. Raises UserError for one that is not there, and budgets that leave no turn room."""
    profile = recipe.rollout.applied(get_profile(recipe.profile))
    budgets = profile.budgets
    if budgets.answer_reserve_tokens >= budgets.max_context_tokens:
        raise UserError(
            f"Rollouts keep {budgets.answer_reserve_tokens:,} tokens of {budgets.max_context_tokens:,} for an answer, and none "
            "to research: lower rollout.answer_reserve_tokens."
        )
    return profile
