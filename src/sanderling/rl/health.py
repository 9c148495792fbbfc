"""A run's health: what a step looked like, in numbers, and alarms on these, each with what to do.

Figures are pure functions of a step's rollouts, its table and its credit. Shares and means are 0 where there is nothing to take
them of: metrics files hold no NaN. What each figure means, and which of them are watched, is listed in docs/rl-health.md.

A rising reward is no sign of health: LiteResearcher's first stage gained reward until shortly before it collapsed near step
510, while quoted queries and reasoning had long been shrinking. So behaviour is watched, against thresholds and against the
run's own best. An alarm looks at a figure's mean over a window of steps; steps without it (such as those without an update) are
passed over. After a resume it judges as one that saw every step.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.profiles import ToolNames
from sanderling.core.record import Node, Trajectory, turn_indices
from sanderling.core.types import Ending
from sanderling.rl.contract import FinishedRollout, Group, oldest_version
from sanderling.rl.credit.table import Components, TurnTable, TurnTool, differ

_TOOLS = (TurnTool.SEARCH, TurnTool.VISIT, TurnTool.BOTH, TurnTool.OTHER)
_VISITS = (TurnTool.VISIT, TurnTool.BOTH)
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


def age_figures(trajectories: Iterable[Trajectory], version: int) -> dict[str, float]:
    """In updates, the age of what the update of ``version`` trains on, by each trajectory's oldest token: mean and most."""
    ages = [version - oldest for one in trajectories if (oldest := oldest_version(one)) is not None]
    return {"age": _mean(ages), "age_oldest": float(max(ages, default=0))}


def _mean(values: Sequence[float | bool] | np.ndarray) -> float:
    """The mean, 0 of nothing."""
    return float(np.mean(values)) if len(values) else 0.0


# -- alarms ----------------------------------------------------------------------------------------------------------------


class Alarm(StrEnum):
    """What is watched."""

    NO_ANSWER = "no_answer"
    TRUNCATION = "truncation"
    QUERY_STYLE = "query_style"
    THINK_LENGTH = "think_length"
    TURNS = "turns"
    MALFORMED = "malformed"
    UNSCORED = "unscored"
    REWARD = "reward"
    GROUP_VARIANCE = "group_variance"
    ENTROPY = "entropy"
    SAMPLER_GAP = "sampler_gap"
    RATIO = "ratio"
    CREDIT = "credit"


class Kind(StrEnum):
    """What a figure's windowed mean is held against."""

    ABOVE = "above"
    BELOW = "below"
    FELL = "fell"
    """Its share of the best window so far is below."""


@dataclass(frozen=True)
class Rule:
    """One figure that is watched."""

    alarm: Alarm
    figure: str
    kind: Kind
    threshold: float
    """By default; nobody has published any: these are ours."""
    what: str
    """The figure in words."""
    advice: str
    floor: float = 0.0
    """The least best window that a fall is measured from: changes of next to nothing are noise."""


_AGAIN = "look at the latest rollouts; begin again from a checkpoint before the change, in another directory"
_ROOM = "longer budgets or denoise.over_long keep running out of room from counting as a wrong answer"
_FORMAT = "turn on denoise.cap_malformed, or teach the format by SFT first"
_AWAY = "see that judges, tools and the model answer: who is scored while one is away is no fair sample"
_SPREAD = "choose questions by pass@k again, turn on denoise.drop_flat, or raise group_size"
_EXPLORE = "begin again with more exploration (a higher loss.clip_high, a KL to the reference)"
_SAME = "check that both have the same weights, temperature and precision"
_NEARER = "lower trainer.lr, updates_per_step or pipeline.max_staleness"
_OUTCOME = "lower estimator.gain_weight or estimator.penalty_weight: the run learns something else than to be right"
RULES = (
    # What the agent does, and what that brings.
    Rule(Alarm.NO_ANSWER, "no_answer", Kind.ABOVE, 0.3, "Share of rollouts without an answer", _AGAIN),
    Rule(Alarm.TRUNCATION, "truncated", Kind.ABOVE, 0.5, "Share of rollouts cut by a budget", _ROOM),
    Rule(Alarm.QUERY_STYLE, "quoted_queries", Kind.FELL, 0.5, "Share of quoted queries", _AGAIN, 0.1),
    Rule(Alarm.THINK_LENGTH, "think_tokens", Kind.FELL, 0.25, "Tokens of reasoning a turn", _AGAIN, 1.0),
    Rule(Alarm.TURNS, "turns", Kind.FELL, 0.4, "Turns of a rollout", _AGAIN, 1.0),
    Rule(Alarm.MALFORMED, "malformed_share", Kind.ABOVE, 0.5, "Share of malformed turns", _FORMAT),
    Rule(Alarm.UNSCORED, "unscored", Kind.ABOVE, 0.25, "Share of rollouts without an outcome", _AWAY),
    Rule(Alarm.REWARD, "reward", Kind.FELL, 0.5, "Reward", _AGAIN, 0.1),
    Rule(Alarm.GROUP_VARIANCE, "groups_with_signal", Kind.BELOW, 0.05, "Share of groups that differ", _SPREAD),
    # What the trainer does with it.
    Rule(Alarm.ENTROPY, "entropy", Kind.FELL, 0.1, "Entropy in nats", _EXPLORE),
    # On tokens that the updated weights sampled; where a run is asynchronous there may be none.
    Rule(Alarm.SAMPLER_GAP, "sampler_gap_fresh", Kind.ABOVE, 0.1, "Gap between trainer and sampler in nats", _SAME),
    Rule(Alarm.RATIO, "stopped", Kind.ABOVE, 0.5, "Share of tokens that were clipped, masked or vetoed", _NEARER),
    Rule(Alarm.CREDIT, "credit_outcome_share", Kind.BELOW, 0.1, "The outcome's share of credit", _OUTCOME),
)
"""Every figure that is watched, one for each alarm."""


