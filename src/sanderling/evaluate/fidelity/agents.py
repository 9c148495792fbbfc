"""Whether agents that are better in a world are better outside it: rankings of the same agents in two places.

Scores are pass@1 over the questions that every agent was scored on in both places. Agreement of the rankings is Kendall's tau-b
(Kendall 1945), (concordant - discordant) / sqrt((pairs - ties in x) (pairs - ties in y)), with a 95% percentile bootstrap over
questions. Three agents rank alike by chance once in six, so with few agents no transfer is shown by it.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import FloatArray, Interval, intervals

_FEWEST_AGENTS = 3
_RESAMPLES = 2_000


class AgentScore(Frozen):
    """One agent in both places, on the common questions."""

    agent: str
    local: float
    live: float


class AgentAgreement(Frozen):
    """How far two places rank the same agents alike."""

    agents: tuple[AgentScore, ...]  # best outside first
    questions: int
    tau_b: float | None  # None where all agents tie in one place
    interval: Interval | None  # 95%, over questions; None for fewer than two questions, or where most resamples tie
    discordant: tuple[tuple[str, str], ...]  # pairs of agents that the two places order otherwise


def kendall_tau_b(x: Sequence[float] | FloatArray, y: Sequence[float] | FloatArray) -> float | None:
    """Kendall's tau-b of paired values, in [-1, 1]; None where one side is all ties."""
    a, b = _signs(np.asarray(x, dtype=np.float64)), _signs(np.asarray(y, dtype=np.float64))
    untied = float(np.abs(a).sum()), float(np.abs(b).sum())
    return None if not all(untied) else float((a * b).sum()) / sqrt(untied[0] * untied[1])


def _signs(values: FloatArray) -> FloatArray:
    """Which of each pair (i < j) is greater: -1, 0 or 1. ``values`` (n) gives (n (n - 1) / 2)."""
    first, second = np.triu_indices(len(values), 1)
    gaps = values[first] - values[second]
    return np.where(np.abs(gaps) < 1e-12, 0.0, np.sign(gaps))


def compare_agents(local: Mapping[str, EvalResult], live: Mapping[str, EvalResult], *, seed: int = 0) -> AgentAgreement:
    """Agents by name in two places. Raises UserError for too few agents or no common question."""
    names = sorted(local.keys() & live.keys())
    if len(names) < _FEWEST_AGENTS:
        raise UserError(f"{len(names)} agents have results in both places: give at least {_FEWEST_AGENTS}, of the same names.")
    scores = [[places[name].per_question() for name in names] for places in (local, live)]
    common = sorted(set.intersection(*(set(per) for side in scores for per in side)))
    if not common:
        raise UserError("No question was scored for every agent in both places: give results on the same questions.")
    x, y = (np.array([[per[question] for question in common] for per in side]) for side in scores)
    means = x.mean(axis=1), y.mean(axis=1)
    rows = [AgentScore(agent=n, local=float(a), live=float(b)) for n, a, b in zip(names, *means, strict=True)]
    signs = zip(combinations(names, 2), *map(_signs, means), strict=True)
    rng = np.random.default_rng([seed, 3])
    draws = (rng.integers(0, len(common), len(common)) for _ in range(_RESAMPLES if len(common) > 1 else 0))
    taus = (kendall_tau_b(x[:, drawn].mean(axis=1), y[:, drawn].mean(axis=1)) for drawn in draws)
    found = [tau for tau in taus if tau is not None]
    return AgentAgreement(
        agents=tuple(sorted(rows, key=lambda row: (-row.live, row.agent))),
        questions=len(common),
        tau_b=kendall_tau_b(*means),
        interval=intervals(np.array(found)[:, None])[0] if len(found) >= _RESAMPLES // 2 else None,
        discordant=tuple(pair for pair, s, t in signs if s * t < 0),
    )


def results_by_agent(files: Sequence[Path]) -> dict[str, EvalResult]:
    """Results by the agent's name. Raises UserError for two of one name."""
    found: dict[str, EvalResult] = {}
    for file in files:
        result = EvalResult.load(file)
        if result.model in found:
            raise UserError(f"Two results are of the agent {result.model!r}: give one for each agent and place.")
        found[result.model] = result
    return found
