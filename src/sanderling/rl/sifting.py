"""Which of a group's rollouts are trained on, which only count in its baseline, and whether the group teaches anything. Pure.

To what `rl.denoise` leaves out comes what is too old for the bound on staleness: it is out of the group's statistics, too.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sanderling.core.profiles import Profile
from sanderling.core.record import turn_indices
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import Ended, Fate, Group, oldest_version
from sanderling.rl.denoise import Noise, is_flat, is_outage
from sanderling.rl.denoise import sift as denoise

STALE = "stale"
_TELLING = 2
"""Scored rollouts that a group needs at least to compare."""


@dataclass(frozen=True)
class Sifted:
    """A rollout, and what it may do."""

    ended: Ended
    group: int
    """Its group's number."""
    left_out: str | None
    """Why it is not trained on: a Noise, or STALE."""
    outcome: float | None
    """What counts in its group's statistics; None: nothing does."""
    capped: tuple[bool, ...]
    """For each turn: it gets no positive credit."""


def sift(group: Group, version: int, config: RlConfig, profile: Profile) -> list[Sifted]:
    """Each rollout of a group, seen from a step that updates ``version``."""
    stale = [_is_stale(one, version, config) for one in group.rollouts]
    pairs = [(one.trajectory, one.outcome) for one, old in zip(group.rollouts, stale, strict=True) if not old]
    others = iter(denoise(pairs, config.denoise, profile, config.seed))  # what is too old takes no other's place among the kept
    found = []
    for ended, old in zip(group.rollouts, stale, strict=True):
        if old:
            found.append(Sifted(ended, group.number, STALE, None, (False,) * len(turn_indices(ended.trajectory))))
        else:
            one = next(others)
            found.append(Sifted(ended, group.number, one.noise and one.noise.value, one.outcome, one.capped))
    return found


def _is_stale(ended: Ended, version: int, config: RlConfig) -> bool:
    """Whether its oldest token is too old; an outage is one, however old."""
    oldest = oldest_version(ended.trajectory)
    if oldest is None or is_outage(ended.trajectory, ended.outcome):
        return False
    return version - oldest > config.pipeline.max_staleness * config.updates_per_step


def fate(group: Group, version: int, config: RlConfig, profile: Profile) -> Fate:
    """What becomes of a group that could be taken by a step that updates ``version``."""
    sifted = sift(group, version, config, profile)
    outcomes = [one.outcome for one in sifted if one.outcome is not None]
    enough = min(_TELLING, config.group_size)
    if len(group.outcomes) < max(enough, config.denoise.least_scored * len(group.rollouts)):
        return Fate.UNSCORED
    if len(outcomes) < enough:
        return Fate.STALE if any(one.left_out == STALE for one in sifted) else Fate.NOISY
    return Fate.FLAT if config.denoise.drop_flat and is_flat(outcomes, config.denoise) else Fate.USED


def left_out(sifted: Iterable[Sifted]) -> dict[str, float]:
    """How many rollouts are not trained on, by reason, and how many turns are capped; all reasons, for a log."""
    rollouts = list(sifted)
    counts = Counter(one.left_out for one in rollouts)
    reasons = (*(noise.value for noise in Noise), STALE)
    return {**{f"left_out_{name}": counts[name] for name in reasons}, "capped_turns": sum(sum(one.capped) for one in rollouts)}
