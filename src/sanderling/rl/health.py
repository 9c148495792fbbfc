"""A run's health: what a step looked like, in numbers, and alarms on these.

Shares and means are 0 where there is nothing to take them of: metrics files hold no NaN. What each figure means, and what to do
about an alarm: docs/rl.md. A rising reward is no sign of health: LiteResearcher's first stage gained reward until
shortly before it collapsed. So behaviour is watched, against thresholds and against the run's own best, as a figure's mean over
a window of the steps that have it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.profiles import ToolNames
from sanderling.core.record import Node, Trajectory, turn_indices
from sanderling.core.types import Ending
from sanderling.rl.credit import Components, differ
from sanderling.rl.rollouts import FinishedRollout, Group, oldest_version
from sanderling.rl.table import TurnTable, TurnTool

_VISITS = (TurnTool.VISIT, TurnTool.BOTH)
_TOOLS = (*_VISITS, TurnTool.SEARCH, TurnTool.OTHER)
_AT_BUDGET = frozenset(
    {Ending.ANSWERED_AT_BUDGET, Ending.NO_ANSWER, Ending.CONTEXT_EXHAUSTED, Ending.TURN_LIMIT, Ending.TIME_LIMIT}
)
_QUOTED = re.compile(r'"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»')
_COUNTED = frozenset({"rows", "tokens", "trained_tokens", "computed_tokens", "seconds"})
"""Figures of an update that add up over a step."""


def step_metrics(table: TurnTable, groups: Sequence[Group], tools: ToolNames) -> dict[str, float]:
    """A step's figures of rollouts, groups and turns.

    ``groups``: all that ended for this step, dropped ones and what denoising left out included: a group in which nobody answers
    is flat, and would be out of sight with the groups that are dropped for being flat.
    """
    used, gains = np.isin(table.tool, _TOOLS), table.gain[table.gain_scored]
    spreads = [np.array(group.outcomes) for group in groups if group.outcomes]
    return {
        **rollout_figures([one for group in groups for one in group.rollouts], tools),
        "groups_with_signal": _mean([differ(values) for values in spreads]),
        "browse_share": _mean(np.isin(table.tool[used], _VISITS)),
        "malformed_share": _mean(table.penalty < 0),
        "gain": _mean(gains),
        "gains_scored": len(gains),
    }


def rollout_figures(rollouts: Sequence[FinishedRollout], tools: ToolNames) -> dict[str, float]:
    """Reward, endings and behaviour. Those that met an outage count in ``unscored`` and ``ending_*`` only."""
    scored = [one.trajectory for one in rollouts if one.outcome is not None]
    turns = [[t.nodes[index] for index in turn_indices(t)] for t in scored]
    asked = [query for trajectory in scored for query in queries(trajectory, tools)]
    endings = Counter(str(one.trajectory.ending) for one in rollouts)
    return {
        "reward": _mean([one.outcome for one in rollouts if one.outcome is not None]),
        "rollouts": len(rollouts),
        "unscored": 1.0 - len(scored) / len(rollouts) if rollouts else 0.0,
        "no_answer": _mean([not (trajectory.answer or "").strip() for trajectory in scored]),
        "truncated": _mean([trajectory.ending in _AT_BUDGET for trajectory in scored]),
        "turns": _mean([len(own) for own in turns]),
        "length": _mean([sum(len(node.token_ids or ()) for node in trajectory.branch()) for trajectory in scored]),
        "think_tokens": _mean([think_tokens(node) for own in turns for node in own]),
        "quoted_queries": _mean([_QUOTED.search(query) is not None for query in asked]),
        **{f"ending_{name}": count / len(rollouts) for name, count in sorted(endings.items())},
    }


def queries(trajectory: Trajectory, tools: ToolNames) -> Iterator[str]:
    """What was searched for, in order; a call that asks several things yields each."""
    for call in (call for index in turn_indices(trajectory) for call in trajectory.nodes[index].calls):
        if call.name == tools.search:
            asked: Any = call.arguments.get(tools.search_query)
            yield from (one for one in (asked if isinstance(asked, list) else [asked]) if isinstance(one, str))


def think_tokens(turn: Node) -> float:
    """Tokens of a turn's reasoning: its sampled tokens, by the share of its text that is reasoning."""
    size = len(turn.token_ids) if turn.token_ids is not None else turn.sampled_tokens
    return size * min(1.0, len(turn.think or "") / len(turn.text)) if turn.text else 0.0


def credit_figures(parts: Components) -> dict[str, float]:
    """Mean sizes of an advantage's parts."""
    return {f"credit_{name}": _mean(np.abs(getattr(parts, name))) for name in ("outcome", "gain", "penalty")}


