"""``sanderling eval score``: others' trajectories judged and measured like our own. Thin: `evaluate` reads and judges.

Exit status: 0 for a valid result, 3 when a judge was not reached, its budget was spent, or too much could not be scored.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sanderling.cli.asking import Cache, MaxCost, MaxTokens
from sanderling.cli.judges import FormOfBenchmark, JudgePrices, SecondJudge, Verdicts

if TYPE_CHECKING:
    from sanderling.evaluate.benchmark_files import Loaded
    from sanderling.evaluate.benchmarks import Benchmark


def score(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Trajectories in any layout that data import reads, or folders of AgentToLeaP's results."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory of the run that is write_peers; the same one goes on.")],
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Who judges (see data generate); by default the publisher's own rule, where it is one."),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option("--questions", help="The benchmark's file, whose accepted answers count; without it the records' own."),
    ] = None,
    benchmark: Annotated[
        str, typer.Option("--benchmark", metavar="KEY", help="Whose file it is; sanderling eval list has them.")
    ] = "jsonl",
    split: Annotated[str, typer.Option(help="The part that the file is, where its name does not say it.")] = "",
    columns: Annotated[str, typer.Option(help="Unusual columns: question=Prompt,answer=Gold.", metavar="ROLES")] = "",
    canary: Annotated[str, typer.Option(help="Decrypts a file that does not hold its own canary.")] = "",
    layout: Annotated[
        str,
        typer.Option("--layout", metavar="NAME", help="Only records of this layout (or file.py:name); others are left out."),
    ] = "",
    public: Annotated[
        bool, typer.Option("--public", help="AgentToLeaP's records, which name no benchmark, are of one that may be published.")
    ] = False,
    form: FormOfBenchmark = "",
    second: SecondJudge = None,
    verdicts: Verdicts = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Replies waited for at the same time.")] = 8,
    unscored_limit: Annotated[float, typer.Option(min=0, max=1, help="More unscored attempts make the run invalid.")] = 0.02,
    price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
) -> None:
    """Judge and measure trajectories that others have made: a run's directory, for eval report, judge, agree and export.

    A verdict that stands in the records is taken for a second judge's. Killed or stopped, the same command goes on.
    """
    from rich.console import Console

    from sanderling.cli.asking import Spending
    from sanderling.cli.eval_judging import Judging
    from sanderling.cli.eval_shown import print_result, show_peers
    from sanderling.cli.judges import form_for, required
    from sanderling.evaluate.judging import by_hand_of, with_book
    from sanderling.evaluate.log import RunLog
    from sanderling.evaluate.peer_files import read_peers, write_peers
    from sanderling.evaluate.run import judges_or_own
    from sanderling.runs.files import check_places
    from sanderling.runs.provenance import command_line

    directory = RunLog(out)
    check_places([*files, *([questions] if questions else [])], [directory.database])
    whose, loaded = _benchmark(benchmark, questions, split, columns, canary)
    named = judges_or_own(whose, judges or [])
    chosen = form_for(form, whose, [*named, *(second or [])])
    spending = Spending(directory.root, max_tokens, max_cost, cache)
    console = Console(highlight=False, soft_wrap=True)
    judging = Judging(directory, named, second or (), chosen, price, spending, concurrency, unscored_limit)
    with directory.alone():
        scored = read_peers(files, layout, loaded, public=public)
        spending.private = scored.about.private
        directory.finish(write_peers(directory, scored, command_line()))
        by_hand = by_hand_of(directory, verdicts)
        result = judging.judged(lambda first, other: with_book(directory, required(first), other, by_hand))
    show_peers(console, scored.about, result)
    print_result(console, result)
    judging.tell(console, result)


def _benchmark(
    key: str, questions: Path | None, split: str, columns: str, canary: str
) -> tuple["Benchmark | None", "Loaded | None"]:
    """The benchmark and its questions; neither where the records' own are taken. Raises UserError."""
    from sanderling.core.errors import UserError
    from sanderling.data.fields import named_columns
    from sanderling.evaluate.benchmark_files import load_benchmark
    from sanderling.evaluate.benchmark_rows import Options
    from sanderling.evaluate.benchmarks import get_benchmark

    if questions is None:
        if key != "jsonl" or split or columns or canary:
            raise UserError(f"Give the file of {key} with --questions: without it the records' own accepted answers are taken.")
        return None, None
    found = get_benchmark(key)
    return found, load_benchmark(found, questions, Options(split=split, columns=named_columns(columns), canary=canary))
