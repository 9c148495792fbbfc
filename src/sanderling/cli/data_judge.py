"""``sanderling data judge``: who was right, by rules or models, cached and resumable. Thin: `reward/` judges.

Exit status: 0 when every verdict that can be had is there, 3 when the budget was spent or a judge was not reached.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sanderling.cli import exits
from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending, spent_line
from sanderling.cli.judges import FormKey, JudgePrices, JudgeSpecs, Verdicts, opened_judge
from sanderling.core.text import visible
from sanderling.data.importing import open_trajectories
from sanderling.judge.book import JudgeReport, Keep, judge_file
from sanderling.judge.by_hand import ByHand
from sanderling.judge.prompts import DEFAULT_PROMPT
from sanderling.judge.verdict import Ruling
from sanderling.runs.files import check_places
from sanderling.runs.run import beside


def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories: a store, Parquet, or anything importable.")],
    out: Annotated[Path, typer.Option("--out", help="The judged trajectories: .jsonl or .parquet.")],
    judges: JudgeSpecs,
    keep: Annotated[Keep, typer.Option("--keep", help="Write all, each with its verdict, or the correct ones.")] = Keep.ALL,
    verdicts: Verdicts = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Replies waited for at the same time.")] = 8,
    price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    form: FormKey = DEFAULT_PROMPT,
) -> None:
    """Say of every trajectory whether its own answer is right; what cannot be told is unscored, with a reason.

    Killed or stopped, the same command goes on and asks for nothing twice.
    """
    check_places([file, *([verdicts] if verdicts is not None else [])], [out, out.with_name(f"{out.name}.judge.json")])
    by_hand = ByHand.read(verdicts) if verdicts else ByHand()
    source = open_trajectories(file)
    spending = Spending(beside(out), max_tokens, max_cost, cache)
    console = Console(stderr=True)
    with _progress(console) as show, asyncio.Runner() as runner:
        opening = opened_judge(judges, price or [], spending, concurrency=concurrency, console=console, form=form)
        stack = AsyncExitStack()
        chosen = runner.run(stack.enter_async_context(opening))
        try:
            report = judge_file(
                source, out, chosen, keep=keep, by_hand=by_hand, concurrency=concurrency, on_progress=show, runner=runner
            )
        finally:
            runner.run(stack.aclose())
    _tell(report, spending, out)
    if report.open:
        raise typer.Exit(exits.UNFINISHED)


@contextmanager
def _progress(console: Console) -> Iterator["_Show"]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        show = _Show(bar)
        try:
            yield show
        except KeyboardInterrupt:
            bar.console.print("Stopped. The same command goes on: verdicts so far are kept.")
            raise typer.Exit(exits.INTERRUPTED) from None


class _Show:
    """A line that counts."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("judging", total=None)

    def __call__(self, report: JudgeReport) -> None:
        if report.trajectories % 50 == 1 or report.asked:
            counts = ", ".join(f"{report.rulings[ruling]:,} {ruling.value}" for ruling in Ruling)
            self._bar.update(self._task, description=f"{report.trajectories:,} judged: {counts}")


def _tell(report: JudgeReport, spending: Spending, out: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    counts = ", ".join(f"{report.rulings[ruling]:,} {ruling.value}" for ruling in Ruling)
    console.print(f"{report.trajectories:,} trajectories by {visible(report.judge)}: {counts}", markup=False)
    if report.grades:
        grades = ", ".join(f"{count:,} {grade}" for grade, count in sorted(report.grades.items()))
        console.print(f"  grades: {grades}", markup=False)
    if report.is_graded:
        console.print(f"  mean score: {report.mean_score:.3f}", markup=False)
    for code, ids in sorted(report.examples.items()):
        console.print(f"  {code.value}: {report.codes[code]:,} (such as {visible(', '.join(ids))})", markup=False)
    console.print(f"{report.written:,} written to {visible(str(out))}; report: {visible(out.name)}.judge.json", markup=False)
    if spending.ledger.spent.calls:
        console.print(spent_line(spending), markup=False)
    if report.unused_by_hand:
        told = visible(", ".join(report.unused_by_hand[:3]))
        console.print(
            f"{len(report.unused_by_hand):,} lines of --verdicts are about no trajectory (such as {told}).", markup=False
        )
    if report.open:
        console.print(f"{report.open:,} are still open: run the same command again (with a larger limit, if that was reached).")
