"""A run's health: what a step looked like, in numbers, and alarms on these, each with what to do.

Figures are pure functions of a step's rollouts, its table and its credit. Shares and means are 0 where there is nothing to take
them of: metrics files hold no NaN. What each figure means, and which of them are watched, is listed in docs/rl-health.md.

A rising reward is no sign of health: LiteResearcher's first stage gained reward until shortly before it collapsed near step
510, while quoted queries and reasoning had long been shrinking. So behaviour is watched, against thresholds and against the
run's own beginning. An alarm looks at a figure's mean over a window of steps; steps without it (such as those without an
update) are passed over. After a resume it judges as one that saw every step.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.profiles import ToolNames
from sanderling.core.record import Node, Trajectory, turn_indices
from sanderling.core.types import Ending
from sanderling.rl.contract import FinishedRollout, Group
from sanderling.rl.credit.table import Components, Graded, TurnTable, TurnTool, differ, outcomes
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
        ended = [FinishedRollout(graded.trajectory, graded.outcome) for graded in batch]
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


def rollout_figures(rollouts: Sequence[FinishedRollout], tools: ToolNames = DEFAULT_NAMES) -> dict[str, float]:
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


# -- alarms ----------------------------------------------------------------------------------------------------------------


class Alarm(StrEnum):
    """What is watched."""

    NO_ANSWER = "no_answer"
    TRUNCATION = "truncation"
    QUERY_STYLE = "query_style"
    THINK_LENGTH = "think_length"
    ENTROPY = "entropy"
    SAMPLER_GAP = "sampler_gap"
    RATIO = "ratio"
    GROUP_VARIANCE = "group_variance"
    TURNS = "turns"
    MALFORMED = "malformed"
    REWARD = "reward"
    CREDIT = "credit"
    GAIN = "gain"
    UNSCORED = "unscored"


class Kind(StrEnum):
    """What a figure's windowed mean is held against."""

    ABOVE = "above"
    BELOW = "below"
    DRIFT = "drift"
    """Its change since the first window, as a share of the first window, is above."""
    RISEN = "risen"
    """Its multiple of the first window is above, while the rule's ``beside`` has not risen."""
    BELOW_FIRST = "below_first"
    """Its share of the first window is below."""
    BELOW_BEST = "below_best"
    """Its share of the best window so far is below."""


@dataclass(frozen=True)
class Rule:
    """One figure that is watched."""

    alarm: Alarm
    figure: str
    kind: Kind
    name: str
    """Of its threshold."""
    threshold: float
    """By default; nobody has published any: these are ours."""
    what: str
    """The figure in words."""
    advice: str
    floor: float = 0.0
    """The least that a share is taken of: changes of next to nothing are noise."""
    beside: str = ""
    """The figure that explains a rise."""


