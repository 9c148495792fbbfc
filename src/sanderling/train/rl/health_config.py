"""When a run's figures are cause for alarm, as data: importable without torch. The figures are made in `figures`."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Alarm(StrEnum):
    """What is watched."""

    NO_ANSWER = "no_answer"
    TRUNCATION = "truncation"
    QUERY_STYLE = "query_style"
    THINK_LENGTH = "think_length"
    ENTROPY = "entropy"
    SAMPLER_GAP = "sampler_gap"
    RATIO = "ratio"
    GROUP_VARIANCE = "group_variance"
    TURNS = "turns"
    MALFORMED = "malformed"
    REWARD = "reward"
    CREDIT = "credit"
    GAIN = "gain"
    UNSCORED = "unscored"


class HealthConfig(BaseModel):
    """Thresholds; each figure is a mean over the last ``window`` steps, drifts are against the first ``window`` steps.

    Source of the list: LiteResearcher's first stage, which collapsed near step 510 while its reward still rose. The thresholds
    are ours: nobody has published any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: int = Field(default=5, ge=1)
    most_no_answer: float = Field(default=0.3, ge=0, le=1)
    """Share of rollouts without an answer of their own."""
    most_truncated: float = Field(default=0.5, ge=0, le=1)
    """Share of rollouts that ended at a budget."""
    most_query_drift: float = Field(default=0.5, gt=0)
    """Change of a query's style figures (quoted share, words), as a share of what they were at the beginning."""
    least_think: float = Field(default=0.25, ge=0)
    """Tokens of reasoning a turn, as a share of what they were at the beginning."""
    least_entropy: float = Field(default=0.0, ge=0)
    """Nats."""
    least_entropy_share: float = Field(default=0.1, ge=0)
    """Entropy, as a share of what it was at the beginning."""
    most_sampler_gap: float = Field(default=0.1, gt=0)
    """Mean absolute difference of log-probabilities between trainer and sampler, on tokens that the updated weights sampled."""
    most_stale_gap: float = Field(default=0.3, gt=0)
    """The same over all tokens: where a run is asynchronous there may be none that the updated weights sampled."""
    most_clipped: float = Field(default=0.5, ge=0, le=1)
    """Share of tokens that were clipped, masked or vetoed: nothing was learnt from them."""
    most_far_ratios: float = Field(default=0.1, ge=0, le=1)
    """Share of tokens whose ratio is below 1/2 or above 2."""
    least_signal: float = Field(default=0.05, ge=0, le=1)
    """Share of groups whose outcomes differ."""
    least_turns: float = Field(default=0.4, ge=0)
    """Turns of a rollout, as a share of what they were at the beginning."""
    most_malformed: float = Field(default=0.5, ge=0, le=1)
    """Share of turns that break the grammar."""
    least_reward: float = Field(default=0.5, ge=0)
    """Reward, as a share of the best it has been."""
    least_outcome_credit: float = Field(default=0.1, ge=0, le=1)
    """Share of the credit's size that comes from outcomes; the rest is gains and penalties."""
    most_gain: float = Field(default=2.0, gt=1)
    """Information gain of a turn, as a multiple of what it was at the beginning, while the reward is no higher than then."""
    most_unscored: float = Field(default=0.25, ge=0, le=1)
    """Share of rollouts without an outcome."""
    pause_on: frozenset[Alarm] = frozenset()
    """Alarms that stop the run, resumably, with a sentence."""
