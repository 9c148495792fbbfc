"""A run's health: alarms on its figures, each with what was seen, where the threshold is, and what to do.

A rising reward is no sign of health: LiteResearcher's first stage gained reward until shortly before it collapsed, while quoted
queries and reasoning had long been shrinking. So behaviour is watched, against thresholds and against the run's own beginning.
A figure is its mean over a window of steps; steps without it (such as those without an update) are passed over.
After a resume it judges as one that saw every step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError


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


class HealthConfig(Frozen):
    """Thresholds; each figure is a mean over the last ``window`` steps, drifts are against the first ``window`` steps.

    Source of the list: LiteResearcher's first stage, which collapsed near step 510 while its reward still rose. The thresholds
    are ours: nobody has published any.
    """

    window: int = Field(default=5, ge=1)
    most_no_answer: float = Field(default=0.3, ge=0, le=1)
    """Share of rollouts without an answer of their own."""
    most_truncated: float = Field(default=0.5, ge=0, le=1)
    """Share of rollouts that ended at a budget."""
    most_query_drift: float = Field(default=0.5, gt=0)
    """Change of a query's style figures (quoted share, words), as a share of what they were at the beginning."""
    least_think: float = Field(default=0.25, ge=0)
    """Tokens of reasoning a turn, as a share of what they were at the beginning."""
    least_entropy: float = Field(default=0.0, ge=0)
    """Nats."""
    least_entropy_share: float = Field(default=0.1, ge=0)
    """Entropy, as a share of what it was at the beginning."""
    most_sampler_gap: float = Field(default=0.1, gt=0)
    """Mean absolute difference of log-probabilities between trainer and sampler, on tokens that the updated weights sampled."""
    most_stale_gap: float = Field(default=0.3, gt=0)
    """The same over all tokens: where a run is asynchronous there may be none that the updated weights sampled."""
    most_clipped: float = Field(default=0.5, ge=0, le=1)
    """Share of tokens that were clipped, masked or vetoed: nothing was learnt from them."""
    most_far_ratios: float = Field(default=0.1, ge=0, le=1)
    """Share of tokens whose ratio is below 1/2 or above 2."""
    least_signal: float = Field(default=0.05, ge=0, le=1)
    """Share of groups whose outcomes differ."""
    least_turns: float = Field(default=0.4, ge=0)
    """Turns of a rollout, as a share of what they were at the beginning."""
    most_malformed: float = Field(default=0.5, ge=0, le=1)
    """Share of turns that break the grammar."""
    least_reward: float = Field(default=0.5, ge=0)
    """Reward, as a share of the best it has been."""
    least_outcome_credit: float = Field(default=0.1, ge=0, le=1)
    """Share of the credit's size that comes from outcomes; the rest is gains and penalties."""
    most_gain: float = Field(default=2.0, gt=1)
    """Information gain of a turn, as a multiple of what it was at the beginning, while the reward is no higher than then."""
    most_unscored: float = Field(default=0.25, ge=0, le=1)
    """Share of rollouts without an outcome."""
    pause_on: frozenset[Alarm] = frozenset()
    """Alarms that stop the run, resumably, with a sentence."""


class HealthPause(UserError):  # noqa: N818  it is no error
    """An alarm that the configuration wants to be asked about stopped the run. Started again, it goes on."""


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
    threshold: float
    what: str
    """The figure in words."""
    advice: str
    floor: float = 0.0
    """The least that a share is taken of: changes of next to nothing are noise."""
    beside: str = ""
    """The figure that explains a rise."""


@dataclass(frozen=True)
class Raised:
    """An alarm that went off."""

    alarm: Alarm
    figure: str
    value: float
    """The figure's mean over the window."""
    sentence: str


def rules(config: HealthConfig) -> tuple[Rule, ...]:
    """Every figure that is watched; of one alarm's the first that goes off is told."""
    return *_of_rollouts(config), *_of_updates(config)


def _of_rollouts(config: HealthConfig) -> tuple[Rule, ...]:
    """What the agent does, and what that brings."""
    again = "look at the latest rollouts; begin again from a checkpoint before the change, in another directory"
    unlearnt = "longer budgets or denoise.extreme.over_long keep running out of room from counting as a wrong answer"
    return (
        Rule(Alarm.NO_ANSWER, "no_answer", Kind.ABOVE, config.most_no_answer, "Share of rollouts without an answer", again),
        Rule(Alarm.TRUNCATION, "truncated", Kind.ABOVE, config.most_truncated, "Share of rollouts cut by a budget", unlearnt),
        Rule(Alarm.QUERY_STYLE, "quoted_queries", Kind.DRIFT, config.most_query_drift, "Share of quoted queries", again, 0.1),
        Rule(Alarm.QUERY_STYLE, "query_words", Kind.DRIFT, config.most_query_drift, "Words of a query", again, 1.0),
        Rule(
            Alarm.THINK_LENGTH, "think_tokens", Kind.BELOW_FIRST, config.least_think, "Tokens of reasoning a turn", again, 1.0
        ),
        Rule(Alarm.TURNS, "turns", Kind.BELOW_FIRST, config.least_turns, "Turns of a rollout", again, 1.0),
        Rule(
            *(Alarm.MALFORMED, "malformed_share", Kind.ABOVE, config.most_malformed, "Share of malformed turns"),
            "turn on denoise.format.no_positive_credit, or teach the format by SFT first",
        ),
        Rule(
            *(Alarm.UNSCORED, "unscored", Kind.ABOVE, config.most_unscored, "Share of rollouts without an outcome"),
            "see that judges, tools and the model answer: who is scored while one is away is no fair sample",
        ),
        Rule(Alarm.REWARD, "reward", Kind.BELOW_BEST, config.least_reward, "Reward", again, 0.1),
        Rule(
            *(Alarm.GROUP_VARIANCE, "groups_with_signal", Kind.BELOW, config.least_signal, "Share of groups that differ"),
            "choose questions by pass@k again, turn on the curriculum or denoise.drop_flat, or raise group_size",
        ),
    )


