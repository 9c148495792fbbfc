"""How an RL run is set up, as data: importable without torch."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.rl.credit import EstimatorConfig, GrpoConfig
from sanderling.rl.curriculum import CurriculumConfig
from sanderling.rl.denoise import DenoiseConfig
from sanderling.rl.gain import GainConfig
from sanderling.rl.health import HealthConfig
from sanderling.rl.losses import LossConfig, PpoConfig
from sanderling.train.config import TrainerConfig


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
    few nobody is cut off), the others are
    asked for their answers (DR-Venus: 0.9). A group that begins in another's place, or when that many are done already, is held
    to this share of its own rollouts. In an asynchronous run rollouts are asked a step before they would be too old."""

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


class RlConfig(Frozen):
    """An RL run."""

    trainer: TrainerConfig = TrainerConfig(lr=1e-6, entropy=True)
    """Its temperature has to be the one that rollouts are sampled at."""
    estimator: EstimatorConfig = GrpoConfig()
    loss: LossConfig = PpoConfig()
    outcome: Literal["exact", "f1"] = "exact"
    """The rule that scores answers where no judge is handed in."""
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
