"""What an RL step looked like, in numbers. Pure functions of its trajectories and table."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sanderling.train.contract import FloatArray, TurnTable, TurnTool
from sanderling.train.estimators.groups import differ, outcomes
from sanderling.train.turn_table import Graded

_TOOLS = (TurnTool.SEARCH, TurnTool.VISIT, TurnTool.BOTH, TurnTool.OTHER)
_VISITS = (TurnTool.VISIT, TurnTool.BOTH)


def step_metrics(batch: Sequence[Graded], table: TurnTable, advantages: FloatArray) -> dict[str, float]:
    """Reward over scored trajectories, shares of endings, turns, browse share (of tool turns), penalties, gains, lengths."""
    scored = [graded.outcome for graded in batch if graded.outcome is not None]
    found = outcomes(table)
    groups = [differ(found.outcome[members]) for members in found.groups()]
    used = np.isin(table.tool, _TOOLS)
    endings = Counter(str(graded.trajectory.ending) for graded in batch)
    lengths = [sum(len(node.token_ids or ()) for node in graded.trajectory.branch()) for graded in batch]
    figures = {
        "reward": _mean(scored),
        "unscored": 1.0 - len(scored) / len(batch),
        "groups_with_signal": _mean(groups),
        "turns": len(table) / len(batch),
        "browse_share": _mean(np.isin(table.tool[used], _VISITS)),
        "malformed_share": _mean(table.penalty < 0),
        "gain": _mean(table.gain[table.gain_scored]),
        "gains_scored": int(table.gain_scored.sum()),
        "advantage_size": _mean(np.abs(advantages)),
        "length": _mean(lengths),
        "turn_tokens": _mean(table.tokens),
    }
    return {**figures, **{f"ending_{name}": count / len(batch) for name, count in sorted(endings.items())}}


def _mean(values: Sequence[float | bool] | np.ndarray) -> float:
    """The mean, 0 of nothing: metrics files hold no NaN."""
    return float(np.mean(values)) if len(values) else 0.0
