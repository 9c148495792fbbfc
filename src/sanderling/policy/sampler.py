"""Sampling a whole batch at once, with random numbers that belong to a turn and not to the batch.

Token t of a turn is drawn with the t-th uniform number of a Philox stream whose key is the SHA-256 of the turn's
:class:`SampleKey`. What else is running can therefore not change a draw; only rounding in the logits can (some 1e-6, since
matrix kernels block differently for other batch sizes), and only where a uniform falls that close to a boundary.

The distribution, in this order: presence penalty on tokens this turn has sampled, temperature, top-k, top-p of what top-k
left. Cuts are thresholds on the probability, so tokens that tie with the last one kept are kept too, and a row's cut does not
depend on how a sort breaks ties. The draw inverts the cumulative distribution in vocabulary order, in float64. Reported
log-probabilities are those of exactly this distribution; at temperature 0 the most likely token is taken, and its
log-probability is that of temperature 1 without cuts.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sanderling.core.types import Sampling
from sanderling.policy.contract import SampleKey

_BLOCK = 64
_CANDIDATES = 64
"""A top-p cut usually falls among this many most likely tokens; only where it does not are all of them sorted."""


class Uniforms:
    """The turn's random numbers in [0, 1), in order."""

    def __init__(self, key: SampleKey) -> None:
        digest = hashlib.sha256(key.text().encode("utf-8")).digest()
        self._random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
        self._block: list[float] = []

    def draw(self) -> float:
        """The next number."""
        if not self._block:
            self._block = self._random.random(_BLOCK).tolist()[::-1]
        return self._block.pop()


@dataclass(frozen=True)
class Settings:
    """The sampling of a batch of B rows, as tensors. What no row asks for is None and costs nothing."""

    greedy: torch.Tensor | None
    """(B,) bool: rows of temperature 0."""
    temperature: torch.Tensor | None
    """(B, 1) float64, 1 on greedy rows."""
    top_k: torch.Tensor | None
    """(B, 1) int64, 0: no cut."""
    top_p: torch.Tensor | None
    """(B, 1) float64, 1: no cut."""
    penalty: torch.Tensor | None
    """(B, 1) float64."""

    @classmethod
    def of(cls, rows: Sequence[Sampling], device: torch.device) -> "Settings":
        """Stack the rows' settings; the cuts of greedy rows are dropped."""

        def column(values: list[float] | list[int], neutral: float, dtype: torch.dtype) -> torch.Tensor | None:
            if all(value == neutral for value in values):
                return None
            return torch.tensor(values, dtype=dtype, device=device).unsqueeze(1)

        greedy = [row.temperature == 0 for row in rows]
        return cls(
            greedy=torch.tensor(greedy, device=device) if any(greedy) else None,
            temperature=column([row.temperature or 1.0 for row in rows], 1.0, torch.float64),
            top_k=column([0 if row.temperature == 0 else row.top_k for row in rows], 0, torch.int64),
            top_p=column([1.0 if row.temperature == 0 else row.top_p for row in rows], 1.0, torch.float64),
            penalty=column([row.presence_penalty for row in rows], 0.0, torch.float64),
        )


def distribution(logits: torch.Tensor, settings: Settings, seen: torch.Tensor | None = None) -> torch.Tensor:
    """The distribution each row is sampled from, not normalised after the cuts: what was cut is 0.

    ``logits`` (B, V); ``seen`` (B, V) bool, the tokens each row's turn has sampled, needed where a penalty is asked for.
    Returns (B, V) float64.
    """
    scores = logits.to(torch.float64)
    if settings.penalty is not None and seen is not None:
        scores = scores - settings.penalty * seen
    if settings.temperature is not None:
        scores = scores / settings.temperature
    weights = torch.softmax(scores, dim=-1)
    if settings.top_k is not None:
        weights = _cut_top_k(weights, settings.top_k)
    if settings.top_p is not None:
        weights = _cut_top_p(weights, settings.top_p)
    return weights


def sample(
    logits: torch.Tensor, settings: Settings, uniforms: torch.Tensor, seen: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row. ``logits`` (B, V), ``uniforms`` (B,) float64 in [0, 1). Returns ids (B,) and log-probs (B,).

    A row whose logits are not numbers has a log-probability that is none either.
    """
    weights = distribution(logits, settings, seen)
    cumulative = weights.cumsum(dim=-1)
    total = cumulative[:, -1:]
    target = torch.minimum(uniforms.unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total)))
    ids = torch.searchsorted(cumulative, target, right=True).clamp_(max=weights.shape[1] - 1)
    if settings.greedy is not None:
        ids = torch.where(settings.greedy.unsqueeze(1), weights.argmax(dim=-1, keepdim=True), ids)
    logprobs = torch.log(weights.gather(1, ids) / total)
    return ids.squeeze(1), logprobs.squeeze(1)


def _cut_top_k(weights: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    most = min(int(top_k.max()), weights.shape[1])
    best = weights.topk(most, dim=-1).values
    threshold = best.gather(1, (top_k.clamp(1, most) - 1))
    return weights.masked_fill((weights < threshold) & (top_k > 0), 0.0)


def _cut_top_p(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    wanted = top_p * weights.sum(dim=-1, keepdim=True)
    threshold = weights.amax(dim=-1, keepdim=True)
    unsure = ((threshold < wanted) & (top_p < 1.0)).squeeze(1).nonzero().squeeze(1)
    if unsure.numel():  # a trained policy is sure of most tokens: one token is then the whole nucleus
        threshold[unsure] = _nucleus_edge(weights[unsure], wanted[unsure])
    return weights.masked_fill((weights < threshold) & (top_p < 1.0), 0.0)


def _nucleus_edge(weights: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The smallest weight of the fewest largest ones that sum to ``wanted``. Both (R, ·); returns (R, 1)."""
    best = weights.topk(min(_CANDIDATES, weights.shape[1]), dim=-1).values
    if bool((best.sum(dim=-1, keepdim=True) < wanted).any()):
        best = weights.sort(dim=-1, descending=True).values
    before = best.cumsum(dim=-1) - best
    last = (before < wanted).sum(dim=-1, keepdim=True).clamp(min=1) - 1
    return best.gather(1, last)
