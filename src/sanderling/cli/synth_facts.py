"""``sanderling synth facts``: short-answer questions from single pages, written by a model. Thin: `synth.facts` makes them."""

from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.asking import Cache, MaxCost, MaxTokens, Spending
from sanderling.cli.synth_making import (
    Added,
    Concurrency,
    JudgeModels,
    JudgePrices,
    ModelChoice,
    ModelSpecs,
    Out,
    Pages,
    Prices,
    Seed,
    World,
    page_progress,
    run_work,
    tell,
)
from sanderling.runs.run import beside
from sanderling.synth.facts import JUDGE, MAKER, WRITER, FactsSettings, questions_of
from sanderling.synth.pages import MakingReport, PageResult, draw_pages, make_questions
from sanderling.synth.prompt import made_with
from sanderling.world.contract import Page
from sanderling.world.disk.store import open_world


def facts(
    directory: World,
    out: Out,
    models: ModelSpecs,
    pages: Pages = 100,
    per_page: Annotated[int, typer.Option("--per-page", min=1, help="Most questions of one page.")] = 3,
    seed: Seed = 0,
    added: Added = False,
    judges: JudgeModels = None,
    concurrency: Concurrency = 8,
    price: Prices = None,
    judge_price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
) -> None:
    """Make short-answer questions from pages: each stands alone, passes seven points, and hides its own page.

    Killed or stopped, the same command goes on and asks for nothing twice.
    """
    world = open_world(directory)
    drawn = draw_pages(directory, pages, seed, added=added)
    settings = FactsSettings(per_page=per_page)
    origin = {"world": world.name, "fingerprint": world.fingerprint, "seed": seed}
    spending = Spending(beside(out), max_tokens, max_cost, cache)
    choice = ModelChoice(models, judges, price, judge_price)
    console = Console(stderr=True)

    async def run() -> MakingReport:
        async with choice.opened(spending, concurrency=concurrency, console=console) as asked:

            async def make(page: Page) -> PageResult:
                return await questions_of(page, asked, settings, origin)

            with page_progress(console, len(drawn)) as show:
                given = made_with(MAKER, (WRITER, JUDGE), asked, settings, origin)
                return await make_questions(drawn, make, given, out, concurrency=concurrency, on_page=show)

    tell(run_work(run(), console), spending, out)
