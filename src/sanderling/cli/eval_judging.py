"""What ``eval judge`` and ``eval score`` share: judges opened, a finished run judged by them, what came of it told. Thin."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer
from rich.console import Console

from sanderling.cli import exits
from sanderling.cli.asking import Spending, spent_line
from sanderling.cli.eval_shown import end_as_valid
from sanderling.cli.judges import judging_bar, opened_judges
from sanderling.core.asking import BudgetSpentError
from sanderling.core.text import visible
from sanderling.evaluate.judging import Judges, judge_again
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import Judge
from sanderling.runs.provenance import command_line


@dataclass(frozen=True)
class Judging:
    """The options of who judges a run, and what that may take."""

    directory: RunLog
    judges: Sequence[str]
    second: Sequence[str]
    form: str
    price: list[str] | None
    spending: Spending
    concurrency: int
    unscored_limit: float | None

    def judged(self, chosen: Callable[[Judge | None, Judge | None], Judges]) -> EvalResult:
        """The figures by those whom ``chosen`` makes of the judges opened. Exits where a budget is spent; raises UserError."""
        try:
            return asyncio.run(self._judged(chosen))
        except BudgetSpentError as error:
            told = f"{error} What there was before stays as it is; the same command goes on."
            Console(highlight=False, soft_wrap=True).print(visible(told), markup=False)
            raise typer.Exit(exits.UNFINISHED) from None

    async def _judged(self, chosen: Callable[[Judge | None, Judge | None], Judges]) -> EvalResult:
        errors, wide = Console(stderr=True), self.concurrency
        opening = opened_judges(
            self.judges, self.second, self.price, self.spending, concurrency=wide, console=errors, form=self.form
        )
        async with opening as (first, second):
            with judging_bar(errors) as show:
                judges, limit = chosen(first, second), self.unscored_limit
                return await judge_again(self.directory, judges, command_line(), limit, concurrency=wide, on_judged=show)

    def tell(self, console: Console, result: EvalResult) -> None:
        """What it took and where everything is; exits as the result says."""
        if self.spending.ledger.spent.calls:
            console.print(spent_line(self.spending), markup=False)
        files = f"{self.directory.result_file} has all figures, {self.directory.database} every verdict."
        console.print(visible(files), markup=False)
        end_as_valid(result)
