"""Whether agents that are better in a world are better outside it: rankings of the same agents in two places, and their calls.

Scores are pass@1 over the questions that every agent was scored on in both places. Agreement of the rankings is Kendall's tau-b
(Kendall 1945), (concordant - discordant) / sqrt((pairs - ties in x) (pairs - ties in y)), with a 95% percentile bootstrap over
questions and the exact chance (sampled for more than eight agents) that rankings without any relation agree at least as much.
With few agents the interval is wide, and no transfer is shown by it: tau-b says nothing about how large the scores are.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from math import factorial, sqrt
from pathlib import Path

import numpy as np

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.data.importing import open_trajectories
from sanderling.evaluate.fidelity.measure import distance
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import FloatArray, Interval, intervals

FEWEST_AGENTS = 3
_EXACT_UP_TO = 8
_SAMPLED = 10_000
_RESAMPLES = 2_000


class AgentScore(Frozen):
    """One agent in both places, on the common questions."""

    agent: str
    local: float
    live: float


class AgentAgreement(Frozen):
    """How far two places rank the same agents alike."""

    agents: tuple[AgentScore, ...]
    """Best outside first."""
    questions: int
    tau_b: float | None
    """None where all agents tie in one place."""
    interval: Interval | None
    """95%, over questions; None for fewer than two questions, or where most resamples tie."""
    p_value: float | None
    """Chance of at least this tau-b between rankings without relation."""
    discordant: tuple[tuple[str, str], ...]
    """Pairs of agents that the two places order otherwise."""


class CallCounts(Frozen):
    """Calls of episodes in one place."""

    episodes: int
    mean: float
    quantiles: dict[str, float]


class CallComparison(Frozen):
    """Calls per episode in two places."""

    local: CallCounts
    live: CallCounts
    distance: float
    """Kolmogorov-Smirnov distance of the two distributions, in [0, 1]."""


def kendall_tau_b(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Kendall's tau-b of paired values, in [-1, 1]; None where one side is all ties. Raises ValueError for other lengths."""
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} values do not pair")
    return _tau_b(_signs(np.asarray(x, dtype=np.float64)), _signs(np.asarray(y, dtype=np.float64)))


def _signs(values: FloatArray) -> FloatArray:
    """Which of each pair (i < j) is greater: -1, 0 or 1. ``values`` (n) gives (n (n - 1) / 2)."""
    first, second = np.triu_indices(len(values), 1)
    gaps = values[first] - values[second]
    return np.where(np.abs(gaps) < 1e-12, 0.0, np.sign(gaps))


def _tau_b(x: FloatArray, y: FloatArray) -> float | None:
    """Of the signs of all pairs."""
    untied = float(np.abs(x).sum()), float(np.abs(y).sum())
    return None if not all(untied) else float((x * y).sum()) / sqrt(untied[0] * untied[1])


def compare_agents(local: Mapping[str, EvalResult], live: Mapping[str, EvalResult], *, seed: int = 0) -> AgentAgreement:
    """Agents by name in two places. Raises UserError for too few agents or no common question."""
    names = sorted(local.keys() & live.keys())
    if len(names) < FEWEST_AGENTS:
        raise UserError(f"{len(names)} agents have results in both places: give at least {FEWEST_AGENTS}, of the same names.")
    scores = [[places[name].per_question() for name in names] for places in (local, live)]
    common = sorted(set.intersection(*(set(per) for side in scores for per in side)))
    if not common:
        raise UserError("No question was scored for every agent in both places: give results on the same questions.")
    x, y = (np.array([[per[question] for question in common] for per in side]) for side in scores)
    means = x.mean(axis=1), y.mean(axis=1)
    signs = _signs(means[0]), _signs(means[1])
    tau = _tau_b(*signs)
    rows = [AgentScore(agent=n, local=float(a), live=float(b)) for n, a, b in zip(names, *means, strict=True)]
    return AgentAgreement(
        agents=tuple(sorted(rows, key=lambda row: (-row.live, row.agent))),
        questions=len(common),
        tau_b=tau,
        interval=_interval(x, y, seed),
        p_value=None if tau is None else _chance(means[0], means[1], tau, seed),
        discordant=tuple(pair for pair, s, t in zip(combinations(names, 2), *signs, strict=True) if s * t < 0),
    )


def _interval(x: FloatArray, y: FloatArray, seed: int) -> Interval | None:
    """``x``, ``y``: (agents, questions)."""
    rng, questions = np.random.default_rng([seed, 3]), x.shape[1]
    if questions < 2:
        return None
    draws = (rng.integers(0, questions, questions) for _ in range(_RESAMPLES))
    taus = (_tau_b(_signs(x[:, drawn].mean(axis=1)), _signs(y[:, drawn].mean(axis=1))) for drawn in draws)
    found = [tau for tau in taus if tau is not None]
    return intervals(np.array(found)[:, None])[0] if len(found) >= _RESAMPLES // 2 else None


def _chance(x: FloatArray, y: FloatArray, tau: float, seed: int) -> float:
    """Share of the orders of one side that agree with the other at least as much."""
    still = _signs(x)
    if len(y) <= _EXACT_UP_TO:
        orders = permutations(range(len(y)))
        total, extra = factorial(len(y)), 0
    else:
        rng = np.random.default_rng([seed, 4])
        orders = (tuple(rng.permutation(len(y)).tolist()) for _ in range(_SAMPLED))
        total, extra = _SAMPLED, 1  # the order that was seen is one of those that might have been
    as_much = sum((_tau_b(still, _signs(y[list(order)])) or 0.0) >= tau - 1e-12 for order in orders)
    return (as_much + extra) / (total + extra)


def compare_calls(local: Sequence[int], live: Sequence[int]) -> CallComparison:
    """Calls of the episodes in two places. Raises UserError when there are none in one."""
    apart = distance(local, live)
    if apart is None:
        raise UserError("No episode is there to compare calls with: give trajectories of both places.")

    def counts(calls: Sequence[int]) -> CallCounts:
        quantiles = {f"{q:g}": float(np.quantile(calls, q)) for q in (0.1, 0.5, 0.9)}
        return CallCounts(episodes=len(calls), mean=float(np.mean(calls)), quantiles=quantiles)

    return CallComparison(local=counts(local), live=counts(live), distance=apart)


def results_by_agent(files: Sequence[Path]) -> dict[str, EvalResult]:
    """Results by the agent's name. Raises UserError for two of one name."""
    found: dict[str, EvalResult] = {}
    for file in files:
        result = EvalResult.load(file)
        if result.model in found:
            raise UserError(f"Two results are of the agent {result.model!r}: give one for each agent and place.")
        found[result.model] = result
    return found


def episode_calls(files: Sequence[Path], role: str = "") -> list[int]:
    """Calls of each episode on its main branch; ``role``: of one kind only."""
    return [
        sum(role in ("", event.role) for node in trajectory.branch() for event in node.events)
        for file in files
        for trajectory in open_trajectories(file)
        if trajectory.leaf is not None
    ]
