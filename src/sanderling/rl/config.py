"""The settings of reinforcement learning: how a run trains (:class:`RlConfig`), and all of the command (:class:`RlRecipe`).

Importable without torch. Estimators, losses, gains, denoising, curriculum and health have their settings beside their code. A
recipe's stages lay settings of their own over the run's; each begins with the model that the stage before it selected.
"""

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sanderling.core.config import Frozen, check_config
from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import Question
from sanderling.judge.rules import OUTCOMES
from sanderling.rl.credit import EstimatorConfig, GrpoConfig
from sanderling.rl.curriculum import BandSettings, CurriculumConfig
from sanderling.rl.denoise import DenoiseConfig
from sanderling.rl.gain import GainConfig
from sanderling.rl.health import HealthConfig
from sanderling.rl.losses import LossConfig, PpoConfig
from sanderling.train.config import ParallelConfig, ParallelKind, Title, TrainerConfig
from sanderling.train.encoding import Encoding

_NAME = re.compile("[a-z0-9][a-z0-9-]*")
_TAKEN = frozenset({"checkpoints", "credit", "model", "stages"})
"""Names in a run's directory."""


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
    """They are asked for their answer at their next turn. Where rollouts take longer than ``max_staleness`` steps, all are;
    steps get shorter by it, and so do rollouts: raise ``max_staleness`` until few are cut off."""


