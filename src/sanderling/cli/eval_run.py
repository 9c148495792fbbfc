"""``sanderling eval run``: an agent measure on a benchmark. Thin: `evaluate` makes the attempts and the figures.

Exit status: 0 for a valid result, 3 when a budget was spent or too many attempts met outages, 130 after Ctrl-C. The first
Ctrl-C stops the episodes under way and keeps their turns; a second one interrupts at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.cli.asking import Cache, MaxCost, MaxTokens, read_prices
from sanderling.cli.attempting import (
    MODEL_HELP,
    AgentPrice,
    Attempting,
    Budget,
    Concurrency,
    Each,
    Given,
    Seed,
    WorldDirectory,
    profile_for,
    tell_attempts,
)
from sanderling.cli.backend import Place, ReaderUrl, SearchUrl, Web
from sanderling.cli.eval_progress import ShowProgress
from sanderling.cli.extractor import ExtractorCache, ExtractorChoice, ExtractorOutage, ExtractorSpec
from sanderling.cli.judges import FormOfBenchmark, JudgePrices, SecondJudge, Verdicts, form_for
from sanderling.cli.options import MaxTurns
from sanderling.cli.world_options import Faults as Dynamics
from sanderling.cli.world_options import Search, WorldSeed
from sanderling.core.profiles import PROFILES
from sanderling.evaluate.attempts import Made
from sanderling.tools.page_reader import OnOutage
from sanderling.world.dense.index import SearchMode


def run(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Which benchmark; sanderling eval list has them.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its file, or the folder as it was downloaded.")],
    out: Annotated[Path, typer.Option("--out", help="Directory of the run; the same one goes on.")],
    model: Annotated[str, typer.Option("--model", help=f"The agent: {MODEL_HELP}")],
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Who judges (see data generate); by default the publisher's own rule, where it is one."),
    ] = None,
    world: WorldDirectory = None,
    profile: Annotated[
        str | None, typer.Option(help=f"Prompt, tools, budgets: {', '.join(PROFILES)}; tiny by default, not for an endpoint.")
    ] = None,
    attempts: Each = 1,
    seed: Seed = 0,
    concurrency: Concurrency = 8,
    limit: Annotated[int | None, typer.Option(min=1, help="So many questions only: the first ones.")] = None,
    sample_seed: Annotated[int | None, typer.Option(help="With --limit: a sample by this seed in place of the first.")] = None,
    split: Annotated[str, typer.Option(help="The part that the file is, where its name does not say it.")] = "",
    columns: Annotated[str, typer.Option(help="Unusual columns: question=Prompt,answer=Gold.", metavar="ROLES")] = "",
    canary: Annotated[str, typer.Option(help="Decrypts a file that does not hold its own canary.")] = "",
    unscored_limit: Annotated[float, typer.Option(min=0, max=1, help="More unscored attempts make the run invalid.")] = 0.02,
    price: AgentPrice = None,
    judge_price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
    web: Web = False,
    search_url: SearchUrl = None,
    reader_url: ReaderUrl = None,
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Hide known leak sites and pages that hold the question, and say so.")
    ] = True,
    blocklist: Annotated[
        list[Path] | None, typer.Option(help="More sites to hide: a host, URL or */path a line. May be repeated.")
    ] = None,
    form: FormOfBenchmark = "",
    second: SecondJudge = None,
    verdicts: Verdicts = None,
    extractor: ExtractorSpec = None,
    extractor_cache: ExtractorCache = None,
    extractor_outage: ExtractorOutage = OnOutage.REFUSE,
    max_turns: MaxTurns = None,
    max_context: Annotated[
        int | None, typer.Option("--max-context", min=1, help="Most tokens of context, instead of the profile's number.")
    ] = None,
    progress: ShowProgress = True,
    unjudged: Annotated[bool, typer.Option("--unjudged", help="Ask questions without accepted answers too.")] = False,
) -> None:
    """Let an agent try every question, judge its answers, and print figures with their error bars.

    Killed, stopped or out of budget, the same command goes on and repeats no finished attempt; once finished, it tries those
    again that met outages.
    """
    from rich.console import Console

    from sanderling.cli.eval_shown import show_file, show_guard, show_result, show_unused
    from sanderling.data.fields import named_columns
    from sanderling.evaluate.benchmarks.files import load_benchmark
    from sanderling.evaluate.benchmarks.rows import Options
    from sanderling.evaluate.benchmarks.table import get_benchmark
    from sanderling.evaluate.guarding import guarding_of
    from sanderling.evaluate.judging import by_hand_of, unused_by_hand, with_book
    from sanderling.evaluate.log import RunLog
    from sanderling.evaluate.recorded_calls import recording_of
    from sanderling.evaluate.run import Evaluation, judges_or_own, prepare, run_evaluation
    from sanderling.runs.provenance import command_line

    benchmark = get_benchmark(key)
    loaded = load_benchmark(benchmark, file, Options(split=split, columns=named_columns(columns), canary=canary))
    guarding = guarding_of(benchmark, loaded, blocklist or [], on=guard)
    about, questions = prepare(loaded, limit, sample_seed, seed, guarding.facts, unjudged=unjudged)
    named = judges_or_own(benchmark, judges or [])
    directory = RunLog(out)
    chosen_profile = profile_for(profile, model)
    place = Place(world, web, search_url, reader_url, dynamics, world_seed, mode)
    budget = Budget(price, judge_price, max_tokens, max_cost, cache, about.private)
    console = Console(highlight=False, soft_wrap=True)
    show_file(console, benchmark, loaded)
    with directory.alone():
        told = read_prices([price], 1, None)[0] if price is not None else None
        began = directory.begin(about, questions, attempts, command_line(), told)
        recording = recording_of(world) if world is not None else None
        measure = Evaluation(directory, began, questions, concurrency, unscored_limit, unjudged, recording)
        by_hand = by_hand_of(directory, verdicts)
        attempting = Attempting(
            out,
            model,
            list(named),
            place,
            chosen_profile,
            attempts,
            concurrency,
            budget,
            benchmark.title,
            guarding.guard(directory.guard_file),
            form_for(form, benchmark, [*named, *(second or [])]),
            tuple(second or ()),
            reader=ExtractorChoice(extractor, extractor_cache, extractor_outage, about.private)
            if extractor is not None
            else None,
            max_turns=max_turns,
            max_context=max_context,
            progress=progress,
            run=out,
        )

        async def make(given: Given) -> Made:
            chosen = with_book(directory, given.judge, given.second, by_hand)
            return await run_evaluation(measure, given.agent, chosen, given.journal, watch=given.watch, cancel=given.cancel)

        made, spending = attempting.made(questions, make)
        tell_attempts(console, made, len(questions) * attempts, out, spending)
        show_guard(console, guarding.facts, directory.guard_file)
        show_unused(console, unused_by_hand(directory, by_hand))
        show_result(console, measure, made)