def update_figures(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over a step's updates, and sums of what is counted; none without one."""
    found = {name: float(np.mean([update[name] for update in updates])) for name in (updates[0] if updates else ())}
    return found | {name: value * len(updates) for name, value in found.items() if name in _COUNTED}


def age_figures(trajectories: Iterable[Trajectory], version: int) -> dict[str, float]:
    """In updates, the age of what the update of ``version`` trains on, by each trajectory's oldest token: mean and most."""
    ages = [version - oldest for one in trajectories if (oldest := oldest_version(one)) is not None]
    return {"age": _mean(ages), "age_oldest": float(max(ages, default=0))}


def _mean(values: Sequence[float | bool] | np.ndarray) -> float:
    """The mean, 0 of nothing."""
    return float(np.mean(values)) if len(values) else 0.0


# -- alarms ----------------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """How the windowed mean of a figure is watched; thresholds are ours: nobody has published any."""

    kind: Literal["above", "below", "fell"]  # fell: its share of the best window so far is below
    threshold: float
    what: str  # the figure in words
    floor: float = 0.0  # the least best window that a fall is measured from: changes of next to nothing are noise


RULES = {
    "no_answer": Rule("above", 0.3, "Share of rollouts without an answer"),
    "truncated": Rule("above", 0.5, "Share of rollouts cut by a budget"),
    "quoted_queries": Rule("fell", 0.5, "Share of quoted queries", 0.1),
    "think_tokens": Rule("fell", 0.25, "Tokens of reasoning a turn", 1.0),
    "turns": Rule("fell", 0.4, "Turns of a rollout", 1.0),
    "malformed_share": Rule("above", 0.5, "Share of malformed turns"),
    "unscored": Rule("above", 0.25, "Share of rollouts without an outcome"),
    "reward": Rule("fell", 0.5, "Reward", 0.1),
    "groups_with_signal": Rule("below", 0.05, "Share of groups that differ"),
    "entropy": Rule("fell", 0.1, "Entropy in nats"),
    "sampler_gap": Rule("above", 0.1, "Gap between trainer and sampler in nats"),
    "stopped": Rule("above", 0.5, "Share of tokens that were clipped, masked or vetoed"),
}
"""By figure, which is the alarm's name. What to do about each: docs/rl.md."""


def _is_alarm(name: str) -> str:
    if name not in RULES:
        raise ValueError(f"there is no alarm {name!r}: choose from {', '.join(RULES)}")
    return name


Alarm = Annotated[str, AfterValidator(_is_alarm)]


class HealthConfig(Frozen):
    """When alarms go off, and which of them stop the run."""

    window: int = Field(default=5, ge=1)  # steps over which figures are averaged
    thresholds: dict[Alarm, float] = Field(default_factory=dict[Alarm, float])
    """Thresholds in place of the built-in ones, by alarm."""
    pause_on: frozenset[Alarm] = frozenset()  # alarms that pause the run


class HealthPause(UserError):  # noqa: N818  it is no error
    """An alarm that the configuration wants to be asked about stopped the run. Started again, it goes on."""


class Health:
    """Watches a run; made of the metrics lines so far, it judges as one that saw them."""

    def __init__(self, config: HealthConfig, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        """``earlier``: the lines of the steps so far, oldest first. Their alarms are not raised again."""
        self._config = config
        self._seen: dict[str, list[float]] = {name: [] for name in RULES}
        self._best: dict[str, float] = {}
        self._on: frozenset[str] = frozenset()
        for line in earlier:
            self.heard(line)

    def heard(self, figures: Mapping[str, Any]) -> dict[str, str]:
        """Take note of a step's figures; returns the alarms that went off with it, and were not on before, each in words."""
        for name, values in self._seen.items():
            if name in figures:
                values.append(float(figures[name]))
        raised = {name: sentence for name, rule in RULES.items() if (sentence := self._judge(name, rule))}
        new = {name: sentence for name, sentence in raised.items() if name not in self._on}
        self._on = frozenset(raised)
        return new

    def figures(self) -> dict[str, float]:
        """For the metrics: each alarm as 0 or 1."""
        return {f"alarm_{name}": float(name in self._on) for name in RULES}

    def pause(self, step: int, raised: Mapping[str, str]) -> None:
        """Raises HealthPause when the configuration wants the run to stop for one of these; save first."""
        if stopping := [sentence for name, sentence in raised.items() if name in self._config.pause_on]:
            raise HealthPause(f"Paused after step {step}. {' '.join(stopping)} Run the same command again to resume.")

    def _judge(self, name: str, rule: Rule) -> str:
        window, values = self._config.window, self._seen[name]
        threshold = self._config.thresholds.get(name, rule.threshold)
        if len(values) < window:
            return ""
        now = _mean(values[-window:])
        best = self._best[name] = max(self._best.get(name, now), now)
        fell = rule.kind == "fell"
        limit = threshold * best if fell else threshold
        if not (now > limit if rule.kind == "above" else now < limit) or (fell and best < rule.floor):
            return ""
        was = f", was {best:.3g} at best" if fell else ""
        return f"{rule.what}: {now:.3g}{was} over the last {window} steps (alarm {name} at {limit:.3g})."