def _of_updates(config: HealthConfig) -> tuple[Rule, ...]:
    """What the trainer does with it."""
    explore = "begin again with more exploration (a higher loss.clip_high, a KL to the reference)"
    nearer = "lower trainer.lr, updates_per_step or pipeline.max_staleness"
    return (
        Rule(Alarm.ENTROPY, "entropy", Kind.BELOW, config.least_entropy, "Entropy in nats", explore),
        Rule(Alarm.ENTROPY, "entropy", Kind.BELOW_FIRST, config.least_entropy_share, "Entropy in nats", explore),
        Rule(
            *(Alarm.SAMPLER_GAP, "sampler_gap_fresh", Kind.ABOVE, config.most_sampler_gap),
            "Gap between trainer and sampler in nats",
            "check that both have the same weights, temperature and precision",
        ),
        Rule(
            *(Alarm.SAMPLER_GAP, "sampler_gap", Kind.ABOVE, config.most_stale_gap, "The same gap, older tokens included"),
            "lower trainer.lr or pipeline.max_staleness, and check that both have the same temperature and precision",
        ),
        Rule(
            *(Alarm.RATIO, "stopped", Kind.ABOVE, config.most_clipped, "Share of tokens that were clipped, masked or vetoed"),
            nearer,
        ),
        Rule(
            *(Alarm.RATIO, "ratio_far", Kind.ABOVE, config.most_far_ratios),
            "Share of tokens with a ratio below 1/2 or above 2",
            nearer,
        ),
        Rule(
            *(Alarm.CREDIT, "credit_outcome_share", Kind.BELOW, config.least_outcome_credit, "The outcome's share of credit"),
            "lower estimator.gain_weight or estimator.penalty_weight: the run learns something else than to be right",
        ),
        Rule(
            *(
                Alarm.GAIN,
                "gain",
                Kind.RISEN,
                config.most_gain,
                "Information gain of a turn, with a reward no higher than at first",
            ),
            "look at the latest rollouts for pages that raise the answer's likelihood and help nobody; lower "
            "estimator.gain_weight",
            *(0.05, "reward"),
        ),
    )


class Health:
    """Watches a run; made of the metrics lines so far, it judges as one that saw them."""

    def __init__(self, config: HealthConfig, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        """``earlier``: the lines of the steps so far, oldest first. Their alarms have been told, and are not raised again."""
        self._config = config
        self._rules = rules(config)
        self._seen: dict[str, list[float]] = {name: [] for rule in self._rules for name in (rule.figure, rule.beside) if name}
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
        for rule in self._rules:
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
        if len(values) < window:
            return None
        now, first = _mean(values[-window:]), _mean(values[:window])
        best = self._best[rule.figure] = max(self._best.get(rule.figure, now), now)
        share = {Kind.BELOW_FIRST: first, Kind.DRIFT: first, Kind.RISEN: first, Kind.BELOW_BEST: best}.get(rule.kind)
        if share is None:
            off = now > rule.threshold if rule.kind is Kind.ABOVE else now < rule.threshold
            measured, limit = f"{now:.3g}", f"{rule.threshold:g}"
        else:
            of = max(share, rule.floor)
            if of <= 0 or (rule.kind in (Kind.BELOW_FIRST, Kind.BELOW_BEST) and share < rule.floor):
                return None
            change = abs(now - share) / of if rule.kind is Kind.DRIFT else now / of
            off = change > rule.threshold if rule.kind in (Kind.DRIFT, Kind.RISEN) else change < rule.threshold
            off = off and not (rule.beside and self._has_risen(rule.beside))
            was = "best" if rule.kind is Kind.BELOW_BEST else "first"
            measured = f"{now:.3g}, was {share:.3g} at {was}"
            limit = f"a change by {rule.threshold:.0%}" if rule.kind is Kind.DRIFT else f"{rule.threshold:.0%} of that"
        if not off:
            return None
        sentence = f"{rule.what}: {measured} over the last {window} steps (alarm {rule.alarm} at {limit}); {rule.advice}."
        return Raised(rule.alarm, rule.figure, now, sentence)

    def _has_risen(self, figure: str) -> bool:
        window, values = self._config.window, self._seen[figure]
        return len(values) >= window and _mean(values[-window:]) > _mean(values[:window])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
