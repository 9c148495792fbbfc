"""What an RL step looked like, in numbers. Pure functions of its rollouts, its table and its credit.

Shares and means are 0 where there is nothing to take them of: metrics files hold no NaN. What each figure means, and which
of them are watched, is listed in docs/rl-health.md.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from sanderling.core.profiles import ToolNames
from sanderling.core.record import Node, Trajectory, turn_indices
from sanderling.core.types import Ending
from sanderling.rl.contract import Ended, Group
from sanderling.rl.credit.groups import Components, differ, outcomes
from sanderling.rl.credit.table import Graded, TurnTable, TurnTool
from sanderling.rl.denoise import repeated_turns
from sanderling.train.contract import FloatArray

_TOOLS = (TurnTool.SEARCH, TurnTool.VISIT, TurnTool.BOTH, TurnTool.OTHER)
_VISITS = (TurnTool.VISIT, TurnTool.BOTH)
_AT_BUDGET = frozenset(
    {Ending.ANSWERED_AT_BUDGET, Ending.NO_ANSWER, Ending.CONTEXT_EXHAUSTED, Ending.TURN_LIMIT, Ending.TIME_LIMIT}
)
_QUOTED = re.compile(r'"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»')
_COUNTED = frozenset({"rows", "tokens", "trained_tokens", "computed_tokens", "seconds"})
"""Figures of an update that add up over a step."""
DEFAULT_NAMES = ToolNames()


def step_metrics(
    batch: Sequence[Graded],
    table: TurnTable,
    advantages: FloatArray,
    *,
    groups: Sequence[Group] = (),
    tools: ToolNames = DEFAULT_NAMES,
) -> dict[str, float]:
    """A step's figures of rollouts, groups and turns.

    ``groups``: all that ended for this step, those that were dropped and what denoising left out included (none: the batch's
    own). Behaviour is measured on these: a group in which nobody answers is flat, and would be out of sight with the groups
    that are dropped for being flat.
    """
    if groups:
        ended = [one for group in groups for one in group.rollouts]
        spreads = [np.array(group.outcomes) for group in groups if group.outcomes]
    else:
        ended = [Ended(graded.trajectory, graded.outcome) for graded in batch]
        found = outcomes(table)
        spreads = [found.outcome[members] for members in found.groups()]
    used = np.isin(table.tool, _TOOLS)
    gains = table.gain[table.gain_scored]
    return {
        **rollout_figures(ended, tools),
        "groups_with_signal": _mean([differ(values) for values in spreads]),
        "outcome_spread": _mean([float(values.std()) for values in spreads]),
        "browse_share": _mean(np.isin(table.tool[used], _VISITS)),
        "malformed_share": _mean(table.penalty < 0),
        "capped_share": _mean(table.capped),
        "gain": _mean(gains),
        "gain_size": _mean(np.abs(gains)),
        "gain_positive": _mean(gains > 0),
        "gains_scored": int(table.gain_scored.sum()),
        "advantage_size": _mean(np.abs(advantages)),
        "turn_tokens": _mean(table.tokens),
    }


def rollout_figures(rollouts: Sequence[Ended], tools: ToolNames = DEFAULT_NAMES) -> dict[str, float]:
    """Reward, endings and behaviour. Those that met an outage count in ``unscored`` and ``ending_*`` only."""
    scored = [one for one in rollouts if one.outcome is not None]
    trajectories = [one.trajectory for one in scored]
    turns = [[t.nodes[index] for index in turn_indices(t)] for t in trajectories]
    every = list(chain.from_iterable(turns))
    asked = [query for trajectory in trajectories for query in queries(trajectory, tools)]
    endings = Counter(str(one.trajectory.ending) for one in rollouts)
    figures = {
        "reward": _mean([one.outcome for one in scored if one.outcome is not None]),
        "rollouts": len(rollouts),
        "unscored": 1.0 - len(scored) / len(rollouts) if rollouts else 0.0,
        "no_answer": _mean([not (trajectory.answer or "").strip() for trajectory in trajectories]),
        "truncated": _mean([trajectory.ending in _AT_BUDGET for trajectory in trajectories]),
        "turns": _mean([len(own) for own in turns]),
        "length": _mean([sum(len(node.token_ids or ()) for node in trajectory.branch()) for trajectory in trajectories]),
        "think_tokens": _mean([think_tokens(node) for node in every]),
        "repeated_turns": _mean(list(chain.from_iterable(repeated_turns(trajectory) for trajectory in trajectories))),
        "queries_per_turn": len(asked) / len(every) if every else 0.0,
        "quoted_queries": _mean([_QUOTED.search(query) is not None for query in asked]),
        "query_words": _mean([len(query.split()) for query in asked]),
    }
    return {**figures, **{f"ending_{name}": count / len(rollouts) for name, count in sorted(endings.items())}}


def queries(trajectory: Trajectory, tools: ToolNames = DEFAULT_NAMES) -> Iterator[str]:
    """What was searched for, in order; a call that asks several things yields each."""
    for index in turn_indices(trajectory):
        for call in trajectory.nodes[index].calls:
            if call.name == tools.search:
                asked: Any = call.arguments.get(tools.search_query)
                yield from (one for one in (asked if isinstance(asked, list) else [asked]) if isinstance(one, str))


def think_tokens(turn: Node) -> float:
    """Tokens of a turn's reasoning: its sampled tokens, by the share of its text that is reasoning."""
    size = len(turn.token_ids) if turn.token_ids is not None else turn.sampled_tokens
    return size * min(1.0, len(turn.think or "") / len(turn.text)) if turn.text else 0.0


def credit_figures(parts: Components) -> dict[str, float]:
    """Mean sizes of an advantage's parts, and the outcome's share of their sum (1 where there is no credit at all)."""
    sizes = {name: _mean(np.abs(getattr(parts, name))) for name in ("outcome", "gain", "penalty")}
    total = sum(sizes.values())
    share = sizes["outcome"] / total if total > 0 else 1.0
    return {**{f"credit_{name}": size for name, size in sizes.items()}, "credit_outcome_share": share}


def update_figures(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over a step's updates, and sums of what is counted; none without one.

    ``sampler_gap_fresh``: the gap between trainer and sampler on tokens that the updated weights themselves have sampled, where
    there are any: no update lies between, so it is the two programs' own.
    """
    found = {name: float(np.mean([update[name] for update in updates])) for name in (updates[0] if updates else ())}
    found |= {name: value * len(updates) for name, value in found.items() if name in _COUNTED}
    fresh, gap = found.pop("fresh", 0.0), found.pop("fresh_gap", 0.0)
    return {**found, "sampler_gap_fresh": gap / fresh} if fresh > 0 else found


def age_figures(trajectories: Sequence[Trajectory], version: int) -> dict[str, float]:
    """Ages, in updates, of what is trained on by the update of ``version``, over trajectories with versions.

    ``age`` is the mean over trajectories of the age of their oldest token, ``age_oldest`` the most; ``versions`` how many
    versions sampled one trajectory, ``several_versions`` the share sampled by more than one.
    """
    found = [{v for node in trajectory.nodes for v in node.versions or ()} for trajectory in trajectories]
    found = [versions for versions in found if versions]
    ages = [version - min(versions) for versions in found]
    return {
        "age": _mean(ages),
        "age_oldest": float(max(ages, default=0)),
        "versions": _mean([len(versions) for versions in found]),
        "several_versions": _mean([len(versions) > 1 for versions in found]),
    }


def _mean(values: Sequence[float | bool] | np.ndarray) -> float:
    """The mean, 0 of nothing."""
    return float(np.mean(values)) if len(values) else 0.0