class PipelineConfig(Frozen):
    """How sampling and training overlap. With ``max_staleness`` 0 the run is synchronous."""

    max_staleness: int = Field(default=0, ge=0)
    """Most steps between the weights that sampled a trajectory's oldest token and those that it updates."""
    most_under_way: int | None = Field(default=None, ge=1)
    """Groups whose rollouts are being made at most (admission), in all processes together but one in each at least; None: as
    many as the bound on staleness lets begin, which are those of ``max_staleness + 1`` steps, finished ones that wait for their
    update included."""
    placement: Placement = Placement.TURNS
    straggler: Straggler = Straggler.CARRY_OVER
    cut_off_share: float = Field(default=0.9, gt=0, le=1)
    """With ``cut_off`` in a synchronous run: once this share of a step's rollouts is done (of a process's own, so that of
    few nobody is cut off), the others are asked for their answers (DR-Venus: 0.9). A group that begins in another's place, or
    when that many are done already, is held to this share of its own rollouts. In an asynchronous run rollouts are asked a step
    before they would be too old."""

    def groups_at_once(self, places: int, per_step: int) -> int:
        """Groups that a process makes at once at most, with so many of a step's ``per_step`` groups for its own."""
        ahead = places * (self.max_staleness + 1)
        return ahead if self.most_under_way is None else min(ahead, max(1, -(-self.most_under_way * places // per_step)))


class SelectionConfig(Frozen):
    """Which checkpoint is kept as the best: by a held-out set, never by the training reward."""

    every: int = Field(default=0, ge=0)
    """Steps between measurements, the first before any step; 0: the last model is the result."""
    attempts: int = Field(default=1, ge=1)
    """Rollouts of each held-out question."""
    least_scored: float = Field(default=0.75, ge=0, le=1)
    """Share of these rollouts that has to be scored: the best of means over few would stay the best."""


def _is_outcome(name: str) -> str:
    try:
        rule = resolve(name, OUTCOMES, "outcome")
    except UserError as error:
        raise ValueError(str(error).removesuffix(".")) from error
    if not callable(rule):
        raise ValueError(f"{name} is no function")
    return name


class RlConfig(Frozen):
    """An RL run."""

    trainer: TrainerConfig = TrainerConfig(lr=1e-6, entropy=True)
    """Its temperature has to be the one that rollouts are sampled at."""
    estimator: EstimatorConfig = GrpoConfig()
    loss: LossConfig = PpoConfig()
    outcome: Annotated[str, AfterValidator(_is_outcome)] = "exact"
    """The rule that scores answers where no judge is handed in: ``exact``, ``f1``, or ``file.py:name``, a function of an answer
    and an accepted one that gives a score in [0, 1]."""
    gain: GainConfig | None = None
    """How information gain is measured; None: it is not, which IGPO cannot do without."""
    denoise: DenoiseConfig = DenoiseConfig()
    pipeline: PipelineConfig = PipelineConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    health: HealthConfig = HealthConfig()
    selection: SelectionConfig = SelectionConfig()
    steps: int = Field(default=100, ge=1, le=10**9)
    questions_per_step: int = Field(default=16, ge=1)
    group_size: int = Field(default=8, ge=1)
    """Rollouts of each question."""
    updates_per_step: int = Field(default=1, ge=1)
    """Optimizer steps over a step's rows, each on its share of them."""
    drop_zero_advantage: bool = True
    """Leave out trajectories whose advantages are all zero: they cost time, and means are then over the informative ones."""
    save_every: int = Field(default=10, ge=1)
    """Steps between checkpoints."""
    keep: int = Field(default=1, ge=1)
    """Checkpoints."""
    keep_rollouts: bool = True
    """Whether rollouts stay on disk when a checkpoint has made them unneeded for going on; a token takes some 40 bytes."""
    seed: int = Field(default=0, ge=0, lt=2**63)

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
        if self.group_size == 1 and self.denoise.drop_flat:
            raise ValueError(
                "a group of one rollout is always flat: set denoise.drop_flat to false, or group_size to 2 at least"
            )
        return self


def check_run(config: RlConfig, questions: Sequence[Question], held_out: Sequence[Question], encoding: Encoding) -> None:
    """Raises UserError for questions and rollouts that cannot be trained on."""
    if not questions:
        raise UserError("There are no questions to train on: give a file with at least one.")
    _check_texts((*questions, *held_out), encoding)
    for question in (*questions, *held_out):
        if not question.answers:
            raise UserError(f"{_named(question)} has no accepted answer: add one, or leave the question out.")
        if not all(answer.strip() for answer in question.answers):
            raise UserError(f"{_named(question)} has an empty accepted answer: remove it, or leave the question out.")
    ids = {question.id for question in questions}
    if len(ids) < len(questions):
        raise UserError("Two questions have the same id: sanderling data dedupe leaves one of them.")
    if both := next((question.id for question in held_out if question.id in ids), None):
        raise UserError(f"Question {both!r} is trained on and held out: take it out of one of the files.")
    if config.selection.every and not held_out:
        raise UserError("Checkpoints are selected on held-out questions, and there are none: give some, or selection.every=0.")
    if config.pipeline.straggler is Straggler.CUT_OFF and not encoding.profile.budgets.force_answer:
        # They would end without having been asked, and this stop of the trainer's would count as a wrong answer.
        raise UserError(
            "Stragglers that are cut off have to be asked for an answer: set rollout.force_answer=true, or "
            "rl.pipeline.straggler=carry_over."
        )
    sampling, trained = encoding.profile.sampling, config.trainer.temperature
    if sampling.temperature != trained:
        raise UserError(
            f"Rollouts are sampled at temperature {sampling.temperature} and trained at {trained}: "
            f"set trainer.temperature to {sampling.temperature}."
        )
    if sampling.top_p < 1.0 or sampling.top_k or sampling.presence_penalty:
        # The trainer's log-probabilities are of the whole distribution: ratios to a cut one would be wrong without a sign.
        raise UserError("RL needs rollouts of the whole distribution: give a profile with top_p 1, top_k 0 and no penalty.")
    if encoding.profile.guards.max_retries:
        raise UserError("RL needs every attempt as it was sampled: give a profile with guards.max_retries 0.")


def _check_texts(questions: Iterable[Question], encoding: Encoding) -> None:
    """Raises UserError for a question that says nothing, or leaves no room for an episode."""
    budgets = encoding.profile.budgets
    room = budgets.max_context_tokens - budgets.answer_reserve_tokens
    for question in questions:
        if not question.text.strip():
            raise UserError(f"Question {question.id!r} has no text: write it, or leave the question out.")
        # Of most questions it is plain without an encoding: a token is a byte at least.
        if len(question.text.encode()) >= room and (length := len(encoding.tokenizer.encode(question.text))) >= room:
            raise UserError(
                f"{_named(question)} has {length:,} tokens, and rollouts have {room:,} for all they read: leave it out, or let "
                "rollouts be longer."
            )


def _named(question: Question) -> str:
    """With how it begins: a question that came without an id was given one that its file does not show."""
    text = " ".join(question.text.split())
    return f"Question {question.id!r} ({text[:60]}{'…' * (len(text) > 60)})"


# -- the command's settings ------------------------------------------------------------------------------------------------


class RolloutConfig(Frozen):
    """How an episode is sampled and when it has to end. What is not given is the profile's.

    Rollouts are of the whole distribution, whose log-probabilities the trainer can take again, and every attempt counts as it
    was sampled: top_p is 1, nothing is penalised, and no turn is tried again.
    """

    temperature: float = Field(default=1.0, gt=0)
    """The trainer's, too."""
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

    def applied(self, profile: Profile) -> Profile:
        """The profile as rollouts run it."""

        def given(**names: str) -> dict[str, Any]:
            return {name: value for name, own in names.items() if (value := getattr(self, own)) is not None}

        sampling = given(temperature="temperature", max_tokens="turn_tokens", stop="stop")
        same = ("answer_reserve_tokens", "max_turns", "max_seconds", "tool_timeout_s", "force_answer")
        budgets = given(max_context_tokens="context_tokens", **dict(zip(same, same, strict=True)))
        budgets |= {"max_seconds": budgets.get("max_seconds", profile.budgets.max_seconds) or None}
        guards = given(max_malformed="max_malformed", max_repeated_calls="max_repeated_calls")
        whole = {"top_p": 1.0, "top_k": 0, "presence_penalty": 0.0}
        return profile.model_copy(
            update={
                "sampling": profile.sampling.model_copy(update={**whole, **sampling}),
                "budgets": profile.budgets.model_copy(update=budgets),
                "guards": profile.guards.model_copy(update={**guards, "max_retries": 0}),
            }
        )


class StageConfig(Frozen):
    """What one stage has otherwise than the run. What is not given is the run's."""

    questions: tuple[Path, ...] = ()
    """Its own files of questions."""
    difficulty: BandSettings | None = None
    """Before the stage, the model that it begins with attempts every question, and the stage asks those of the band alone."""
    rollout: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of the section ``rollout`` that are laid over the run's."""
    rl: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of the section ``rl`` that are laid over the run's."""


class SamplerConfig(Frozen):
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


class ExpectedConfig(Frozen):
    """What a mean rollout is like, as far as a plan has to know it: of the published runs, or guessed and marked so."""

    context_tokens: int | None = Field(default=None, ge=1)
    """All it reads and writes; None: half of the limit."""
    sampled_tokens: int | None = Field(default=None, ge=1)
    """What it writes of that; None: a quarter."""
    turns: int | None = Field(default=None, ge=1)
    """None: a token limit's worth of turns, but no more than the limit on turns."""


class RlRecipe(Frozen):
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
    faults: str = ""
    """How worlds behave (see docs/worlds-dynamics.md): a profile's name or a TOML file; empty: they stand still."""
    world_seed: int = 0
    date: datetime.date | None = None
    """The day that agents see; None: that of the run's beginning, which is recorded."""
    reader: str = ""
    """A model that reads pages for the agent, ``http://host:port/v1#model``, or ``file.py:name``; empty: read without one."""
    rollout: RolloutConfig = RolloutConfig()
    rl: RlConfig = RlConfig()
    stages: dict[str, StageConfig] = Field(default_factory=dict[str, StageConfig])
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
        own = RlConfig().trainer
        told = {"lr": own.lr, "entropy": own.entropy, "temperature": rollout.get("temperature", 1.0)}
        return {**values, "rl": {**rl, "trainer": {**told, **trainer}}}

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.rl.trainer.temperature != self.rollout.temperature:
            raise ValueError(
                f"rollouts are sampled at temperature {self.rollout.temperature} and trained at {self.rl.trainer.temperature}: "
                "set rollout.temperature alone"
            )
        for name, stage in self.stages.items():
            _overlaid(self, name, stage)
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

    @property
    def context_name(self) -> str:
        """The setting that says how long its rollouts may grow."""
        return f"stages.{self.name}.rollout.context_tokens" if self.name else "rollout.context_tokens"


def stages_of(recipe: RlRecipe) -> list[Stage]:
    """The run's stages in order. Raises UserError for a profile that is not there, and budgets that leave no turn room."""
    found = []
    for name, stage in (recipe.stages or {"": StageConfig()}).items():
        rollout, rl = _overlaid(recipe, name, stage)
        profile = rollout.applied(get_profile(recipe.profile))
        budgets = profile.budgets
        if budgets.answer_reserve_tokens >= budgets.max_context_tokens:
            raise UserError(
                f"{f'Stage {name} keeps' if name else 'Rollouts keep'} {budgets.answer_reserve_tokens:,} tokens of "
                f"{budgets.max_context_tokens:,} for an answer, and none to research: lower rollout.answer_reserve_tokens."
            )
        found.append(Stage(name, rl, profile, stage.questions or recipe.questions, stage.difficulty))
    return found


def _overlaid(recipe: RlRecipe, name: str, stage: StageConfig) -> tuple[RolloutConfig, RlConfig]:
    """The run's settings with a stage's over them; the trainer's temperature follows. Raises UserError."""
    if not (stage.rollout or stage.rl):
        return recipe.rollout, recipe.rl
    rollout = check_config(RolloutConfig, {**recipe.rollout.model_dump(), **stage.rollout}, f"stages.{name}.rollout")
    values = _over(recipe.rl.model_dump(), {"trainer": {"temperature": rollout.temperature}})
    return rollout, check_config(RlConfig, _over(values, stage.rl), f"stages.{name}.rl")


def _over(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Values with changes laid over them, section by section."""
    found = dict(values)
    for key, change in changes.items():
        before = found.get(key)
        found[key] = _over(before, change) if isinstance(before, dict) and isinstance(change, dict) else change
    return found


def check_overrides(recipe: RlRecipe, overrides: Sequence[str]) -> RlRecipe:
    """The recipe; raises UserError for what is set for the run while every stage has its own."""
    for key in (override.partition("=")[0].strip() for override in overrides):
        section, _, name = key.partition(".")
        own = [_keys(getattr(stage, section)) for stage in recipe.stages.values()] if section in ("rl", "rollout") else []
        if own and all(name in keys for keys in own):
            ways = " and ".join(f"stages.{stage}.{key}" for stage in recipe.stages)
            raise UserError(f"Each stage has its own {name}, so {key} would change nothing: set {ways}.")
    return recipe


def _keys(values: dict[str, Any]) -> set[str]:
    """Dotted names of what is set."""

    def walk(values: dict[str, Any], path: str) -> Iterator[str]:
        for key, value in values.items():
            yield f"{path}{key}"
            if isinstance(value, dict):
                yield from walk(value, f"{path}{key}.")

    return set(walk(values, ""))
