"""``sanderling eval judge``: the attempts of a run judged again, and its figures made anew. Thin: `evaluate` does both.

Exit status: 0 for a valid result, 3 when a judge was not reached, its budget was spent, or the run is invalid.
"""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.cli.asking import Cache, MaxCost, MaxTokens
from sanderling.cli.attempting import AgentPrice
from sanderling.cli.judges import FormOfBenchmark, JudgePrices, SecondJudge, Verdicts


def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run.")],
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Who judges (see data generate); by default whoever judged before."),
    ] = None,
    form: FormOfBenchmark = "",
    second: SecondJudge = None,
    verdicts: Verdicts = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Replies waited for at the same time.")] = 8,
    unscored_limit: Annotated[
        float | None, typer.Option(min=0, max=1, help="More unscored attempts make the run invalid; by default as before.")
    ] = None,
    price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    scores: Annotated[
        Path | None,
        typer.Option("--scores", help="Scores of attempts for the best of k, a CSV file id,score[,name]; kept with the run."),
    ] = None,
    agent_price: AgentPrice = None,
) -> None:
    """Judge a run's attempts again, by another judge, another form or a person's word; no attempt is repeated.

    Without a judge its figures are made anew by what was said before, with other prices or scores.

    What a judge has said of the same answer before is not asked again. Killed or stopped, the same command goes on.
    """
    from rich.console import Console

    from sanderling.cli.asking import Spending, read_prices
    from sanderling.cli.eval_judging import Judging
    from sanderling.cli.eval_shown import print_result, show_unused
    from sanderling.cli.judges import form_for
    from sanderling.evaluate.benchmarks.table import get_benchmark
    from sanderling.evaluate.episodes import FAILED
    from sanderling.evaluate.judging import by_hand_of, judges_again, read_scores, unused_by_hand
    from sanderling.evaluate.log import RunLog

    directory = RunLog(run)
    about = directory.require().about
    key = about.benchmark
    benchmark = get_benchmark(key) if key else None  # others' records may come without
    named, others = judges or [], second or []
    chosen = form_for(form, benchmark, [*named, *others])
    spending = Spending(directory.root, max_tokens, max_cost, cache, about.private)
    console = Console(highlight=False, soft_wrap=True)
    judging = Judging(directory, named, others, chosen, price, spending, concurrency, unscored_limit)
    with directory.alone():
        told = read_prices([agent_price], 1, None)[0] if agent_price is not None else None
        by_hand = by_hand_of(directory, verdicts)
        if scores is not None:
            directory.keep_scores(read_scores(scores, {one.id: one.key for one in directory.episodes()}))
        if told is not None:
            directory.price(told)
        result = judging.judged(lambda first, other: judges_again(directory, first, other, by_hand))
    print_result(console, result)
    show_unused(console, unused_by_hand(directory, by_hand))
    failed = sum(one.code in FAILED for one in directory.verdicts()) if named else 0
    if failed:
        console.print(f"{failed:,} answers have no verdict: the same command asks for them once more.")
    judging.tell(console, result)
