"""Reward denoising: which rollouts of a group are not trained on, which outcomes count in it, and which turns are capped.

AgentCPM-Explore's three filters (arXiv 2602.06485; names and defaults are ours) over one question's rollouts. *Environment
noise*: a rollout that met an outage of a tool or the model, or that no judge could decide, says nothing of the policy; it is
unscored and in no statistic, never a zero, and no setting changes that. *Extreme trajectories* and *format errors* are as
:class:`DenoiseConfig` has them. Signals are removed, never corrected: no outcome is changed.

And the format penalty, after DR-Venus (arXiv 2604.19859): one number for each turn, 0 where the turn keeps the grammar.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.profiles import Profile
from sanderling.core.record import NodeKind, Trajectory, turn_indices
from sanderling.core.types import Ending

_FORCED = frozenset({Ending.ANSWERED_AT_BUDGET, Ending.NO_ANSWER})
RIGHT_ABOVE = 0.5
"""An outcome above it is a right answer (AgentCPM-Explore cuts its scores there)."""
SAME = 1e-9
"""Outcomes that differ by less differ by rounding."""
_OUT_OF_CONTEXT = frozenset({Ending.CONTEXT_EXHAUSTED, Ending.TIME_LIMIT, Ending.NO_ANSWER})


class Place(StrEnum):
    """What a trajectory that is not trained on still does."""

    OUT = "out"
    """Nothing: it is out of its group's statistics, too."""
    BASELINE = "baseline"
    """Its outcome counts in its group's mean and spread."""


class ExtremeConfig(Frozen):
    """Trajectories that say more of the budget than of the policy."""

    over_long: bool = False
    """Those that ended for want of context, turns or time, or were asked for their answer then and gave none."""
    keep_over_long: int = Field(default=0, ge=0)
    """How many of a group's ``over_long`` ones are kept all the same, chosen by seed; never one past a bound in numbers."""
    most_tokens: int | None = Field(default=None, ge=1)
    """Longest branch in tokens."""
    most_turns: int | None = Field(default=None, ge=1)
    least_turns: int = Field(default=0, ge=0)
    """Right answers after at most so many turns are trivially short (0: none is)."""
    repetition: bool = False
    """Those that the loop ended for repeating themselves."""
    most_repeated: int | None = Field(default=None, ge=0)
    """Turns whose very text the trajectory has said before, at most."""
    place: Place = Place.OUT


class FormatConfig(Frozen):
    """Turns that break the grammar or repeat themselves."""

    no_positive_credit: bool = False
    """A turn that breaks the grammar keeps negative credit and gets no positive one."""
    repeated: bool = False
    """The same for a turn whose text the trajectory has said before."""


class DenoiseConfig(Frozen):
    """Everything off: outages alone are left out, and groups of which too little is left."""

    extreme: ExtremeConfig = ExtremeConfig()
    format: FormatConfig = FormatConfig()
    drop_flat: bool = False
    """Groups whose outcomes do not differ are dropped and replaced by others (dynamic sampling, arXiv 2503.14476)."""
    least_spread: float = Field(default=0.0, ge=0, le=1)
    """A group is flat when its best and worst outcome, from 0 to 1, differ by less (AgentCPM-Explore: 0.1) or not at all."""
    most_groups: float = Field(default=4.0, ge=1)
    """Groups finished for a step at most, in multiples of the step's; then it goes on with what has signal."""
    least_scored: float = Field(default=0.75, ge=0, le=1)
    """Share of a group's rollouts that has to be scored; with less it is left out whole, and another is made in its place: who
    met no outage is no fair sample where outages are many."""
    outage_wait_s: float = Field(default=5.0, ge=0)
    """Seconds before such a rollout is tried again, doubled each time."""
    outage_retries: int = Field(default=2, ge=0)
    """How often a rollout that met an outage is tried again (with an episode journal it goes on where it was); then its group
    goes on without it."""
    judge_patience_s: float = Field(default=600.0, ge=0)
    """Seconds that a rollout waits for a judge who is not reached; then the run stops, and the same command goes on."""


def turn_violations(trajectory: Trajectory, profile: Profile) -> list[tuple[Violation, ...]]:
    """What each turn (rejected attempts left out) breaks; the last turn after a forced hint has to be an answer."""
    turns = [node for node in trajectory.nodes if node.kind is NodeKind.TURN and not node.rejected]
    found = []
    for index, node in enumerate(turns):
        think_open = "<think>" in profile.think_prefix and (node.token_ids is not None or _goes_on(node.text))
        forced = index == len(turns) - 1 and trajectory.ending in _FORCED
        found.append((check_final if forced else check_turn)(node.text, think_open=think_open))
    return found


def _goes_on(text: str) -> bool:
    """Whether a turn without ids continues reasoning that its prompt opened: servers give such turns as they were sampled."""
    opened, closed = text.find("<think>"), text.find("</think>")
    return closed >= 0 and not 0 <= opened < closed


def turn_penalties(trajectory: Trajectory, profile: Profile, scale: float = 1.0) -> list[float]:
    """``-scale`` for each turn that breaks the grammar in any way, else 0."""
    return [-scale if violations else 0.0 for violations in turn_violations(trajectory, profile)]


class Noise(StrEnum):
    """Why a rollout is not trained on; where several hold, the first of them."""

    OUTAGE = "outage"
    """It ended in an outage or was cancelled, or no judge could score it."""
    OVER_LONG = "over_long"
    OVER_TURNED = "over_turned"
    REPETITIVE = "repetitive"
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class DenoisedRollout:
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


def denoise_group(
    group: Sequence[tuple[Trajectory, float | None]], config: DenoiseConfig, profile: Profile, seed: int = 0
) -> list[DenoisedRollout]:
    """What becomes of each of a group's rollouts, given with their outcomes (None: unscored).

    ``seed`` says which of the over-long ones are kept where ``keep_over_long`` asks for some; the rollouts' order does not.
    """
    noises = [noise_of(trajectory, outcome, config.extreme) for trajectory, outcome in group]
    for kept in _kept([trajectory for trajectory, _ in group], noises, config.extreme, seed):
        noises[kept] = None
    found = []
    for (trajectory, outcome), noise in zip(group, noises, strict=True):
        counts = noise is None or (noise is not Noise.OUTAGE and config.extreme.place is Place.BASELINE)
        found.append(DenoisedRollout(noise, outcome if counts else None, capped_turns(trajectory, config, profile)))
    return found


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

    Takes the ``outcome`` of each :class:`DenoisedRollout`. What follows from it is the caller's to decide (``drop_flat``).
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
