"""The format penalty: one number for each turn, 0 where the turn keeps the grammar.

Source: DR-Venus (arXiv 2604.19859), a binary penalty for each assistant turn. Knows no estimator.
"""

from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.profiles import Profile
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import Ending

_FORCED = frozenset({Ending.ANSWERED_AT_BUDGET, Ending.NO_ANSWER})


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
