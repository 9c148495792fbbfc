"""Credit: what each turn of a step did for its outcome. A pure function of the step's turns to one advantage per turn.

An estimator is a function ``(table, config)``; its settings are of the class that ``config`` is annotated with. One of your own
goes wherever a built-in's name does, as ``file.py:name``, and may return plain advantages [K]. To these the format penalty is
added, ``penalty_weight`` times each turn's; an estimator with a use of its own for it returns `Components`:

>>> def right_or_wrong(table: TurnTable) -> FloatArray:
...     return table.outcome - 0.5

Legend: K turns, N trajectories, G rollouts of a group. Unscored trajectories take part in no statistic and receive no credit;
those that are scored and not trained on take part and receive none. Formulas and sources: docs/rl.md. No torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from sanderling.core.errors import UserError
from sanderling.core.plugins import Choice, Chosen
from sanderling.rl.table import TurnTable
from sanderling.train.rows import BoolArray, FloatArray, IntArray

EPS = 1e-6
FLAT = 1e-9  # a spread below this is rounding: the values are taken as equal


class Estimating(Chosen):
    """What every estimator can be set."""

    penalty_weight: float = Field(default=1.0, ge=0)  # weight of a turn's format penalty

    @property
    def needs_gain(self) -> bool:
        """Whether turns need information gain."""
        return False

    @property
    def least_group(self) -> int:
        """Fewest rollouts of a question that can teach anything but form: one has nothing to be compared with."""
        return 2


@dataclass(frozen=True)
class Components:
    """An advantage in its parts, [K] each."""

    outcome: FloatArray
    gain: FloatArray
    penalty: FloatArray

    @property
    def total(self) -> FloatArray:
        """The advantages: their sum."""
        return self.outcome + self.gain + self.penalty


@dataclass(frozen=True)
class Outcomes:
    """The table's N trajectories, in order of first appearance by index."""

    of_turn: IntArray  # [K] which trajectory (0 to N-1) each turn belongs to
    group: IntArray
    outcome: FloatArray
    scored: BoolArray

    @classmethod
    def of(cls, table: TurnTable) -> "Outcomes":
        _, first, of_turn = np.unique(table.trajectory, return_index=True, return_inverse=True)
        return cls(of_turn.astype(np.int64), table.group[first], table.outcome[first], table.scored[first])

    def groups(self) -> Iterator[IntArray]:
        """The scored trajectories of each group that has any."""
        for group in np.unique(self.group):
            members = np.flatnonzero((self.group == group) & self.scored)
            if members.size:
                yield members


def differ(values: FloatArray) -> bool:
    """Whether the values say anything: false where all are equal, a single one included."""
    return values.size > 1 and float(np.ptp(values)) > FLAT


def z_scores(values: FloatArray, ddof: int = 0) -> FloatArray:
    """``(x - mean) / (std + eps)``; exactly zero where the values do not differ."""
    if not differ(values):
        return np.zeros_like(values)
    return (values - values.mean()) / (values.std(ddof=ddof) + EPS)


# -- one advantage for a whole rollout -------------------------------------------------------------------------------------


