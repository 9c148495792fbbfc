"""What sets of trajectories are made of, side by side: one HTML page that needs nothing else, and a table for the terminal.

Figures come from :mod:`sanderling.data.stats`; none is computed here. The same portraits give the same page.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich import box
from rich.table import Table
from rich.text import Text

from sanderling.core.text import visible
from sanderling.data.stats import Distribution, Portrait
from sanderling.report import charts
from sanderling.report.charts import Part, figure, legend
from sanderling.report.numbers import MISSING, mean, percent
from sanderling.report.page import render

_COLOURS = 6
_OTHER = "others"


@dataclass(frozen=True)
class Step:
    """One line of the way that data took."""

    name: str
    came_in: int
    went_out: int
    told: str


@dataclass(frozen=True)
class Column:
    """A figure of a portrait, for the page and the terminal."""

    head: str
    hint: str
    cell: Callable[[Portrait], str]


def figure_columns(unit: str) -> list[Column]:
    """The table's columns, by what length is measured in."""
    return [
        Column("trajectories", "rows of the file", lambda one: f"{one.trajectories:,}"),
        Column("turns", "the policy's turns on the main branch, mean", lambda one: mean(one.turns.mean)),
        Column("median", "half have at most so many turns", lambda one: _count(one.turns.quantile(0.5))),
        Column("most", "the longest, in turns", lambda one: f"{one.turns.most:,}"),
        Column(">50", "share of trajectories with more than 50 turns", lambda one: percent(one.turns.above(50))),
        Column(">100", "share of trajectories with more than 100 turns", lambda one: percent(one.turns.above(100))),
        Column(unit, f"{unit} of all messages of the main branch, mean", lambda one: mean(one.length.mean, 0)),
        Column("p90", f"nine of ten have at most so many {unit}", lambda one: _count(one.length.quantile(0.9))),
        Column("browse", "visits among all tool calls", lambda one: percent(one.browse_share, 0)),
        Column("answered", "with an answer of the agent's own", lambda one: _share(one.answered, one.trajectories)),
        Column("correct", "judged correct among those with a verdict", lambda one: percent(one.correct_share)),
    ]


def data_page(
    title: str, portraits: Sequence[Portrait], *, command: str, steps: Sequence[Step] = (), notes: Sequence[str] = ()
) -> str:
    """The page."""
    unit = portraits[0].unit if portraits else "words"
    total = sum(one.trajectories for one in portraits)
    sets = f"{len(portraits)} set{'s' * (len(portraits) != 1)}"
    summary = f"{sets} on the way, side by side." if steps else f"{sets}, {total:,} trajectories in all, side by side."
    return render(
        "data.html",
        title,
        summary=summary,
        steps=steps,
        columns=figure_columns(unit),
        portraits=portraits,
        lengths=_lengths(portraits, unit),
        shares=_shares(portraits),
        notes=notes,
        command=command,
    )


def figures_table(portraits: Sequence[Portrait]) -> Table:
    """The figures for the terminal: one row for each, one column for each set where they fit better so."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for one in portraits:
        table.add_column(Text(visible(one.name)), justify="right")
    for column in figure_columns(portraits[0].unit if portraits else "words"):
        table.add_row(_long_head(column), *[column.cell(one) for one in portraits])
    for head, pick in (("endings", _endings), ("tools", _tools), ("scripts", _scripts)):
        cells = ["\n".join(f"{visible(name)} {count:,}" for name, count in pick(one).most_common(4)) for one in portraits]
        table.add_row(head, *[Text(cell) for cell in cells])
    return table


def _long_head(column: Column) -> str:
    return {"turns": "turns, mean", "median": "turns, median", "most": "turns, most", "p90": "length, p90"}.get(
        column.head, column.head if column.head not in ("words", "tokens") else f"{column.head}, mean"
    )


def _lengths(portraits: Sequence[Portrait], unit: str) -> list[Markup]:
    return [
        _columns(portraits, lambda one: one.turns, "Turns", "turns of the policy"),
        _columns(portraits, lambda one: one.length, f"Length in {unit}", f"{unit} of all messages"),
    ]


def _columns(portraits: Sequence[Portrait], pick: Callable[[Portrait], Distribution], title: str, x_label: str) -> Markup:
    most = max((pick(one).most for one in portraits), default=0)
    names, edges = [one.name for one in portraits], charts.bin_edges(most)
    drawn = charts.columns(names, edges, [pick(one).binned(edges) for one in portraits], title=title, x_label=x_label)
    return figure(f"{title}, shares of each set", drawn, legend(names) if len(names) > 1 else None)


def _endings(one: Portrait) -> Counter[str]:
    return Counter({name.replace("_", " "): count for name, count in one.endings.items()})


def _tools(one: Portrait) -> Counter[str]:
    return one.tools


def _scripts(one: Portrait) -> Counter[str]:
    return one.scripts


def _verdicts(one: Portrait) -> Counter[str]:
    return one.verdicts


def _shares(portraits: Sequence[Portrait]) -> list[Markup]:
    return [
        _stacks("How they ended", portraits, _endings),
        _stacks("Verdicts", portraits, _verdicts),
        _stacks("Tools called", portraits, _tools),
        _stacks("Scripts of the questions", portraits, _scripts),
    ]


def _stacks(title: str, portraits: Sequence[Portrait], pick: Callable[[Portrait], Counter[str]]) -> Markup:
    """A bar of 100% for each set; the most frequent names have colours of their own, the same in every bar."""
    overall: Counter[str] = Counter()
    for one in portraits:
        total = pick(one).total()
        overall.update({name: round(1e6 * count / max(1, total)) for name, count in pick(one).items()})  # sets count alike
    ranked = [name for name, _ in sorted(overall.items(), key=lambda found: (-found[1], found[0]))]
    named = ranked if len(ranked) <= _COLOURS else ranked[: _COLOURS - 1]
    rows: list[tuple[str, list[Part]]] = []
    for one in portraits:
        counts = pick(one)
        parts = [Part(name, counts[name], f"s{place}") for place, name in enumerate(named)]
        rest = counts.total() - sum(part.count for part in parts)
        rows.append((one.name, parts + ([Part(_OTHER, rest, f"s{_COLOURS - 1}")] if rest else [])))
    keys = legend(named + ([_OTHER] if len(ranked) > _COLOURS else []))
    return figure(title, charts.stacks(rows, words=True), keys)


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else MISSING


def _count(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}"
