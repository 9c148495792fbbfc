"""How a set of trajectories is made up: turns, lengths, tools, endings, scripts, verdicts. One pass, flat memory.

Main branches only. Values above 1,000 are kept to three digits in distributions; sums, and so means, are exact. Lengths are of
the texts as they stand, without what a chat template adds. Browse share is DR-Venus' measure: visits among all tool calls.
"""

import re
import tomllib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from rich import box
from rich.table import Table
from rich.text import Text

from sanderling.core.chat import Tokenizer
from sanderling.core.observations import tool_role
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.text import visible
from sanderling.judge.verdict import META_KEY, Ruling, verdict_of
from sanderling.report import charts
from sanderling.report.charts import figure, legend
from sanderling.report.numbers import MISSING, mean, percent
from sanderling.report.page import render

NO_ENDING = "not recorded"
NOT_JUDGED = "not judged"
# Each Chinese, Japanese or Korean character is a word.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_SCRIPTS = tomllib.loads((Path(__file__).parent / "scripts.toml").read_text(encoding="utf-8"))
_STARTS, _NAMES = [int(start, 16) for start in _SCRIPTS], list(_SCRIPTS.values())


def ruling_of(trajectory: Trajectory) -> Ruling | None:
    """What a judge said, as it stands in the record; None: it was not judged."""
    if not isinstance(trajectory.meta.get(META_KEY), dict):
        return None
    return {True: Ruling.CORRECT, False: Ruling.INCORRECT, None: Ruling.UNSCORED}[verdict_of(trajectory)]


def call_roles(trajectory: Trajectory) -> list[str]:
    """What each call of the main branch does, in order: the tools' own word where recorded, else by name."""
    branch = trajectory.branch()
    roles: list[str] = []
    for node, following in zip(branch, [*branch[1:], None], strict=False):
        if node.kind is NodeKind.TURN:
            events = following.events if following is not None and following.kind is NodeKind.OBSERVATION else ()
            own = [event.role for event in events] if len(events) == len(node.calls) else [""] * len(node.calls)
            roles += [role or tool_role(call.name) for role, call in zip(own, node.calls, strict=True)]
    return roles


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
        return sum(count for value, count in self.counts.items() if value > limit) / self.number if self.counts else None

    def binned(self, edges: list[int]) -> list[int]:
        """How many lie in each bin: above one edge, up to and with the next."""
        bins = [0] * (len(edges) - 1)
        for value, count in self.counts.items():
            bins[min(bisect_left(edges, value, lo=1), len(bins)) - 1] += count
        return bins

    def as_json(self) -> dict[str, Any]:
        quantiles = {"median": self.quantile(0.5), "p90": self.quantile(0.9), "p99": self.quantile(0.99)}
        return {"mean": self.mean, **quantiles, "most": self.most}


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
    verdicts: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    raw: int = 0

    @property
    def browse_share(self) -> float | None:
        return self.roles["visit"] / self.tools.total() if self.tools else None

    @property
    def correct_share(self) -> float | None:
        """Correct among those with a verdict; None where nothing was judged."""
        right, wrong = self.verdicts[Ruling.CORRECT], self.verdicts[Ruling.INCORRECT]
        return right / (right + wrong) if right + wrong else None

    def add(self, trajectory: Trajectory, tokenizer: Tokenizer | None) -> None:
        """Count one; its length in tokens, which are its own where it has any, or in words."""
        branch = trajectory.branch()
        turns = [node for node in branch if node.kind is NodeKind.TURN]
        self.turns.add(len(turns))
        if tokenizer is None:
            self.length.add(sum(1 for node in branch for _ in _WORDS.finditer(node.text)))
        else:
            ids = trajectory.token_ids() if branch and trajectory.tokenizer == tokenizer.fingerprint else None
            self.length.add(len(ids) if ids else sum(len(tokenizer.encode(node.text)) for node in branch))
        self.tools.update(call.name for turn in turns for call in turn.calls)
        self.roles.update(call_roles(trajectory))
        self.endings[trajectory.ending.value if trajectory.ending else NO_ENDING] += 1
        self.scripts[script_of(trajectory.question.text)] += 1
        ruling = ruling_of(trajectory)
        self.verdicts[ruling.value if ruling else NOT_JUDGED] += 1
        self.answered += trajectory.answer is not None
        self.raw += sum(node.kind is NodeKind.RAW for node in trajectory.nodes)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "trajectories": self.turns.number,
            "turns": self.turns.as_json() | {"above_50": self.turns.above(50), "above_100": self.turns.above(100)},
            "length": {"unit": self.unit} | self.length.as_json(),
            "tools": dict(self.tools.most_common()),
            "browse_share": self.browse_share,
            "endings": dict(self.endings.most_common()),
            "scripts": dict(self.scripts.most_common()),
            "standings": dict(self.verdicts.most_common()),
            "correct_share": self.correct_share,
            "answered": self.answered,
            "raw_messages": self.raw,
        }


