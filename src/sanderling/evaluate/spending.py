"""What attempts took: seconds, tokens and money, each and for a right answer. Pure.

What nobody counted is None, never 0: one attempt whose server does not say what it took leaves the sum unknown. A right answer
takes what *all* attempts took, over the number of right ones. Knows no server and no ledger.
"""

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from sanderling.core.types import Ending
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.result import Cost, Estimate, Latency, Spending
from sanderling.evaluate.statistics import FloatArray
from sanderling.policy.budget import Prices

_SECONDS, _SAMPLED, _PROMPT, _COST = "seconds", "sampled_tokens", "prompt_tokens", "cost"
_OUTAGES = frozenset({Ending.POLICY_OUTAGE, Ending.TOOL_OUTAGE, Ending.CANCELLED})


class Taken:
    """What each attempt took, [A], and its question's number."""

    def __init__(self, rows: Sequence[Episode], at: Sequence[int], questions: int, prices: Prices | None) -> None:
        self._at, self._questions, self._prices = np.asarray(at, dtype=np.int64), questions, prices
        nothing = np.array([not row.turns and row.ending in _OUTAGES for row in rows], dtype=np.bool_)
        self._right = np.array([bool(row.correct) for row in rows], dtype=np.float64)
        seconds = np.array([row.seconds for row in rows], dtype=np.float64)
        self._each = {
            _SECONDS: np.where((seconds > 0) | nothing, seconds, np.nan),
            _SAMPLED: _known([row.sampled_tokens for row in rows], nothing),
            _PROMPT: _known([row.prompt_tokens for row in rows], nothing),
        }
        self._each[_COST] = self._cost()

    def ratios(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Sums over sums of right ones by question, as `estimates` takes them."""
        right = self._by_question(self._right)
        return {name: (self._by_question(each), right) for name, each in self._each.items()}

    def spending(self, found: Mapping[str, Estimate]) -> Spending:
        """For each right answer."""
        seconds, sampled, prompt = (found[name] for name in (_SECONDS, _SAMPLED, _PROMPT))
        return Spending(
            seconds=seconds.value, seconds_interval=seconds.interval,
            sampled_tokens=sampled.value, sampled_interval=sampled.interval,
            prompt_tokens=prompt.value, prompt_interval=prompt.interval,
        )  # fmt: skip

    def cost(self, found: Mapping[str, Estimate]) -> Cost | None:
        """None without prices."""
        if self._prices is None:
            return None
        each, right = self._each[_COST], found[_COST]
        total = float(each.sum())
        known = isfinite(total)
        return Cost(
            prompt_price=self._prices.prompt,
            sampled_price=self._prices.sampled,
            total=total if known else None,
            attempt=total / each.size if known else None,
            right=right.value,
            right_interval=right.interval,
        )

    def _cost(self) -> FloatArray:
        """[A]; a price of 0 asks for no count."""
        if self._prices is None:
            return np.full(self._at.size, np.nan)
        parts = [(self._prices.prompt, _PROMPT), (self._prices.sampled, _SAMPLED)]
        return sum((price * self._each[name] / 1e6 for price, name in parts if price), np.zeros(self._at.size))

    def _by_question(self, each: FloatArray) -> FloatArray:
        return np.bincount(self._at, weights=each, minlength=self._questions).astype(np.float64)


def latency(judged: Sequence[Episode]) -> Latency:
    """Of scored attempts."""
    right = [row for row in judged if row.correct]
    seconds, of_right = [row.seconds or None for row in judged], [row.seconds or None for row in right]
    return Latency(
        mean=mean(seconds),
        median=_median(seconds),
        right_mean=mean(of_right),
        right_median=_median(of_right),
        model=mean([row.model_seconds for row in judged]),
        tools=mean([row.tool_seconds for row in judged]),
    )


def mean(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _median(values: Sequence[float | None]) -> float | None:
    return None if not values or None in values else float(np.median(np.array(values, dtype=np.float64)))


def _known(counts: Sequence[int | None], nothing: np.ndarray) -> FloatArray:
    """[A]; NaN where not known, but 0 where nothing was begun: an outage before the first turn took no token."""
    found = np.array([np.nan if count is None else count for count in counts], dtype=np.float64)
    return np.where(np.isnan(found) & nothing, 0.0, found)
