"""The stages on the page: the table, the bars of pass@1, how episodes ended, and the comparisons."""

from collections.abc import Sequence

from sanderling.core.types import Ending
from sanderling.evaluate import bars
from sanderling.evaluate.format import duration, ending_words, mean, percent, span
from sanderling.evaluate.markup import Html, join, tag
from sanderling.evaluate.report_model import Comparison, Stage

_HEAD = {
    "Stage": "What was evaluated",
    "Questions": "Held-out questions × attempts at each",
    "Pass@1": "Mean share of right attempts, with its 95% interval (bootstrap over questions)",
    "Pass@4": "Chance that at least one of four attempts is right, unbiased",
    "Endings": "How the episodes ended",
    "Turns": "Mean model turns of an episode",
    "Browse": "Visits among all tool calls (in right / in wrong episodes)",
    "Time": "Wall time of making and evaluating the stage",
}


def table_html(stages: Sequence[Stage]) -> Html:
    """The table of stages; a second line under each holds its command and seed."""
    best = max((stage.pass_at_1 for stage in stages if stage.pass_at_1 is not None), default=None)
    head = tag("thead", tag("tr", *[tag("th", name, title=meaning, scope="col") for name, meaning in _HEAD.items()]))
    bodies = [_stage(stage, stage.pass_at_1 is not None and stage.pass_at_1 == best) for stage in stages]
    table = tag("table", head, *bodies, class_="stages")
    return join(tag("div", table, class_="scroll", tabindex=0), endings_legend(stages))


def pass_bars(stages: Sequence[Stage]) -> Html:
    """Pass@1 of every stage with its interval."""
    items = [bars.Bar(stage.name, stage.pass_at_1, stage.pass_at_1_interval) for stage in stages]
    return bars.bars(items, title="Pass@1 of each stage with its 95% interval")


def difference_plot(comparisons: Sequence[Comparison]) -> Html:
    """Every paired difference with its interval."""
    items = [bars.Difference(c.candidate, c.baseline, c.difference, c.interval) for c in comparisons]
    return bars.differences(items, title="Paired differences in pass@1 with their 95% intervals, in points")


def endings_bars(stages: Sequence[Stage]) -> Html:
    """One stacked bar for each stage."""
    rows = [join(tag("dt", stage.name), tag("dd", bars.stack(_parts(stage)))) for stage in stages]
    return join(tag("dl", *rows, class_="stacks"), endings_legend(stages))


def endings_legend(stages: Sequence[Stage]) -> Html:
    """Swatches of the endings that occur."""
    present = [ending for ending in Ending if any(stage.endings.get(ending) for stage in stages)]
    return tag("p", *[tag("span", ending_words(e), class_=f"key e-{e}") for e in present], class_="legend")


def _stage(stage: Stage, best: bool) -> Html:
    note = tag("div", stage.note, class_="note") if stage.note else None
    invalid = tag("div", "Invalid: " + stage.invalid_because, class_="invalid") if stage.invalid_because else None
    split = f"{percent(stage.browse_share_correct, 0)} / {percent(stage.browse_share_wrong, 0)}"
    cells = (
        tag("th", stage.name, note, invalid, scope="row"),
        tag("td", f"{stage.n:,} × {stage.attempts}", _below(f"{stage.unscored} unscored" if stage.unscored else "")),
        tag(
            "td",
            tag("b", percent(stage.pass_at_1)) if best else percent(stage.pass_at_1),
            _below(span(stage.pass_at_1_interval)),
        ),
        tag("td", percent(stage.pass_at_4), _below(span(stage.pass_at_4_interval) if stage.pass_at_4_interval else "")),
        tag("td", bars.stack(_parts(stage)), class_="endings"),
        tag("td", mean(stage.turns), _below(f"{mean(stage.calls)} calls")),
        tag("td", percent(stage.browse_share, 0), _below(split)),
        tag("td", duration(stage.seconds)),
    )
    source = tag("td", tag("code", stage.command), f" · seed {stage.seed}", colspan=len(cells))
    return tag("tbody", tag("tr", *cells), tag("tr", source, class_="source"))


def _parts(stage: Stage) -> list[bars.Part]:
    return [bars.Part(ending_words(e), stage.endings.get(e, 0), f"e-{e}") for e in Ending]


def _below(words: str) -> Html | None:
    return tag("div", words, class_="below") if words else None
