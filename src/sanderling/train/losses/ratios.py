"""Ratios of policies: by token, over a row, and bounded so that one outlier is large but finite, with its gradient kept."""

import torch
from torch import Tensor

from sanderling.core.errors import UserError
from sanderling.train.credit_config import RatioTo
from sanderling.train.losses.contract import LossInputs

LIMIT = 20.0
"""Log-ratios beyond this size enter with this size: exp(20) is 5e8, and float32 overflows at exp(88.7)."""


def bounded(gap: Tensor) -> Tensor:
    """The log-ratio within the limit. Its gradient passes: a clamp's would vanish exactly where the policy is furthest off."""
    return gap + (gap.clamp(-LIMIT, LIMIT) - gap).detach()


def log_ratio(tokens: LossInputs, to: RatioTo) -> Tensor:
    """Log policy minus log of the policy that the configuration names, with gradient. Raises ValueError where rows lack it."""
    return tokens.logprobs - anchor(tokens, to)


def anchor(tokens: LossInputs, to: RatioTo) -> Tensor:
    """Log-probabilities under the policy that ratios are taken to, without gradient."""
    if to is RatioTo.SAMPLER:
        return tokens.need("sampler")
    return tokens.logprobs.detach() if tokens.proximal is None else tokens.proximal


def row_sums(tokens: LossInputs, values: Tensor) -> tuple[Tensor, Tensor]:
    """For each token the sum of ``values`` over its row's trained tokens, and their number.

    Raises UserError where rows are not whole.
    """
    rows = tokens.sequence
    if rows is None:
        raise UserError(
            "This loss compares whole rows, and here several devices share each row: set parallel.context to 1, or choose a "
            "loss of single tokens without a veto."
        )
    count = int(rows.max()) + 1 if rows.numel() else 0
    totals = torch.zeros(count, dtype=values.dtype, device=values.device).index_add(0, rows, values)
    return totals[rows], torch.bincount(rows, minlength=count)[rows].to(values.dtype)
