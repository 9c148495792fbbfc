"""Whether agents that are better in a world are better outside it: rankings of the same agents in two places.

Scores are pass@1 over the questions that every agent was scored on in both places. Agreement of the rankings is Kendall's tau-b
(Kendall 1945), (concordant - discordant) / sqrt((pairs - ties in x) (pairs - ties in y)), with a 95% percentile bootstrap over
questions. Three agents rank alike by chance once in six, so with few agents no transfer is shown by it.
"""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import numpy as np

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import FloatArray, Interval, intervals

_FEWEST_AGENTS = 3
_RESAMPLES = 2_000


class AgentAgreement(Frozen):
    """How far two places rank the same agents alike."""

    scores: dict[str, tuple[float, float]]  # of each agent, local and live; best live first
    questions: int
    tau_b: float | None  # None where all agents tie in one place
    interval: Interval | None  # 95%, over questions; None for fewer than two questions, or where most resamples tie


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


def compare_agents(local: Sequence[Path], live: Sequence[Path]) -> AgentAgreement:
    """Compare agents by their evaluations' results in two places.

    Raises UserError for two results of one agent in a place, too few agents, or no common question.
    """
    places = [_scores(files) for files in (local, live)]
    names = sorted(set.intersection(*map(set, places)))
    if len(names) < _FEWEST_AGENTS:
        raise UserError(f"{len(names)} agents have results in both places: give at least {_FEWEST_AGENTS}, of the same names.")
    common = sorted(set.intersection(*(set(place[name]) for place in places for name in names)))
    if not common:
        raise UserError("No question was scored for every agent in both places: give results on the same questions.")
    x, y = (np.array([[place[name][question] for question in common] for name in names]) for place in places)
    scores = dict(zip(names, zip(x.mean(axis=1).tolist(), y.mean(axis=1).tolist(), strict=True), strict=True))
    rng = np.random.default_rng([0, 3])
    draws = (rng.integers(0, len(common), len(common)) for _ in range(_RESAMPLES if len(common) > 1 else 0))
    taus = (kendall_tau_b(x[:, drawn].mean(axis=1), y[:, drawn].mean(axis=1)) for drawn in draws)
    found = [tau for tau in taus if tau is not None]
    return AgentAgreement(
        scores=dict(sorted(scores.items(), key=lambda item: -item[1][1])),
        questions=len(common),
        tau_b=kendall_tau_b(x.mean(axis=1), y.mean(axis=1)),
        interval=intervals(np.array(found)[:, None])[0] if len(found) >= _RESAMPLES // 2 else None,
    )


def _scores(files: Sequence[Path]) -> dict[str, dict[str, float]]:
    """The share of right attempts at each question, by the agent's name."""
    found: dict[str, dict[str, float]] = {}
    for result in map(EvalResult.load, files):
        if result.model in found:
            raise UserError(f"Two results are of the agent {result.model!r}: give one for each agent and place.")
        found[result.model] = result.per_question()
    return found
