"""Reward denoising: which rollouts of a group are not trained on, which outcomes count in it, and which turns are capped.

AgentCPM-Explore's three filters (arXiv 2602.06485) over one question's rollouts. *Environment noise*: a rollout that met an
outage of a tool, a judge or the model says nothing of the policy; it is unscored and in no statistic, never a zero, and no
setting changes that. *Extreme trajectories* and *format errors* are as :class:`DenoiseConfig` has them. Signals are removed,
never corrected: no outcome is changed. Pure; knows no estimator and no trainer.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory, turn_indices
from sanderling.core.types import Ending
from sanderling.train.denoise_config import DenoiseConfig, ExtremeConfig, Place
from sanderling.train.format import turn_violations

RIGHT_ABOVE = 0.5
"""An outcome above it is a right answer (AgentCPM-Explore cuts its scores there)."""
SAME = 1e-9
"""Outcomes that differ by less differ by rounding."""


class Noise(StrEnum):
    """Why a rollout is not trained on; where several hold, the first of them."""

    OUTAGE = "outage"
    """It ended in an outage or was cancelled, or no judge could score it."""
    OVER_LONG = "over_long"
    OVER_TURNED = "over_turned"
    REPETITIVE = "repetitive"
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class Sifted:
    """What becomes of one rollout."""

    noise: Noise | None
    """None: it is trained on."""
    outcome: float | None
    """What counts in its group's statistics; None: nothing does."""
    capped: tuple[bool, ...]
    """For each turn (rejected attempts left out): it gets no positive credit, and keeps negative credit."""

    @property
    def trained(self) -> bool:
        return self.noise is None


_OUT_OF_CONTEXT = frozenset({Ending.CONTEXT_EXHAUSTED, Ending.TIME_LIMIT, Ending.NO_ANSWER})


def sift(
    group: Sequence[tuple[Trajectory, float | None]], config: DenoiseConfig, profile: Profile, seed: int = 0
) -> list[Sifted]:
    """What becomes of each of a group's rollouts, given with their outcomes (None: unscored).

    ``seed`` says which of the over-long ones are kept where ``keep_over_long`` asks for some; the rollouts' order does not.
    """
    noises = [noise_of(trajectory, outcome, config.extreme) for trajectory, outcome in group]
    for kept in _kept([trajectory for trajectory, _ in group], noises, config.extreme, seed):
        noises[kept] = None
    sifted = []
    for (trajectory, outcome), noise in zip(group, noises, strict=True):
        counts = noise is None or (noise is not Noise.OUTAGE and config.extreme.place is Place.BASELINE)
        sifted.append(Sifted(noise, outcome if counts else None, capped_turns(trajectory, config, profile)))
    return sifted


def is_outage(trajectory: Trajectory, outcome: float | None) -> bool:
    """Whether the world failed and not the agent, whatever number somebody gave it: it may be made again."""
    return outcome is None or (trajectory.ending is not None and not trajectory.ending.scored)


def noise_of(trajectory: Trajectory, outcome: float | None, config: ExtremeConfig) -> Noise | None:
    """Why a rollout would be left out, looked at alone."""
    turns = len(turn_indices(trajectory))
    # An answer that was given at the budget is an answer: only who gave none is over-long.
    if outcome is None or is_outage(trajectory, outcome):
        return Noise.OUTAGE
    if (config.over_long and trajectory.ending in _OUT_OF_CONTEXT) or _above(_tokens(trajectory), config.most_tokens):
        return Noise.OVER_LONG
    if (config.over_long and trajectory.ending is Ending.TURN_LIMIT) or _above(turns, config.most_turns):
        return Noise.OVER_TURNED
    if config.repetition and trajectory.ending is Ending.REPETITION:
        return Noise.REPETITIVE
    if _above(sum(repeated_turns(trajectory)), config.most_repeated):
        return Noise.REPETITIVE
    if turns <= config.least_turns and outcome > RIGHT_ABOVE:
        return Noise.TOO_SHORT
    return None


def capped_turns(trajectory: Trajectory, config: DenoiseConfig, profile: Profile) -> tuple[bool, ...]:
    """The turns that get no positive credit: those that break the grammar, and those that were said before."""
    none = [False] * len(turn_indices(trajectory))
    broken = map(bool, turn_violations(trajectory, profile)) if config.format.no_positive_credit else none
    repeated = repeated_turns(trajectory) if config.format.repeated else none
    return tuple(malformed or again for malformed, again in zip(broken, repeated, strict=True))


def repeated_turns(trajectory: Trajectory) -> list[bool]:
    """For each turn, whether the trajectory has said the very same before; the first time is none."""
    said: set[str] = set()
    found = []
    for index in turn_indices(trajectory):
        text = trajectory.nodes[index].text.strip()
        found.append(text in said)
        said.add(text)
    return found


def is_flat(outcomes: Sequence[float | None], config: DenoiseConfig) -> bool:
    """Whether a group's outcomes say nothing: best and worst of those that count differ by too little, or there is but one.

    Takes the ``outcome`` of each :class:`Sifted`. What follows from it is the caller's to decide (``drop_flat``).
    """
    scored = [outcome for outcome in outcomes if outcome is not None]
    spread = max(scored) - min(scored) if scored else 0.0
    return spread <= SAME or spread < config.least_spread - SAME


def _above(value: int, most: int | None) -> bool:
    return most is not None and value > most


def _tokens(trajectory: Trajectory) -> int:
    """Of the longest branch; nodes without ids count nothing."""
    branches = (sum(len(node.token_ids or ()) for node in trajectory.branch(leaf)) for leaf in trajectory.leaves())
    return max(branches, default=0)


def _kept(trajectories: Sequence[Trajectory], noises: Sequence[Noise | None], config: ExtremeConfig, seed: int) -> list[int]:
    """The over-long ones that are kept all the same, but for those past a bound in numbers: there may be no room for them."""
    hard = config.model_copy(update={"over_long": False})

    def rank(index: int) -> bytes:
        return hashlib.sha256(f"{seed}\x1f{trajectories[index].id}".encode()).digest()

    soft = [
        index
        for index, noise in enumerate(noises)
        if noise in (Noise.OVER_LONG, Noise.OVER_TURNED) and noise_of(trajectories[index], 0.0, hard) is None
    ]
    return sorted(sorted(soft, key=rank)[: config.keep_over_long])