class HealthConfig(Frozen):
    """When alarms go off, and which of them stop the run."""

    window: int = Field(default=5, ge=1)
    """Each figure is a mean over the last so many steps."""
    thresholds: dict[Alarm, float] = Field(default_factory=dict[Alarm, float])
    """Other thresholds than those of ``RULES``, by alarm."""
    pause_on: frozenset[Alarm] = frozenset()
    """Alarms that stop the run, resumably, with a sentence."""


class HealthPause(UserError):  # noqa: N818  it is no error
    """An alarm that the configuration wants to be asked about stopped the run. Started again, it goes on."""


@dataclass(frozen=True)
class Raised:
    """An alarm that went off."""

    alarm: Alarm
    sentence: str


class Health:
    """Watches a run; made of the metrics lines so far, it judges as one that saw them."""

    def __init__(self, config: HealthConfig, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        """``earlier``: the lines of the steps so far, oldest first. Their alarms are not raised again."""
        self._config = config
        self._seen: dict[str, list[float]] = {rule.figure: [] for rule in RULES}
        self._best: dict[str, float] = {}
        self.standing: frozenset[Alarm] = frozenset()
        """Alarms that are on."""
        for line in earlier:
            self.heard(line)

    def heard(self, figures: Mapping[str, Any]) -> list[Raised]:
        """Take note of a step's figures; returns the alarms that went off with it, and were not on before."""
        for name, values in self._seen.items():
            if name in figures:
                values.append(float(figures[name]))
        raised = [found for rule in RULES if (found := self._judge(rule))]
        new = [one for one in raised if one.alarm not in self.standing]
        self.standing = frozenset(one.alarm for one in raised)
        return new

    def figures(self) -> dict[str, float]:
        """For the metrics: each alarm as 0 or 1."""
        return {f"alarm_{alarm}": float(alarm in self.standing) for alarm in Alarm}

    def pause(self, step: int, raised: Sequence[Raised]) -> None:
        """Raises HealthPause when the configuration wants the run to stop for one of these; save first."""
        if stopping := [one.sentence for one in raised if one.alarm in self._config.pause_on]:
            raise HealthPause(f"Paused after step {step}. {' '.join(stopping)} The same command goes on from here.")

    def _judge(self, rule: Rule) -> Raised | None:
        window, values = self._config.window, self._seen[rule.figure]
        threshold = self._config.thresholds.get(rule.alarm, rule.threshold)
        if len(values) < window:
            return None
        now = _mean(values[-window:])
        best = self._best[rule.figure] = max(self._best.get(rule.figure, now), now)
        fell = rule.kind is Kind.FELL
        limit = threshold * best if fell else threshold
        if not (now > limit if rule.kind is Kind.ABOVE else now < limit) or (fell and best < rule.floor):
            return None
        was = f", was {best:.3g} at best" if fell else ""
        over = f"{now:.3g}{was} over the last {window} steps (alarm {rule.alarm} at {limit:.3g})"
        return Raised(rule.alarm, f"{rule.what}: {over}; {rule.advice}.")
