"""Random numbers without a generator: each is a pure function of what it is for.

A draw is keyed by (world seed, episode seed, what is asked, occurrence): SHA-256 over the key, read as a number in [0, 1). No
clock, no counter, no order: calls may be permuted, made at the same time, or made in another process, and each still draws what
it would have drawn alone. Knows no world, no profile and no call.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

Choice = TypeVar("Choice")
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def uniform(*key: str | int) -> float:
    """A number in [0, 1) for a key: the first 53 bits of the SHA-256 of its JSON."""
    digest = hashlib.sha256(_ENCODER.encode(key).encode("ascii")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def standard_normal(u: float) -> float:
    """The standard normal value below which a share ``u`` in [0, 1) of all values lies; the ends are cut at 2^-54."""
    return _NORMAL.inv_cdf(min(max(u, 2**-54), 1 - 2**-53))


def log_normal(u: float, median: float, p95: float) -> float:
    """The value of quantile ``u`` of a log-normal distribution, in the unit of ``median``.

    exp(ln m + z(u) ln(p95 / m) / z(0.95)), with z the standard normal quantile.
    """
    if median == 0:
        return 0.0
    return median * math.exp(standard_normal(u) * math.log(p95 / median) / _Z95)


def choose(u: float, chances: Mapping[Choice, float]) -> Choice | None:
    """The choice whose stretch of [0, 1) holds ``u``, the stretches laid end to end in order; None past the last."""
    reached = 0.0
    for choice, chance in chances.items():
        reached += chance
        if u < reached:
            return choice
    return None


@dataclass(frozen=True)
class Draws:
    """The draws of one episode in one world.

    Example: ``Draws(world_seed=7, episode_seed=3).uniform("visit", "https://a.example", 0)``
    """

    world_seed: int
    episode_seed: int

    def uniform(self, *key: str | int) -> float:
        """A number in [0, 1); see the module."""
        return uniform(self.world_seed, self.episode_seed, *key)

    def happens(self, chance: float, *key: str | int) -> bool:
        """Whether something of this chance happens; never for 0, always for 1."""
        return chance > 0 and self.uniform(*key) < chance
