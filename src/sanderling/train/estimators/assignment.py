"""How one trajectory's gains and outcome reach its turns: as weights, since every assignment and discount is linear in them.

Legend: T turns of one trajectory, in order. A *segment* ends at a scored turn; what follows the last of those is the tail,
which ends at the last turn. A turn's *place* is its number, or its segment's, by the kind of discount.
"""

import numpy as np

from sanderling.core.record import TurnTool
from sanderling.train.contract import BoolArray, FloatArray, IntArray
from sanderling.train.credit_config import Assignment, Discount, IgpoConfig


def segments(scored: BoolArray) -> IntArray:
    """Each turn's segment [T]."""
    ends = scored.copy()
    ends[-1:] = True
    return np.searchsorted(np.flatnonzero(ends), np.arange(len(scored)))


def places(scored: BoolArray, discount: Discount) -> IntArray:
    """Each turn's place [T]."""
    return np.arange(len(scored)) if discount is Discount.PER_TURN else segments(scored)


def gamma_of(place: IntArray, config: IgpoConfig) -> float:
    """The discount of one place; of a trajectory with a single one it does not matter."""
    count = int(place[-1]) + 1
    return config.gamma if config.adaptive_gamma is None or count < 2 else config.adaptive_gamma ** (1.0 / count)


def gain_weights(scored: BoolArray, tool: np.ndarray, config: IgpoConfig, gamma: float | None = None) -> FloatArray:
    """[T, T]: how much of turn j's gain turn k has. Columns of turns that are not scored are 0."""
    place = places(scored, config.discount)
    gamma = gamma_of(place, config) if gamma is None else gamma
    ahead = place[None, :] - place[:, None]
    size = np.arange(len(scored))
    later = np.where(size[None, :] >= size[:, None], gamma ** np.maximum(ahead, 0).astype(np.float64), 0.0)
    if config.assignment is Assignment.CODE:
        own = segments(scored)
        later = np.where((own[None, :] == own[:, None]) & scored[None, :], 1.0, later)
        return later * scored
    return later @ receivers(scored, tool, config.assignment).astype(np.float64)


def receivers(scored: BoolArray, tool: np.ndarray, assignment: Assignment) -> BoolArray:
    """[T, T]: whether turn k is handed turn j's gain, for the assignments that hand out copies."""
    found = np.diag(scored)
    searches = (tool == TurnTool.SEARCH) & ~scored
    start = 0
    for end in np.flatnonzero(scored):
        before = start + np.flatnonzero(searches[start:end])
        if assignment is Assignment.SINCE_LAST_VISIT:
            found[before, end] = True
        elif assignment is Assignment.PREVIOUS_SEARCH:
            found[before[-1:], end] = True
        start = end + 1
    return found


def outcome_weights(scored: BoolArray, config: IgpoConfig) -> FloatArray:
    """[T]: how much of the outcome each turn has, when it is discounted from the last."""
    place = places(scored, config.discount)
    return gamma_of(place, config) ** (place[-1] - place).astype(np.float64)