def outcome_credit(table: TurnTable, config: Estimating, of: Callable[[FloatArray], FloatArray]) -> Components:
    """Parts of an estimator that gives every turn its trajectory's advantage, and its own format penalty.

    ``of``: advantages of a group's outcomes; where these do not differ they are 0.
    """
    found = Outcomes.of(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        if differ(found.outcome[members]):
            advantage[members] = of(found.outcome[members])
    return Components(advantage[found.of_turn], np.zeros(len(table)), config.penalty_weight * table.penalty)


class Deviation(StrEnum):
    """Which standard deviation outcomes are divided by."""

    POPULATION = "population"  # over n (DR-Venus)
    SAMPLE = "sample"  # over n - 1 (LiteResearcher; TRL)
    NONE = "none"  # outcomes are not divided: Dr. GRPO (arXiv 2503.20783)


class GrpoConfig(Estimating):
    """Outcome minus the group's mean, over the group's standard deviation (arXiv 2402.03300)."""

    kind: str = "grpo"
    deviation: Deviation = Deviation.POPULATION  # which standard deviation outcomes are divided by


def grpo(table: TurnTable, config: GrpoConfig) -> Components:
    """``(o - mean) / (std + eps)``, or ``o - mean``."""
    if config.deviation is Deviation.NONE:
        return outcome_credit(table, config, lambda outcomes: outcomes - outcomes.mean())
    ddof = config.deviation is Deviation.SAMPLE
    return outcome_credit(table, config, lambda outcomes: z_scores(outcomes, ddof))


class LeaveOneOutConfig(Estimating):
    """Outcome minus the mean of the group's other rollouts (RLOO, arXiv 2402.14740)."""

    kind: str = "leave_one_out"
    right_above: float | None = None
    """Sign constraint: at most 0 for outcomes up to this, at least 0 above it (AgentCPM-Explore: 0.5)."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the advantage (AgentCPM-Explore's scripts: 2)."""


def leave_one_out(table: TurnTable, config: LeaveOneOutConfig) -> Components:
    """``scale * (o - mean of the others)``."""

    def advantage(outcomes: FloatArray) -> FloatArray:
        found = config.scale * (outcomes - (outcomes.sum() - outcomes) / (outcomes.size - 1))
        if config.right_above is None:
            return found
        return np.where(outcomes > config.right_above, np.maximum(found, 0.0), np.minimum(found, 0.0))

    return outcome_credit(table, config, advantage)


# -- IGPO: turn-level credit from information gain and outcome -------------------------------------------------------------
#
# Gains and outcome reach a trajectory's T turns by weights: every assignment and discount is linear in them. A *segment* ends
# at a scored turn; what follows the last of those is the tail. A turn's *place* is its number, or its segment's, by the kind of
# discount.

GAIN, PENALTY = 0, 1  # the columns of ``parts``
LEAST_SPREAD = 0.5
"""The others' deviation counts at least as this share of the whole group's: one trajectory that stands out is not blown up."""


class IgpoMode(StrEnum):
    """What makes outcomes and gains comparable within a group, and whether before or after gains are summed."""

    RETURNS = "returns"
    """Each turn's discounted gain-to-go, less the mean over the turns of the group's *other* trajectories, over these turns'
    deviation, and scaled; the outcome's z-score undiscounted. The one mode in which mere extra turns are neither paid nor
    punished (docs/rl.md); with a gamma below 1, turns with gains of their own are charged for putting off a later gain,
    and paid for putting off a loss."""
    STATE = "state"
    """The same, but less the mean over the turns of others that the same calls had led to, and not divided: it counts what a
    turn did, and not where it stood. A turn without a gain counts as 0 there, so searches and answers pay for their state's
    visits; where nobody else stood gains have no part. After GiGPO (arXiv 2505.10978), which holds outcomes against each other
    at equal states."""
    SCALED_SEPARATE = "scaled_separate"
    """Outcomes and gains z-scored each on its own, gains then scaled to the outcomes' size over the whole batch and summed; the
    outcome's z is the last turn's, and discounted on its way back (DR-Venus)."""
    SEPARATE = "separate"
    JOINT = "joint"  # z-scored together


class Assignment(StrEnum):
    """Which turns receive a scored turn's gain."""

    CODE = "code"
    """The scored turn and all turns since the scored turn before it share one value, in which the gain counts once (DR-Venus as
    released): with gains scored on visits, the searches that led there."""
    OWN_TURN = "own_turn"


class Discount(StrEnum):
    """What a step of discounting is."""

    PER_TURN = "per_turn"
    PER_SEGMENT = "per_segment"  # a scored turn and the unscored ones before it are one step (DR-Venus as released)


class PenaltyForm(StrEnum):
    """How a turn's format penalty enters."""

    OWN_TURN = "own_turn"
    """Added to that turn's advantage after everything else: in no statistic, and no other turn has it."""
    AS_RELEASED = "as_released"
    """It replaces the turn's gain, enters the gains' statistics and ends a segment, so that unscored turns before inherit it;
    on the last turn it replaces the outcome (DR-Venus as released)."""


class IgpoConfig(Estimating):
    """Information gain and outcome in the group, discounted backwards over turns (arXiv 2510.14967, 2604.19859)."""

    kind: str = "igpo"
    mode: IgpoMode = IgpoMode.RETURNS  # how gains and outcomes are made comparable
    assignment: Assignment = Assignment.CODE  # which turns receive a gain
    discount: Discount = Discount.PER_TURN  # what gamma counts
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount; by default 1 in ``returns``, 0 in ``state`` and 0.95, as published, in the other modes."""
    gain_weight: float = Field(default=1.0, ge=0)  # factor of the gains' part
    outcome_floor: float = Field(default=0.3, ge=0)
    """Least mean absolute z of outcomes that gains are scaled to."""
    max_scale: float = Field(default=10.0, gt=0)  # most that gains are multiplied by
    scale_over_flat: bool = False
    """Whether groups whose gains do not differ count in the scale, with zeros, and so raise it (DR-Venus as released); of no
    effect in ``state``."""
    penalty_form: PenaltyForm = PenaltyForm.OWN_TURN  # where the format penalty enters

    @model_validator(mode="before")
    @classmethod
    def _discounted_as_published(cls, given: Any) -> Any:
        if isinstance(given, dict) and "gamma" not in given and given.get("mode", IgpoMode.RETURNS) != IgpoMode.RETURNS:
            return {**given, "gamma": 0.0 if given["mode"] == IgpoMode.STATE else 0.95}
        return given

    @model_validator(mode="after")
    def _fines_nobody_else(self) -> Self:
        if self.mode is IgpoMode.STATE and self.penalty_form is PenaltyForm.AS_RELEASED:
            raise ValueError("mode = 'state' is for penalty_form = 'own_turn': others would be paid for a penalty")
        return self

    @property
    def needs_gain(self) -> bool:
        return True

    @property
    def least_group(self) -> int:
        """Where gains are not held against those of other rollouts, those of one rollout's turns differ, too."""
        return 2 if self.mode in (IgpoMode.RETURNS, IgpoMode.STATE) else 1


@dataclass(frozen=True)
class Rewards:
    """The rewards of a batch's turns."""

    found: Outcomes
    state: IntArray  # [K]
    scored: BoolArray  # [K] turns that end a segment: with a gain, or with a penalty in its place
    parts: FloatArray  # [K, 2] gains, and penalties in their place; 0 where there is none

    def trajectories(self) -> list[IntArray]:
        """Each trajectory's turns, in order: a table is sorted."""
        begins = np.flatnonzero(np.diff(self.found.of_turn, prepend=-1))
        return np.split(np.arange(len(self.scored)), begins[1:]) if begins.size else []

    def flowed(self, parts: FloatArray, config: "IgpoConfig") -> FloatArray:
        """The share of each turn in its trajectory's ``parts`` [K, 2]."""
        flowed = np.zeros_like(parts)
        for trajectory, turns in enumerate(self.trajectories()):
            if self.found.scored[trajectory]:
                flowed[turns] = gain_weights(self.scored[turns], config) @ parts[turns]
        return flowed

    def groups(self) -> Iterator[tuple[IntArray, IntArray]]:
        """The scored trajectories of each group that has any, and all their turns."""
        for members in self.found.groups():
            yield members, np.flatnonzero(np.isin(self.found.of_turn, members))


def igpo(table: TurnTable, config: IgpoConfig) -> Components:
    """Advantages [K] in parts. As released, a penalty's part is what flows from the turns it replaced, to them and earlier."""
    found = Outcomes.of(table)
    scored = table.gain_scored & table.scored
    rewards = Rewards(found, table.state, scored, np.stack([np.where(scored, table.gain, 0.0), np.zeros(len(table))], axis=1))
    penalty, replaced = config.penalty_weight * table.penalty, np.zeros(len(found.outcome), dtype=np.bool_)
    if config.penalty_form is PenaltyForm.AS_RELEASED:
        rewards, replaced = _as_released(rewards, np.where(table.scored, penalty, 0.0))
        penalty = np.zeros(len(table))
    outcome, parts = (gain_to_go if config.mode in (IgpoMode.RETURNS, IgpoMode.STATE) else one_by_one)(rewards, config)
    parts = config.gain_weight * parts
    of_penalty = np.where(replaced[found.of_turn], outcome, 0.0)
    return Components(outcome - of_penalty, parts[:, GAIN], parts[:, PENALTY] + of_penalty + penalty)


def _as_released(rewards: Rewards, penalty: FloatArray) -> tuple[Rewards, BoolArray]:
    """Penalties [K] in the place of their turns' gains and, on last turns, outcomes; which outcomes [N] they replaced."""
    found = rewards.found
    bad, last = penalty < 0, np.zeros(len(penalty), dtype=np.bool_)
    last[[turns[-1] for turns in rewards.trajectories()]] = True
    outcome, replaced = found.outcome.copy(), np.zeros(len(found.outcome), dtype=np.bool_)
    final = found.of_turn[bad & last]
    outcome[final], replaced[final] = penalty[bad & last], True
    inner = bad & ~last
    parts = np.where(inner[:, None], np.stack([np.zeros(len(penalty)), penalty], axis=1), rewards.parts)
    return Rewards(replace(found, outcome=outcome), rewards.state, rewards.scored | inner, parts), replaced


def one_by_one(rewards: Rewards, config: IgpoConfig) -> tuple[FloatArray, FloatArray]:
    """The modes that normalise each gain: of every turn the outcome's share [K] and the gains' [K, 2]."""
    found, values, normal = rewards.found, rewards.parts.sum(axis=1), np.zeros(len(rewards.scored))
    outcome_z, informative = np.zeros(len(found.outcome)), np.zeros(len(normal), dtype=np.bool_)
    for members, turns in rewards.groups():
        turns = turns[rewards.scored[turns]]
        outcomes, gains = found.outcome[members], values[turns]
        informative[turns] = config.scale_over_flat or differ(gains)
        if config.mode is IgpoMode.JOINT:
            both = z_scores(np.concatenate([outcomes, gains]))
            outcome_z[members], normal[turns] = both[: members.size], both[members.size :]
        else:
            outcome_z[members], normal[turns] = z_scores(outcomes), z_scores(gains)
    if config.mode is IgpoMode.SCALED_SEPARATE:
        normal *= gain_scale(outcome_z[found.scored], _mean_size(normal[informative]), config)
    parts = np.where(rewards.parts != 0.0, 1.0, 0.0)
    parts[:, GAIN] = 1.0 - parts[:, PENALTY]
    outcome = np.zeros(len(normal))
    for trajectory, turns in enumerate(rewards.trajectories()):
        place = places(rewards.scored[turns], config)
        outcome[turns] = outcome_z[trajectory] * config.gamma ** (place[-1] - place).astype(np.float64)
    return outcome, rewards.flowed(parts * normal[:, None], config)


def gain_to_go(rewards: Rewards, config: IgpoConfig) -> tuple[FloatArray, FloatArray]:
    """The modes ``returns`` and ``state``: of every turn the outcome's share [K] and the gains' [K, 2]."""
    found, credit = rewards.found, np.zeros_like(rewards.parts)
    to_go = rewards.flowed(rewards.parts, config)
    outcome_z, informative = np.zeros(len(found.outcome)), np.zeros(len(to_go), dtype=np.bool_)
    for members, turns in rewards.groups():
        outcome_z[members] = z_scores(found.outcome[members])
        differing = members.size > 1 and differ(to_go[turns].sum(axis=1))
        informative[turns] = config.scale_over_flat or differing
        if differing and config.mode is IgpoMode.STATE:
            credit[turns] = _against_those_at(to_go[turns], rewards.state[turns])
        elif differing:
            credit[turns] = _against_others(to_go[turns], found.of_turn[turns])
    total = credit.sum(axis=1)
    # Few turns are held against a state's others, and of many of these nothing is said: the mean is one of sizes by size.
    by_size = float((total**2).sum() / max(np.abs(total).sum(), EPS))
    size = by_size if config.mode is IgpoMode.STATE else _mean_size(total[informative])
    return outcome_z[found.of_turn], gain_scale(outcome_z[found.scored], size, config) * credit


def _against_others(to_go: FloatArray, owner: IntArray) -> FloatArray:
    """Each turn's parts, less the mean over the turns of other owners, over those turns' deviation; at least two owners."""
    _, owner = np.unique(owner, return_inverse=True)
    total = to_go.sum(axis=1)
    counts = len(owner) - np.bincount(owner)
    mean = np.stack([(part.sum() - np.bincount(owner, part)) / counts for part in to_go.T], axis=1)
    # Around the group's mean, so that equal values have a deviation of exactly zero.
    around = total - total.mean()
    first, second = ((x.sum() - np.bincount(owner, x)) / counts for x in (around, around**2))
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    spread = np.maximum(spread, LEAST_SPREAD * total.std()) + EPS
    return (to_go - mean[owner]) / spread[owner, None]


def _against_those_at(to_go: FloatArray, state: IntArray) -> FloatArray:
    """Each turn's parts, less the mean over the other turns of its state; 0 where there are none."""
    _, state = np.unique(state, return_inverse=True)
    others = np.bincount(state)[state] - 1
    total = np.stack([np.bincount(state, part)[state] for part in to_go.T], axis=1)
    return np.where(others[:, None] > 0, to_go - (total - to_go) / np.maximum(others, 1)[:, None], 0.0)


def _mean_size(values: FloatArray) -> float:
    return float(np.abs(values).mean()) if values.size else 0.0


def gain_scale(outcome_z: FloatArray, size: float, config: IgpoConfig) -> float:
    """The batch-wide factor of gains of this mean size."""
    target = max(_mean_size(outcome_z), config.outcome_floor)
    return min(target / (size + EPS), config.max_scale)


def segments(scored: BoolArray) -> IntArray:
    """Each turn's segment [T]: a scored turn begins none, the one behind it does."""
    return np.cumsum(scored) - scored


def places(scored: BoolArray, config: IgpoConfig) -> IntArray:
    """Each turn's place [T]."""
    return np.arange(len(scored)) if config.discount is Discount.PER_TURN else segments(scored)


def gain_weights(scored: BoolArray, config: IgpoConfig) -> FloatArray:
    """[T, T]: how much of turn j's gain turn k has. Columns of turns that are not scored are 0."""
    place, own = places(scored, config), segments(scored)
    weights = np.triu(config.gamma ** np.maximum(place[None, :] - place[:, None], 0).astype(np.float64))
    if config.assignment is Assignment.CODE:
        weights = np.where(own[None, :] == own[:, None], 1.0, weights)
    return weights * scored


# -- by name ---------------------------------------------------------------------------------------------------------------

ESTIMATORS = {"grpo": grpo, "leave_one_out": leave_one_out, "igpo": igpo}
CHOICE = Choice("estimator", ESTIMATORS, Estimating)
EstimatorConfig = Annotated[Estimating, CHOICE]  # settings of the estimator that ``kind`` names


@dataclass(frozen=True)
class Credit:
    """One configured estimator."""

    estimate: Callable[[TurnTable], Any]
    penalty_weight: float  # of the format penalty, where the estimator returns plain advantages

    def components(self, table: TurnTable) -> Components:
        """Advantages in their parts; none where none is due: on unscored or untrained turns, and no praise on capped ones."""
        found = self.estimate(table)
        if not isinstance(found, Components):  # a person's own estimator returned plain advantages
            found = np.asarray(found, dtype=np.float64)
            if found.shape != (len(table),) or not np.isfinite(found).all():
                wrong = f"not finite everywhere, or of the shape {found.shape}"
                raise UserError(f"The estimator's advantages are {wrong}: give one number for each of {len(table)} turns.")
            found = Components(found, 0.0 * found, self.penalty_weight * table.penalty)
        none = ~(table.scored & table.trained) | (table.capped & (found.total > 0))
        return Components(*(np.where(none, 0.0, part) for part in (found.outcome, found.gain, found.penalty)))

    def __call__(self, table: TurnTable) -> FloatArray:
        """Advantages [K]: the sum of the parts."""
        return self.components(table).total


def build_estimator(config: Estimating) -> Credit:
    """The estimator that a configuration describes."""
    return Credit(CHOICE.bound(config), config.penalty_weight)