_AGAIN = "look at the latest rollouts; begin again from a checkpoint before the change, in another directory"
_ROOM = "longer budgets or denoise.extreme.over_long keep running out of room from counting as a wrong answer"
_FORMAT = "turn on denoise.format.no_positive_credit, or teach the format by SFT first"
_AWAY = "see that judges, tools and the model answer: who is scored while one is away is no fair sample"
_SPREAD = "choose questions by pass@k again, turn on the curriculum or denoise.drop_flat, or raise group_size"
_EXPLORE = "begin again with more exploration (a higher loss.clip_high, a KL to the reference)"
_SAME = "check that both have the same weights, temperature and precision"
_CLOSER = "lower trainer.lr or pipeline.max_staleness, and check that both have the same temperature and precision"
_NEARER = "lower trainer.lr, updates_per_step or pipeline.max_staleness"
_OUTCOME = "lower estimator.gain_weight or estimator.penalty_weight: the run learns something else than to be right"
_GAIN = "look at the latest rollouts for pages that raise the answer's likelihood and help nobody; lower estimator.gain_weight"
_A, _K = Alarm, Kind
RULES = (
    # What the agent does, and what that brings.
    Rule(_A.NO_ANSWER, "no_answer", _K.ABOVE, "most_no_answer", 0.3, "Share of rollouts without an answer", _AGAIN),
    Rule(_A.TRUNCATION, "truncated", _K.ABOVE, "most_truncated", 0.5, "Share of rollouts cut by a budget", _ROOM),
    Rule(_A.QUERY_STYLE, "quoted_queries", _K.DRIFT, "most_query_drift", 0.5, "Share of quoted queries", _AGAIN, 0.1),
    Rule(_A.QUERY_STYLE, "query_words", _K.DRIFT, "most_query_drift", 0.5, "Words of a query", _AGAIN, 1.0),
    Rule(_A.THINK_LENGTH, "think_tokens", _K.BELOW_FIRST, "least_think", 0.25, "Tokens of reasoning a turn", _AGAIN, 1.0),
    Rule(_A.TURNS, "turns", _K.BELOW_FIRST, "least_turns", 0.4, "Turns of a rollout", _AGAIN, 1.0),
    Rule(_A.MALFORMED, "malformed_share", _K.ABOVE, "most_malformed", 0.5, "Share of malformed turns", _FORMAT),
    Rule(_A.UNSCORED, "unscored", _K.ABOVE, "most_unscored", 0.25, "Share of rollouts without an outcome", _AWAY),
    Rule(_A.REWARD, "reward", _K.BELOW_BEST, "least_reward", 0.5, "Reward", _AGAIN, 0.1),
    Rule(_A.GROUP_VARIANCE, "groups_with_signal", _K.BELOW, "least_signal", 0.05, "Share of groups that differ", _SPREAD),
    # What the trainer does with it.
    Rule(_A.ENTROPY, "entropy", _K.BELOW, "least_entropy", 0.0, "Entropy in nats", _EXPLORE),
    Rule(_A.ENTROPY, "entropy", _K.BELOW_FIRST, "least_entropy_share", 0.1, "Entropy in nats", _EXPLORE),
    # On tokens that the updated weights sampled; where a run is asynchronous there may be none.
    Rule(
        *(_A.SAMPLER_GAP, "sampler_gap_fresh", _K.ABOVE, "most_sampler_gap", 0.1),
        *("Gap between trainer and sampler in nats", _SAME),
    ),
    Rule(
        *(_A.SAMPLER_GAP, "sampler_gap", _K.ABOVE, "most_stale_gap", 0.3, "The same gap, older tokens included", _CLOSER),
    ),
    Rule(
        *(_A.RATIO, "stopped", _K.ABOVE, "most_clipped", 0.5),
        *("Share of tokens that were clipped, masked or vetoed", _NEARER),
    ),
    Rule(
        *(_A.RATIO, "ratio_far", _K.ABOVE, "most_far_ratios", 0.1),
        *("Share of tokens with a ratio below 1/2 or above 2", _NEARER),
    ),
    Rule(
        *(_A.CREDIT, "credit_outcome_share", _K.BELOW, "least_outcome_credit", 0.1),
        *("The outcome's share of credit", _OUTCOME),
    ),
    Rule(
        *(_A.GAIN, "gain", _K.RISEN, "most_gain", 2.0),
        *("Information gain of a turn, with a reward no higher than at first", _GAIN, 0.05, "reward"),
    ),
)
"""Every figure that is watched; of one alarm's the first that goes off is told."""
THRESHOLDS = {rule.name: rule.threshold for rule in RULES}


class HealthConfig(Frozen):
    """When alarms go off, and which of them stop the run."""

    window: int = Field(default=5, ge=1)
    """Each figure is a mean over the last so many steps, drifts are against the first so many."""
    thresholds: dict[str, float] = Field(default_factory=dict[str, float])
    """Other thresholds than those of ``RULES``, by name, such as ``most_no_answer``."""
    pause_on: frozenset[Alarm] = frozenset()
    """Alarms that stop the run, resumably, with a sentence."""

    @field_validator("thresholds")
    @classmethod
    def _known(cls, thresholds: dict[str, float]) -> dict[str, float]:
        for name in thresholds:
            if name not in THRESHOLDS:
                near = difflib.get_close_matches(name, THRESHOLDS, n=1)
                raise ValueError(f"there is no {name}: " + (f"did you mean {near[0]}?" if near else ", ".join(THRESHOLDS)))
        return thresholds


class HealthPause(UserError):  # noqa: N818  it is no error
    """An alarm that the configuration wants to be asked about stopped the run. Started again, it goes on."""


