"""The step of the data pipeline that says who is right: rules, models, or the verdicts in the records.

Verdicts outlive a kill (`3-verdicts.jsonl`). A verdict that another run may still get, because a server was not reached or the
limit is spent, keeps the step open: its files are not written, and the same command goes on. What was judged and is not trained
on stands in `3-left-out.jsonl`, each with its verdict, reason and code. Knows no server: who starts the run opens the judges.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_trajectory
from sanderling.data.files import open_trajectories
from sanderling.data.standing import Standing, standing
from sanderling.judge.book import Judged, JudgeReport, VerdictBook, judge_stream
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import Judge, in_order
from sanderling.policy.load import names_model
from sanderling.recipes.data.config import Keep
from sanderling.recipes.data.layout import Layout, count_lines
from sanderling.recipes.progress import Report
from sanderling.runs.writing import Lines


class OpenVerdictsError(UserError):
    """Verdicts are missing that the same command may still get."""


@asynccontextmanager
async def open_rules(specs: Sequence[str], out: Path) -> AsyncIterator[Judge]:
    """Judges that go by rule. Raises UserError for a model, which somebody has to open, and to pay."""
    models = [spec for spec in specs if names_model(spec)]
    if models:
        raise UserError(f"{models[0]} is a model, and only rules judge here: ask it with sanderling data run.")
    yield in_order([rule_judge(spec) for spec in specs])


@dataclass(frozen=True)
class Judges:
    """How judges are opened, and how many verdicts are waited for at a time."""

    opened: Callable[[Sequence[str], Path], AbstractAsyncContextManager[Judge]] = open_rules
    """Of these names, as one judge; what it spends is written down beside the path."""
    concurrency: int = 8


RULES_ONLY = Judges()


def judge(layout: Layout, report: Report, judges: Judges = RULES_ONLY) -> dict[str, Any]:
    """Who is right. Raises OpenVerdictsError when a judge was not reached, or the limit was spent."""
    settings = layout.config.judge
    found = dict.fromkeys(Standing, 0)
    with ExitStack() as stack:
        kept, others = (stack.enter_context(Lines(path)) for path in (layout.judged, layout.left_out))
        advance = stack.enter_context(report.task("Judge", count_lines(layout.cleaned)))
        cleaned = open_trajectories(layout.cleaned)
        counts = JudgeReport("the verdicts in the records")
        for trajectory in _asked(layout, judges, cleaned, counts, stack) if settings.judges else cleaned:
            stands = standing(trajectory)
            found[stands] += 1
            (kept if _wanted(stands, settings.keep) else others).add(encode_trajectory(trajectory))
            advance(1)
        if counts.open:
            raise OpenVerdictsError(_still_open(counts))
    told = ", ".join(f"{count:,} {stands.value}" for stands, count in found.items() if count) or "none"
    figures = {"came_in": kept.count + others.count, "went_out": kept.count, "standings": found}
    if settings.judges:
        figures["report"] = counts.as_json()
    return figures | {"told": f"by {counts.judge}: {told}; kept {settings.keep.value}"}


def _asked(
    layout: Layout, judges: Judges, cleaned: Iterable[Trajectory], counts: JudgeReport, stack: ExitStack
) -> Iterator[Trajectory]:
    """The trajectories with their verdicts, in order; the judges are closed with the stack."""
    runner = stack.enter_context(asyncio.Runner())
    connections = AsyncExitStack()
    stack.callback(lambda: runner.run(connections.aclose()))
    opening = judges.opened(layout.config.judge.judges, layout.judged)
    chosen = runner.run(connections.enter_async_context(opening))
    counts.judge = chosen.name
    book = VerdictBook(layout.verdicts)
    stream = judge_stream(cleaned, chosen, concurrency=judges.concurrency, book=book, runner=runner)
    return _counted(stack.enter_context(closing(stream)), counts)


def _counted(stream: Iterable[Judged], counts: JudgeReport) -> Iterator[Trajectory]:
    for one in stream:
        counts.add(one, None)
        yield one.trajectory


def _still_open(counts: JudgeReport) -> str:
    why = ", ".join(f"{counts.codes[code]:,} {code.value} (such as {ids[0]})" for code, ids in sorted(counts.examples.items()))
    return (
        f"{counts.open:,} of {counts.trajectories:,} verdicts are still open ({why}): run the same command again, with a "
        "larger limit if that was reached; what was said is remembered."
    )


def _wanted(stands: Standing, keep: Keep) -> bool:
    return keep is Keep.ALL or stands is Standing.CORRECT or (keep is Keep.NOT_WRONG and stands is not Standing.INCORRECT)
