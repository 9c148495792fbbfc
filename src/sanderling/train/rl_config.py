"""How an RL run is set up, as data: importable without torch."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sanderling.reward.gain import GainConfig
from sanderling.train.config import TrainerConfig
from sanderling.train.credit_config import EstimatorConfig, GrpoConfig, IgpoConfig, LossConfig, PpoConfig


class RlConfig(BaseModel):
    """A synchronous RL run: every step samples with the weights it then updates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trainer: TrainerConfig = TrainerConfig(lr=1e-6, entropy=True)
    """Its temperature has to be the one that rollouts are sampled at."""
    estimator: EstimatorConfig = GrpoConfig()
    loss: LossConfig = PpoConfig()
    outcome: Literal["exact", "f1"] = "exact"
    gain: GainConfig | None = None
    """How information gain is measured; None: it is not, which IGPO cannot do without."""
    steps: int = Field(default=100, ge=1)
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
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _gain_where_needed(self) -> Self:
        if isinstance(self.estimator, IgpoConfig) and self.gain is None:
            raise ValueError("the igpo estimator needs information gain: set gain")
        return self
