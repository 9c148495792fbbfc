"""``sanderling synth verify``: which questions are worth asking. Thin: `synth.verify` checks them.

Exit status 3 when something is still to be done: a model was not reached, or the budget is spent.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending, opened_askers, spent_line
from sanderling.cli.judges import JudgePrices, opened_judge
from sanderling.cli.synth_making import ModelPrices, asked_questions, run_work, tell_open, work_bar
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.runs.run import beside
from sanderling.synth.verify import WITH_MODEL, Check, Means, VerifyReport, VerifySettings
from sanderling.synth.verify import verify as verify_questions
from sanderling.world.disk.store import open_world
from sanderling.world.opening import open_as_met

AskedModels = Annotated[
    list[str] | None,
    typer.Option("--model", help="Who is asked without tools, and reads: http://host:port/v1#model or a model's directory."),
]
AnswerJudges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        help="Who says whether a model's answer is right (see data judge); contains by default: a sentence may do.",
    ),
]


def verify(
    file: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="File of questions.")],
    directory: Annotated[Path, typer.Option("--world", help="Directory of the world that they are asked in.")],
    out: Annotated[Path, typer.Option("--out", help="The questions that pass, with what each check found.")],
    checks: Annotated[
        list[Check] | None,
        typer.Option("--check", help="What to check; repeatable. By default all that go by rule, and with --model all."),
    ] = None,
    models: AskedModels = None,
    judges: AnswerJudges = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Tries without tools of each model.")] = 3,
    results: Annotated[int, typer.Option("--results", min=1, help="Results of a search that are looked at.")] = 10,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Questions checked at the same time.")] = 8,
    price: ModelPrices = None,
    judge_price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
) -> None:
    """Keep the questions that can be answered, and not without research.

    Checked in this order, until one fails: the question holds its answer (giveaway); the world, with the question's mask,
    does not hold it (evidence); titles and snippets tell it (snippets); another answer is found (unique); a model knows it
    (closed-book). Whether an agent finds the answer is measured by ``synth difficulty``.
    """
    if file.resolve() in (out.resolve(), out.with_name(f"{out.stem}.unscored.jsonl").resolve()):
        raise UserError(f"{file} is read and written: choose another place for the output.")
    questions = asked_questions(file)
    chosen = _chosen(checks, models)
    settings = VerifySettings(samples=samples, results=results)
    spending = Spending(beside(out), max_tokens, max_cost, cache)
    console = Console(stderr=True)

    async def run() -> VerifyReport:
        async with AsyncExitStack() as stack:
            asking = opened_askers(models, price, spending, concurrency=concurrency, console=console)
            askers = await stack.enter_async_context(asking)
            judging = opened_judge(judges or ["contains"], judge_price, spending, concurrency=concurrency, console=console)
            judge = await stack.enter_async_context(judging)
            means = Means(open_as_met(directory), open_world(directory).page, askers, judge, settings)
            show = _Show(stack.enter_context(work_bar(console)), len(questions))
            return await verify_questions(questions, chosen, means, out, concurrency=concurrency, on_done=show)

    _tell(run_work(run(), console, "questions that were checked are kept"), spending, out)


def _chosen(checks: Sequence[Check] | None, models: Sequence[str] | None) -> tuple[Check, ...]:
    """What to check. Raises UserError for what cannot be checked here."""
    wanted = tuple(checks or (check for check in Check if models or check not in WITH_MODEL))
    lacking = [check.value for check in wanted if check in WITH_MODEL and not models]
    if lacking:
        raise UserError(f"--check {lacking[0]} asks a model: give --model http://host:port/v1#model.")
    return wanted


class _Show:
    """A bar over questions."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("checking", total=total)

    def __call__(self, report: VerifyReport) -> None:
        failed, unscored = report.failed.total(), report.unscored.total()
        told = f"{report.kept:,} kept, {failed:,} failed, {unscored:,} untold"
        self._bar.update(self._task, completed=report.kept + failed + unscored, description=told)


def _tell(report: VerifyReport, spending: Spending, out: Path) -> None:
    table = Table("check", "failed", "could not be told", "first that failed")
    for check in Check:
        if report.failed[check] or report.unscored[check]:
            example = escape(visible(report.examples.get(check, ""))[:200])
            table.add_row(check.value, f"{report.failed[check]:,}", f"{report.unscored[check]:,}", example)
    console = Console(highlight=False, soft_wrap=True)
    if table.row_count:
        Console().print(table)
    console.print(f"{report.kept:,} of {report.questions:,} questions in {visible(str(out))}", markup=False)
    if spending.ledger.spent.calls:
        console.print(spent_line(spending), markup=False)
    tell_open(console, report.stopped, report.outages, "questions met no model")
