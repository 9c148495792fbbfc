"""``--judge``: rules by name and models by their address, in order. Thin."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.asking import PRICE_HELP, Spending, opened_model_clients
from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks.table import Benchmark
from sanderling.judge.model import judge_named
from sanderling.judge.prompts import DEFAULT_PROMPT, PROMPTS, get_prompt
from sanderling.judge.verdict import Judge
from sanderling.policy.load import names_model

JudgeSpecs = Annotated[
    list[str],
    typer.Option(
        "--judge",
        help="Who judges: exact, contains, f1:0.8, numeric, verbatim, gaia, squad_em, squad_f1, a model as "
        "http://host:port/v1#model or a model's directory. Repeatable: the first that finds an answer right settles it; models "
        "stand in for one another.",
    ),
]
JudgePrices = Annotated[list[str] | None, typer.Option("--judge-price", help=f"What a judging model costs {PRICE_HELP}")]

Verdicts = Annotated[
    Path | None,
    typer.Option(
        "--verdicts",
        help="A person's verdicts, which outweigh any judge: a CSV file of id,correct or, with that heading, of "
        "question,answer,correct.",
    ),
]
SecondJudge = Annotated[
    list[str] | None,
    typer.Option("--second-judge", help="Who judges too, and decides nothing: sanderling eval agree compares. Repeatable."),
]
FormOfBenchmark = Annotated[
    str, typer.Option("--form", help="How a judging model is asked; by default as the benchmark's publisher does.")
]
FormKey = Annotated[
    str, typer.Option("--form", help=f"How a judging model is asked, and its reply read: {', '.join(PROMPTS)}.")
]


def required(judge: Judge | None) -> Judge:
    """The judge. Raises UserError where nobody is named."""
    if judge is None:
        raise UserError("Nobody judges: name one with --judge.")
    return judge


def form_for(form: str, benchmark: Benchmark | None, specs: Sequence[str]) -> str:
    """The form that was named, else the benchmark's where a model judges. Raises UserError for one that there is not."""
    if form:
        get_prompt(form)  # a wrong name is told now
        return form
    return benchmark.form or DEFAULT_PROMPT if benchmark is not None and any(map(names_model, specs)) else DEFAULT_PROMPT


@asynccontextmanager
async def opened_judge(
    specs: Sequence[str],
    prices: Sequence[str] | None,
    spending: Spending,
    *,
    concurrency: int,
    console: Console,
    form: str = DEFAULT_PROMPT,
) -> AsyncIterator[Judge]:
    """The judges in their order as one: rules first come first served, all models as one judge. Raises UserError."""
    opening = opened_judges(specs, (), prices, spending, concurrency=concurrency, console=console, form=form)
    async with opening as (judge, _):
        yield required(judge)


@asynccontextmanager
async def opened_judges(
    specs: Sequence[str],
    second: Sequence[str],
    prices: Sequence[str] | None,
    spending: Spending,
    *,
    concurrency: int,
    console: Console,
    form: str = DEFAULT_PROMPT,
    on_retry: Callable[[str], None] | None = None,
) -> AsyncIterator[tuple[Judge | None, Judge | None]]:
    """:func:`opened_judge` for the judge that decides and one to compare with, None for nobody; prices are in this order."""
    if second and list(second) == list(specs):
        raise UserError("The second judge is the first one: name another with --second-judge.")
    asked = get_prompt(form)
    models = [spec for spec in (*specs, *second) if names_model(spec)]
    if asked.key != DEFAULT_PROMPT and not models:
        raise UserError(f"--form {form} is for a judging model, and none is named: add --judge http://host:port/v1#model.")
    asking = opened_model_clients(models, prices, spending, concurrency=concurrency, console=console, on_retry=on_retry)
    async with asking as clients:
        first = len([spec for spec in specs if names_model(spec)])
        yield (
            judge_named(specs, clients[:first], asked, names_model),
            judge_named(second, clients[first:], asked, names_model),
        )


@contextmanager
def judging_bar(console: Console) -> Iterator[Callable[[int], None]]:
    """A line that counts what is judged; Ctrl-C ends it and the command."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("judging", total=None)

        def show(count: int) -> None:
            bar.update(task, description=f"{count:,} judged")

        yield show