@dataclass(frozen=True)
class Raised:
    """An alarm that went off."""

    alarm: Alarm
    figure: str
    value: float
    """The figure's mean over the window."""
    sentence: str


class Health:
    """Watches a run; made of the metrics lines so far, it judges as one that saw them."""

    def __init__(self, config: HealthConfig, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        """``earlier``: the lines of the steps so far, oldest first. Their alarms have been told, and are not raised again."""
        self._config = config
        self._seen: dict[str, list[float]] = {name: [] for rule in RULES for name in (rule.figure, rule.beside) if name}
        self._best: dict[str, float] = {}
        self._standing: dict[Alarm, Raised] = {}
        for line in earlier:
            self.heard(line)

    @property
    def standing(self) -> Sequence[Raised]:
        """Alarms that are on."""
        return tuple(self._standing.values())

    def heard(self, figures: Mapping[str, Any]) -> list[Raised]:
        """Take note of a step's figures; returns the alarms that went off with it, and were not on before."""
        for name, values in self._seen.items():
            if name in figures:
                values.append(float(figures[name]))
        found: dict[Alarm, Raised] = {}
        for rule in RULES:
            raised = self._judge(rule) if rule.figure in figures else self._carried(rule)
            if raised is not None:
                found.setdefault(rule.alarm, raised)
        new = [raised for alarm, raised in found.items() if alarm not in self._standing]
        self._standing = found
        return new

    def figures(self) -> dict[str, float]:
        """For the metrics: how many alarms are on, and each as 0 or 1."""
        each = {f"alarm_{alarm}": float(alarm in self._standing) for alarm in Alarm}
        return {"alarms": float(len(self._standing)), **each}

    def pause(self, step: int, raised: Sequence[Raised]) -> None:
        """Raises HealthPause when the configuration wants the run to stop for one of these; save first."""
        stopping = [one for one in raised if one.alarm in self._config.pause_on]
        if stopping:
            told = " ".join(one.sentence for one in stopping)
            raise HealthPause(f"Paused after step {step}. {told} The same command goes on from here.")

    def _carried(self, rule: Rule) -> Raised | None:
        """A step without the figure neither raises nor ends an alarm."""
        before = self._standing.get(rule.alarm)
        return before if before is not None and before.figure == rule.figure else None

    def _judge(self, rule: Rule) -> Raised | None:
        window, values = self._config.window, self._seen[rule.figure]
        threshold = self._config.thresholds.get(rule.name, rule.threshold)
        if len(values) < window:
            return None
        now, first = _average(values[-window:]), _average(values[:window])
        best = self._best[rule.figure] = max(self._best.get(rule.figure, now), now)
        share = {Kind.BELOW_FIRST: first, Kind.DRIFT: first, Kind.RISEN: first, Kind.BELOW_BEST: best}.get(rule.kind)
        if share is None:
            off = now > threshold if rule.kind is Kind.ABOVE else now < threshold
            measured, limit = f"{now:.3g}", f"{threshold:g}"
        else:
            of = max(share, rule.floor)
            if of <= 0 or (rule.kind in (Kind.BELOW_FIRST, Kind.BELOW_BEST) and share < rule.floor):
                return None
            change = abs(now - share) / of if rule.kind is Kind.DRIFT else now / of
            off = change > threshold if rule.kind in (Kind.DRIFT, Kind.RISEN) else change < threshold
            off = off and not (rule.beside and self._has_risen(rule.beside))
            was = "best" if rule.kind is Kind.BELOW_BEST else "first"
            measured = f"{now:.3g}, was {share:.3g} at {was}"
            limit = f"a change by {threshold:.0%}" if rule.kind is Kind.DRIFT else f"{threshold:.0%} of that"
        if not off:
            return None
        sentence = f"{rule.what}: {measured} over the last {window} steps (alarm {rule.alarm} at {limit}); {rule.advice}."
        return Raised(rule.alarm, rule.figure, now, sentence)

    def _has_risen(self, figure: str) -> bool:
        window, values = self._config.window, self._seen[figure]
        return len(values) >= window and _average(values[-window:]) > _average(values[:window])


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)
