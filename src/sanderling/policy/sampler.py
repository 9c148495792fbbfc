"""Sampling a whole batch at once, with random numbers that belong to a turn and not to the batch.

Token t of a turn is drawn with the t-th uniform number of a Philox stream whose key is the SHA-256 of the turn's
:class:`SampleKey`. What else is running can therefore not change a draw; only rounding in the logits can (some 1e-6).
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from sanderling.core.types import Sampling
from sanderling.policy.contract import SampleKey

_CANDIDATES = 64  # A top-p cut usually falls among this many most likely tokens; only where it does not are all of them sorted


def uniforms(key: SampleKey) -> Callable[[], float]:
    """The turn's random numbers in [0, 1), one a call."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key.digest()[:16], "little"))).random


def sample(
    logits: torch.Tensor, rows: Sequence[Sampling], uniforms: torch.Tensor, seen: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row; returns ids (B,) and log-probabilities (B,), not numbers where the row's logits are none.

    ``logits`` (B, V); ``uniforms`` (B,) float64 in [0, 1); ``seen`` (B, V) bool, what each row's turn has sampled. In this
    order: presence penalty, temperature, top-k, top-p of what top-k left. Tokens that tie with the last one kept are kept too.
    Log-probabilities are those of exactly this distribution; at temperature 0 the likeliest token is taken, and its
    log-probability is that of temperature 1 without cuts.
    """

    def column(values: list[float], neutral: float, dtype: torch.dtype = torch.float64) -> torch.Tensor | None:
        """(B, 1), None where no row asks for anything."""
        asked = any(value != neutral for value in values)
        return torch.tensor(values, dtype=dtype, device=logits.device).unsqueeze(1) if asked else None

    greedy = [row.temperature == 0 for row in rows]
    scores = logits.to(torch.float64)
    penalty = column([row.presence_penalty for row in rows], 0.0)
    if penalty is not None and seen is not None:
        scores = scores - penalty * seen
    temperature = column([row.temperature or 1.0 for row in rows], 1.0)
    if temperature is not None:
        scores = scores / temperature
    weights = torch.softmax(scores, dim=-1)
    top_k = column([0 if row.temperature == 0 else row.top_k for row in rows], 0, torch.int64)
    if top_k is not None:
        most = min(int(top_k.max()), weights.shape[1])
        threshold = weights.topk(most, dim=-1).values.gather(1, (top_k.clamp(1, most) - 1))
        weights = weights.masked_fill((weights < threshold) & (top_k > 0), 0.0)
    top_p = column([1.0 if row.temperature == 0 else row.top_p for row in rows], 1.0)
    if top_p is not None:
        weights = _cut_top_p(weights, top_p)
    cumulative = weights.cumsum(dim=-1)
    total = cumulative[:, -1:]
    target = torch.minimum(uniforms.unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total)))
    ids = torch.searchsorted(cumulative, target, right=True).clamp_(max=weights.shape[1] - 1)
    if any(greedy):
        likeliest = weights.argmax(dim=-1, keepdim=True)
        ids = torch.where(torch.tensor(greedy, device=logits.device).unsqueeze(1), likeliest, ids)
    return ids.squeeze(1), torch.log(weights.gather(1, ids) / total).squeeze(1)


def _cut_top_p(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    wanted = top_p * weights.sum(dim=-1, keepdim=True)
    threshold = weights.amax(dim=-1, keepdim=True)
    unsure = ((threshold < wanted) & (top_p < 1.0)).squeeze(1).nonzero().squeeze(1)
    if unsure.numel():  # a trained policy is sure of most tokens: one token is then the whole nucleus
        found, sums = weights[unsure], wanted[unsure]
        best = found.topk(min(_CANDIDATES, found.shape[1]), dim=-1).values
        if bool((best.sum(dim=-1, keepdim=True) < sums).any()):
            best = found.sort(dim=-1, descending=True).values
        before = best.cumsum(dim=-1) - best
        last = (before < sums).sum(dim=-1, keepdim=True).clamp(min=1) - 1
        threshold[unsure] = best.gather(1, last)
    return weights.masked_fill((weights < threshold) & (top_p < 1.0), 0.0)
