"""How a set of trajectories is made up: turns, lengths, tools, endings, scripts, verdicts. One pass, flat memory.

Main branches only. Values above 1,000 are kept to three digits in distributions; sums, and so means, are exact. Lengths are of
the texts as they stand, without what a chat template adds. Judges nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import log10
from typing import Any

from sanderling.core.chat import Tokenizer
from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.scripts import script_of
from sanderling.data.standing import Standing, standing
from sanderling.data.stats import NO_ENDING, call_roles

_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_MOST_NAMES = 1_000
"""A model can make up tools without end; beyond so many names they are counted together."""
_MANY_NAMES = "(names beyond the first 1,000)"


@dataclass(frozen=True)
class Measure:
    """How long a trajectory is, and in what."""

    unit: str
    of_trajectory: Callable[[Trajectory], int]


def in_words() -> Measure:
    """Words; each Chinese, Japanese or Korean character counts as one."""

    def length(trajectory: Trajectory) -> int:
        return sum(sum(1 for _ in _WORDS.finditer(node.text)) for node in trajectory.branch())

    return Measure("words", length)


def in_tokens(tokenizer: Tokenizer) -> Measure:
    """Tokens of this tokenizer; where a record holds ids of its own from it, those."""

    def length(trajectory: Trajectory) -> int:
        ids = trajectory.token_ids() if trajectory.tokenizer == tokenizer.fingerprint else None
        return len(ids) if ids else sum(len(tokenizer.encode(node.text)) for node in trajectory.branch())

    return Measure("tokens", length)


@dataclass
class Distribution:
    """Whole numbers of 0 and more."""

    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0

    def add(self, value: int) -> None:
        self.total += value
        if value > 1_000:
            unit = 10 ** (int(log10(value)) - 2)
            value = round(value / unit) * unit
        self.counts[value] += 1

    @property
    def number(self) -> int:
        return self.counts.total()

    @property
    def mean(self) -> float | None:
        return self.total / self.number if self.counts else None

    @property
    def most(self) -> int:
        return max(self.counts, default=0)

    def quantile(self, share: float) -> int | None:
        """The least value that this share of all reaches or stays below; None of nothing."""
        reached = 0
        for value in sorted(self.counts):
            reached += self.counts[value]
            if reached >= share * self.number:
                return value
        return None

    def above(self, limit: int) -> float | None:
        """The share above a value."""
        return sum(count for value, count in self.counts.items() if value > limit) / self.number if self.counts else None

    def binned(self, edges: list[int]) -> list[int]:
        """How many lie in each bin: above one edge, up to and with the next."""
        bins = [0] * (len(edges) - 1)
        for value, count in self.counts.items():
            place = next((place for place, edge in enumerate(edges[1:]) if value <= edge), len(bins) - 1)
            bins[place] += count
        return bins


@dataclass
class Portrait:
    """What a set of trajectories is made of."""

    name: str
    unit: str
    turns: Distribution = field(default_factory=Distribution)
    length: Distribution = field(default_factory=Distribution)
    tools: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)
    standings: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    raw: int = 0
    """Messages nobody could classify."""

    @property
    def trajectories(self) -> int:
        return self.turns.number

    @property
    def browse_share(self) -> float | None:
        """Visits among all calls."""
        return self.roles["visit"] / self.tools.total() if self.tools else None

    @property
    def correct_share(self) -> float | None:
        """Correct among those with a verdict; None where nothing was judged."""
        right, wrong = self.standings[Standing.CORRECT.value], self.standings[Standing.INCORRECT.value]
        return right / (right + wrong) if right + wrong else None

    def add(self, trajectory: Trajectory, measure: Measure) -> None:
        """Count one trajectory."""
        branch = trajectory.branch() if trajectory.leaf is not None else []
        self.turns.add(sum(node.kind is NodeKind.TURN for node in branch))
        self.length.add(measure.of_trajectory(trajectory) if branch else 0)
        for node in branch:
            if node.kind is NodeKind.TURN:
                for call in node.calls:
                    known = call.name in self.tools or len(self.tools) < _MOST_NAMES
                    self.tools[call.name if known else _MANY_NAMES] += 1
        self.roles.update(call_roles(trajectory) if branch else ())
        self.endings[trajectory.ending.value if trajectory.ending else NO_ENDING] += 1
        self.scripts[script_of(trajectory.question.text)] += 1
        self.standings[standing(trajectory).value] += 1
        self.answered += trajectory.answer is not None
        self.raw += sum(node.kind is NodeKind.RAW for node in trajectory.nodes)

    def as_json(self) -> dict[str, Any]:
        """The figures, for machines."""
        return {
            "name": self.name,
            "trajectories": self.trajectories,
            "turns": _figures(self.turns) | {"above_50": self.turns.above(50), "above_100": self.turns.above(100)},
            "length": {"unit": self.unit} | _figures(self.length),
            "tools": dict(self.tools.most_common()),
            "browse_share": self.browse_share,
            "endings": dict(self.endings.most_common()),
            "scripts": dict(self.scripts.most_common()),
            "standings": dict(self.standings.most_common()),
            "correct_share": self.correct_share,
            "answered": self.answered,
            "raw_messages": self.raw,
        }


def portray(name: str, trajectories: Iterable[Trajectory], measure: Measure) -> Portrait:
    """The portrait of a set."""
    portrait = Portrait(name, measure.unit)
    for trajectory in trajectories:
        portrait.add(trajectory, measure)
    return portrait


def _figures(found: Distribution) -> dict[str, Any]:
    quantiles = {"median": found.quantile(0.5), "p90": found.quantile(0.9), "p99": found.quantile(0.99)}
    return {"mean": found.mean, **quantiles, "most": found.most}