def portray(name: str, trajectories: Iterable[Trajectory], tokenizer: Tokenizer | None = None) -> Portrait:
    """The portrait of a set, with lengths in words, or in the tokenizer's tokens."""
    portrait = Portrait(name, "words" if tokenizer is None else "tokens")
    for trajectory in trajectories:
        portrait.add(trajectory, tokenizer)
    return portrait


def script_of(text: str) -> str:
    """The script with the most letters among a text's first 2,000 characters: as near to its language as letters can tell.

    Kana makes a text Japanese; Han without kana is called Chinese.

    Example: ``script_of("東京はどこ?") == "Japanese"``
    """
    counts: Counter[str] = Counter()
    for char in text[:2_000]:
        if char.isalpha():
            place = bisect_right(_STARTS, ord(char)) - 1
            counts[(_NAMES[place] if place >= 0 else "") or "another script"] += 1
    if not counts:
        return "no letters"
    if counts["Japanese"] >= 0.1 * counts.total():
        counts["Japanese"] += counts.pop("Chinese", 0)
    return max(counts, key=lambda name: (counts[name], name))


class Step(NamedTuple):
    """One line of the way that data took."""

    name: str
    came_in: int
    went_out: int
    told: str


def _figures(portraits: Sequence[Portrait]) -> list[tuple[str, list[str]]]:
    """Rows of a table: what is counted, and a cell for each set."""

    def count(value: int | None) -> str:
        return MISSING if value is None else f"{value:,}"

    def most_common(counts: Counter[str]) -> str:
        return "\n".join(f"{visible(name)} {count:,}" for name, count in counts.most_common(4))

    unit = portraits[0].unit if portraits else "words"
    cells: dict[str, Callable[[Portrait], str]] = {
        "trajectories": lambda one: f"{one.turns.number:,}",
        "turns, mean": lambda one: mean(one.turns.mean),
        "turns, median": lambda one: count(one.turns.quantile(0.5)),
        "turns, most": lambda one: f"{one.turns.most:,}",
        ">50": lambda one: percent(one.turns.above(50)),
        ">100": lambda one: percent(one.turns.above(100)),
        f"{unit}, mean": lambda one: mean(one.length.mean, 0),
        "length, p90": lambda one: count(one.length.quantile(0.9)),
        "browse": lambda one: percent(one.browse_share, 0),
        "answered": lambda one: percent(one.answered / one.turns.number) if one.turns.number else MISSING,
        "correct": lambda one: percent(one.correct_share),
        "endings": lambda one: most_common(Counter({name.replace("_", " "): n for name, n in one.endings.items()})),
        "tools": lambda one: most_common(one.tools),
        "scripts": lambda one: most_common(one.scripts),
    }
    return [(head, [cell(one) for one in portraits]) for head, cell in cells.items()]


def figures_table(portraits: Sequence[Portrait]) -> Table:
    """The figures for the terminal: a column for each set."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for one in portraits:
        table.add_column(Text(visible(one.name)), justify="right")
    for head, cells in _figures(portraits):
        table.add_row(head, *map(Text, cells))
    return table


def data_page(title: str, portraits: Sequence[Portrait], *, command: str, steps: Sequence[Step] = ()) -> str:
    """The same as one HTML page that needs nothing else, with the distributions of turns and lengths."""
    unit = portraits[0].unit if portraits else "words"
    lengths = [
        _columns(portraits, lambda one: one.turns, "Turns", "turns of the policy"),
        _columns(portraits, lambda one: one.length, f"Length in {unit}", f"{unit} of all messages"),
    ]
    sets = f"{len(portraits)} set{'s' * (len(portraits) != 1)}"
    about = {"steps": steps, "names": [one.name for one in portraits], "figures": _figures(portraits), "lengths": lengths}
    return render("data.html", title, summary=f"{sets}, side by side.", command=command, **about)


def _columns(portraits: Sequence[Portrait], pick: Callable[[Portrait], Distribution], title: str, x_label: str) -> Markup:
    most = max((pick(one).most for one in portraits), default=0)
    names, edges = [one.name for one in portraits], charts.bin_edges(most)
    drawn = charts.columns(names, edges, [pick(one).binned(edges) for one in portraits], title=title, x_label=x_label)
    return figure(f"{title}, shares of each set", drawn, legend(names) if len(names) > 1 else None)
