"""Information gains and log-probabilities of the same trajectories from the same passes. Knows no estimator."""

from collections.abc import Sequence

from sanderling.core.chat import Tokenizer
from sanderling.core.record import Trajectory
from sanderling.train.contract import FloatArray, Row
from sanderling.train.gain import GainConfig, plan_gains
from sanderling.train.scorer import ModelScorer


def gains_and_logprobs(
    trajectories: Sequence[Trajectory],
    rows: Sequence[Sequence[Row]],
    tokenizer: Tokenizer,
    scorer: ModelScorer,
    config: GainConfig,
) -> tuple[list[list[float | None]], list[list[FloatArray]]]:
    """:func:`sanderling.train.gain.information_gains`, and each trajectory's rows as `row_logprobs` would score them.

    A row's advantages are not looked at, so that rows can be made before there are any. Collective, and the same on every rank.
    """
    plans = [plan_gains(trajectory, tokenizer, config) for trajectory in trajectories]
    found = scorer.score_with_rows([plan.request for plan in plans], rows)
    gains = [plan.gains(one.boundaries) for plan, one in zip(plans, found, strict=True)]
    return gains, [one.rows for one in found]
