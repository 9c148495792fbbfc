"""``sanderling data``: raw trajectories to supervision, step by step or in one run. Thin: the work is done in ``data/``."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sanderling.cli import UNFINISHED
from sanderling.cli.attempting import ShowProgress, generated
from sanderling.cli.options import (
    BUDGET,
    JUDGING,
    ConfigFile,
    Judges,
    MaxCost,
    MaxTokens,
    Model,
    ProfileName,
    Set,
    Worlds,
    or_help,
    settings,
    show,
    table,
)
from sanderling.core.config import load_config, read_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.text import visible
from sanderling.data.cleaning.cleaner import CleaningRecipe, CleanReport, clean_file, get_recipe
from sanderling.data.dedupe import LEAST_THRESHOLD, THRESHOLD, Prefer
from sanderling.data.importing import open_trajectories
from sanderling.judge.book import JudgeReport, Keep
from sanderling.judge.opening import JudgeConfig, check_judges, opened_judges
from sanderling.judge.prompts import DEFAULT_PROMPT, PROMPTS
from sanderling.judge.verdict import Judge, Ruling
from sanderling.policy.budget import BudgetConfig, Spending, read_prices
from sanderling.policy.load import names_model
from sanderling.runs.files import check_places, replace_file
from sanderling.runs.progress import Report
from sanderling.runs.stages import after_interrupt
from sanderling.synth.generate import GenerateConfig
from sanderling.train.row_source import Overlong

app = typer.Typer(no_args_is_help=True, help="Turn raw trajectories into supervision.")

_EXAMPLES, _LONGEST, _CELL = 8, 300, 110


def _option(name: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(name, help=help, metavar=metavar, **more)


File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Trajectories: a store (.jsonl), Parquet, or recorded files or a folder of them.")
]
Out = Annotated[Path, _option("--out", "Where to write: .jsonl or .parquet.")]
Threshold = Annotated[float, _option("--threshold", "Least similarity of a near-duplicate.", min=LEAST_THRESHOLD, max=1.0)]
_SHARES = "train=0.95,validation=0.05"
ReportFile = Annotated[Path | None, _option("--report", "Write everything that was found, with both texts, as JSON.")]
Replies = Annotated[
    int, _option("--concurrency", "Replies of judging models waited for at a time.", min=1, rich_help_panel=JUDGING)
]
JudgePrices = Annotated[
    list[str] | None,
    _option(
        "--judge-price",
        "What a judging model costs per million tokens, as PROMPT,SAMPLED; one for all, or one for each in their order.",
        rich_help_panel=BUDGET,
    ),
]
Cache = Annotated[
    Path | None,
    _option("--cache", "Where models' replies are kept; in the user's cache directory by default.", rich_help_panel=BUDGET),
]


@app.command("import")
def import_(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SOURCE...", help=".json, .jsonl, .parquet, also .gz, or folders of them.")
    ],
    out: Annotated[Path | None, _option("--out", "Trajectories go here: .jsonl or .parquet.", "FILE")] = None,
    questions: Annotated[Path | None, _option("--questions", "Question sets go here: .jsonl.", "FILE")] = None,
    layout: Annotated[str, _option("--layout", "Tried before all others; file.py:name for your own.", "NAME")] = "",
) -> None:
    """Bring recorded trajectories and question sets into the record; layouts are recognised, none is asked for.

    Messages nobody can classify are kept raw and counted. Beside the output stand FILE.import.json (the report) and, for
    entries that could not be read at all, FILE.unread.jsonl. Files appear whole or not at all; a killed import starts over.
    """
    from sanderling.data.importing import import_to

    with Console(stderr=True).status("reading") as status:
        written = import_to(sources, out, questions, lambda number: status.update(f"reading: {number:,} records"), layout)
    found = written.report
    Console().print(found)
    if found.questions and questions is None:
        show(f"{found.questions:,} questions were met and not written: give --questions FILE to keep them.")
    if found.trajectories and out is None:
        show(f"{found.trajectories:,} trajectories were met and not written: give --out FILE to keep them.")
    if written.unread_file is not None:
        show(f"{found.unread:,} entries could not be read; they are in {written.unread_file}.")
    if written.left_files:
        show(f"{len(written.left_files):,} files are no recordings and were left: the report names each.")
    show(f"Report: {written.report_file}")


@app.command("clean")
def clean(
    file: File,
    out: Annotated[Path | None, _option("--out", "Where kept ones go: .jsonl or .parquet.")] = None,
    recipe: Annotated[str, _option("--recipe", "dr-venus, literesearcher, agentcpm, minimal, or TOML.")] = "dr-venus",
    profile: Annotated[str, _option("--profile", "The agent to clean for; the recipe's own by default.")] = "",
    sets: Set = None,
    explained: Annotated[str | None, _option("--explain", "Show one trajectory step by step; write nothing.", "ID")] = None,
    workers: Annotated[int, _option("--workers", "Processes that clean, beside the one that reads.", min=1)] = 1,
    examples: Annotated[bool, _option("--examples", "Print an example of everything that was done.")] = False,
) -> None:
    """Clean trajectories by a recipe; every dropped one is kept beside them with its reason."""
    from sanderling.data.cleaning.explain import explain
    from sanderling.data.show import find_trajectory

    def read(sets: Sequence[str]) -> CleaningRecipe:
        if recipe.endswith(".toml"):
            return read_config(CleaningRecipe, Path(recipe), sets)
        return load_config(CleaningRecipe, to_toml(get_recipe(recipe)), f"the recipe {recipe}", sets)

    chosen = or_help(read, sets)
    target = get_profile(profile or chosen.profile)
    if explained is not None:
        Console().print(explain(find_trajectory(file, id=explained), chosen, target))
        return
    if out is None:
        raise UserError("Name the file that kept trajectories go to with --out, or one trajectory with --explain.")
    with Console(stderr=True).status("cleaning"):
        done = clean_file(open_trajectories(file), out, chosen, target, origin=file, workers=workers)
    report = done.report
    _print_steps(report)
    if examples:
        _print_examples(report)
    left = f", {report.dropped:,} dropped ({done.dropped})" if report.dropped else ", none dropped"
    show(
        f"{report.came_in:,} came in, {report.kept:,} kept ({done.out}; {report.changed:,} changed){left}. "
        f"Report: {done.report_file}"
    )
    if silent := report.reasons.get("no_reasoning", 0):
        Console().print(
            f"{silent:,} were dropped because their turns show no reasoning, which the profile's agents are trained to write: "
            "use a teacher that shows it, or keep them as they are with --recipe minimal.",
            highlight=False,
        )


def _print_steps(report: CleanReport) -> None:
    table = Table("step", "in", "out", "changed", "what was done")
    for column in table.columns[1:4]:
        column.justify = "right"
    for step in report.steps:
        dropped = (f"[red]dropped {count.number:,} {code}[/red]" for code, count in step.dropped.items())
        done = (f"{count.number:,} {code} in {count.trajectories:,}" for code, count in step.notes.items())
        table.add_row(step.step, f"{step.came_in:,}", f"{step.went_out:,}", f"{step.changed:,}", "\n".join((*dropped, *done)))
    Console().print(table)


def _print_examples(report: CleanReport) -> None:
    table = Table("step", "code", "trajectory", "before", "after", show_lines=True)
    for step in report.steps:
        for code, count in (*step.dropped.items(), *step.notes.items()):
            one = count.example
            if one is not None and (one["before"] or one["after"]):
                shown = (one["trajectory"], one["before"][:_CELL], one["after"][:_CELL])
                table.add_row(step.step, code, *(escape(visible(text)) for text in shown))
    Console().print(table)


@app.command("judge")
def judge(
    file: File,
    out: Out,
    judges: Judges = None,
    keep: Annotated[Keep, _option("--keep", "Write all, each with its verdict, or the correct ones.")] = Keep.ALL,
    verdicts: Annotated[
        Path | None,
        _option(
            "--verdicts",
            "A person's verdicts, which outweigh any judge: CSV of id,correct, or headed question,answer,correct.",
            rich_help_panel=JUDGING,
        ),
    ] = None,
    concurrency: Replies = 8,
    price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    form: Annotated[
        str,
        _option("--form", f"How a judging model is asked, and its reply read: {', '.join(PROMPTS)}.", rich_help_panel=JUDGING),
    ] = DEFAULT_PROMPT,
) -> None:
    """Say of every trajectory whether its own answer is right; what cannot be told is unscored, with a reason.

    Killed or stopped, the same command goes on and asks for nothing twice. Exit status: 3 when the budget was spent or a judge
    was not reached.
    """
    from sanderling.judge.book import judge_file
    from sanderling.judge.by_hand import ByHand
    from sanderling.runs.run import beside

    check_places([file, *([verdicts] if verdicts is not None else [])], [out, out.with_name(f"{out.name}.judge.json")])
    by_hand = ByHand.read(verdicts) if verdicts else ByHand()
    config = JudgeConfig(judges=tuple(judges or ()), prompt=form, prices=tuple(price or ()))
    check_judges(config)
    source = open_trajectories(file)
    spending = Spending(beside(out), BudgetConfig(max_tokens=max_tokens, max_cost=max_cost, cache=cache))
    opening = _judge(config, spending, concurrency)
    with after_interrupt(), Console(stderr=True).status("judging") as status, asyncio.Runner() as runner:

        def progress(report: JudgeReport) -> None:
            if report.trajectories % 50 == 1 or report.asked:
                status.update(f"{report.trajectories:,} judged: {_rulings(report)}")

        stack = AsyncExitStack()
        chosen = runner.run(stack.enter_async_context(opening))
        try:
            report = judge_file(
                source, out, chosen, keep=keep, by_hand=by_hand, concurrency=concurrency, on_progress=progress, runner=runner
            )
        finally:
            runner.run(stack.aclose())
    _print_verdicts(report, out)
    if spending.ledger.spent.calls:
        show(str(spending))
    if report.unused_by_hand:
        few = ", ".join(report.unused_by_hand[:3])
        show(f"{len(report.unused_by_hand):,} lines of --verdicts are about no trajectory (such as {few}).")
    if report.open:
        show(f"{report.open:,} are still open: run the same command again (with a larger limit, if that was reached).")
        raise typer.Exit(UNFINISHED)


@asynccontextmanager
async def _judge(config: JudgeConfig, spending: Spending, concurrency: int) -> AsyncIterator[Judge]:
    """The judges as one. Raises UserError where nobody is named."""
    async with opened_judges(config, spending, concurrency=concurrency) as (judge, _):
        if judge is None:
            raise UserError("Nobody judges: name one with --judge.")
        yield judge


def _print_verdicts(report: JudgeReport, out: Path) -> None:
    show(f"{report.trajectories:,} trajectories by {report.judge}: {_rulings(report)}")
    if report.grades:
        show("  grades: " + ", ".join(f"{count:,} {grade}" for grade, count in sorted(report.grades.items())))
    if report.mean_score is not None:
        show(f"  mean score: {report.mean_score:.3f}")
    for code, ids in sorted(report.examples.items()):
        show(f"  {code.value}: {report.codes[code]:,} (such as {', '.join(ids)})")
    show(f"{report.written:,} written to {out}; report: {out}.judge.json")


def _rulings(report: JudgeReport) -> str:
    return ", ".join(f"{report.rulings[ruling]:,} {ruling.value}" for ruling in Ruling)


@app.command("dedupe")
def dedupe(
    file: File,
    out: Out,
    keep: Annotated[int, _option("--keep", "Most trajectories of one question.", min=1)] = 1,
    prefer: Annotated[Prefer, _option("--prefer", "Which of those that are equally right.")] = Prefer.SHORTEST,
    threshold: Threshold = THRESHOLD,
    by_answers: Annotated[bool, _option("--by-answers/--by-text", "Whether other known answers make other questions.")] = True,
    report: ReportFile = None,
) -> None:
    """Keep the best trajectory of each question and of its near-duplicates: judged right, answered, then by length."""
    from sanderling.data.dedupe import dedupe_file

    check_places([file], [place for place in (out, report) if place is not None])
    done = dedupe_file(file, out, threshold=threshold, by_answers=by_answers, keep=keep, prefer=prefer)
    show(
        f"{done.kept + len(done.left_out):,} trajectories of {done.questions:,} questions: {done.kept:,} kept, "
        f"{len(done.left_out):,} left out; at most {done.largest:,} of one question."
    )
    for one in [one for one in done.left_out if one["question"] != one["kept_question"]][:_EXAMPLES]:
        show(f"  {one['id']} asks {one['question'][:_LONGEST]!r}")
        show(f"    as {one['kept']}: {one['kept_question'][:_LONGEST]!r}")
    if report is not None:
        replace_file(report, json.dumps(done.left_out, indent=1) + "\n")


@app.command("contamination")
def contamination(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories or questions, in any layout.")],
    against: Annotated[list[Path], _option("--against", "A benchmark's questions; repeatable.", "FILE")],
    out: Annotated[Path | None, _option("--out", "Write what was not recognised: .jsonl.")] = None,
    report: ReportFile = None,
    read: Annotated[bool, _option("--read", "Look for the benchmarks' questions in what the agents read, too.")] = False,
    threshold: Threshold = THRESHOLD,
) -> None:
    """Find questions that benchmarks ask as well: the same words, nearly, contained, or alike with the same answer."""
    from sanderling.data.contamination import check_file, kinds

    check_places([file, *against], [place for place in (out, report) if place is not None])
    if out is not None and out.suffix != ".jsonl":
        raise UserError(f"{out} is written as JSON lines: end its name in .jsonl.")
    done = check_file(file, against, threshold=threshold, read=read, out=out)
    found = ", ".join(f"{count:,} {kind}" for kind, count in kinds(done.hits).items())
    show(
        f"{done.rows:,} checked against {done.benchmarks:,} questions: {len(done.hits):,} recognised"
        f"{f' ({found})' if found else ''}."
    )
    for hit in done.hits[:_EXAMPLES]:
        alike = f" {hit.similarity:.2f}" if hit.similarity is not None else ""
        answer = {True: ", the same answer", False: ", another answer", None: ""}[hit.same_answer]
        show(f"{hit.kind.value}{alike}{answer}")
        for id, text in ((hit.id, hit.question), (hit.benchmark, hit.benchmark_question)):
            show(f"  {id}: {text[:_LONGEST]}")
    if len(done.hits) > _EXAMPLES:
        show(f"… and {len(done.hits) - _EXAMPLES:,} more: --report FILE writes all of them.")
    if report is not None:
        replace_file(report, json.dumps([asdict(hit) for hit in done.hits], indent=1) + "\n")


@app.command("split")
def split(
    file: File,
    out: Annotated[Path, _option("--out", "Directory of the parts, NAME.jsonl each.")],
    share: Annotated[
        str, _option("--share", f"Names and shares of questions; by default {_SHARES.replace(',', ', ')}.", show_default=False)
    ] = _SHARES,
    seed: Annotated[int, _option("--seed", "Of the hash that decides.")] = 0,
    threshold: Threshold = THRESHOLD,
    by_answers: Annotated[
        bool, _option("--by-answers/--by-text", "Whether near-duplicates with other answers may be apart.")
    ] = False,
) -> None:
    """Share out trajectories so that no question stands in two parts; adding rows later moves no other."""
    from sanderling.data.dedupe import Shares, split_file

    done = split_file(file, out, Shares.read(share), seed=seed, threshold=threshold, by_answers=by_answers)
    rows, asked = sum(part.trajectories for part in done), sum(part.questions for part in done)
    shares = table("part", ">trajectories", ">share", ">questions", ">share")
    for name, count, questions in done:
        shares.add_row(name, f"{count:,}", _percent(count, rows), f"{questions:,}", _percent(questions, asked))
    show(shares)


@app.command("resample")
def resample(
    file: File,
    out: Out,
    thresholds: Annotated[str, _option("--thresholds", "Most turns of each bucket, ascending.")] = "50,100",
    weights: Annotated[str, _option("--weights", "Copies in each bucket, one more than thresholds.")] = "1,2,5",
    seed: Annotated[int, _option("--seed", "Of the order.")] = 0,
) -> None:
    """Repeat trajectories by their turns, shuffled, copies of one not side by side where there are others between."""
    from sanderling.data.resample import Schedule, resample_file

    check_places([file], [out])
    schedule = Schedule(_numbers(thresholds, "--thresholds"), _numbers(weights, "--weights"))
    result = resample_file(file, out, schedule, seed)
    came_in, written = sum(result.before), len(result.rows)
    shares = table("turns", ">copies", ">before", ">share", ">after", ">share")
    for name, weight, before, after in zip(schedule.names(), schedule.weights, result.before, result.after, strict=True):
        shares.add_row(name, str(weight), f"{before:,}", _percent(before, came_in), f"{after:,}", _percent(after, written))
    shares.add_section()
    shares.add_row("all", "", f"{came_in:,}", "", f"{written:,}", "")
    show(shares)
    if result.neighbours:
        show(f"{result.neighbours} copies stand side by side: too few other trajectories to keep them apart.")


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UserError(f"{option} is {text!r}: give whole numbers with commas between them, such as 50,100.") from error


@app.command("rows")
def rows(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cleaned trajectories.")],
    tokenizer: Annotated[Path, _option("--tokenizer", "A directory with tokenizer.json.")],
    profile: Annotated[str, _option("--profile", "How messages become tokens, such as dr-venus-4b.")],
    out: Annotated[Path, _option("--out", "Where to write.", "ROWS.parquet")],
    max_tokens: Annotated[int | None, _option("--max-tokens", "A row's limit; the profile's context.", min=1)] = None,
    overlong: Annotated[Overlong, _option("--overlong", "Beyond it: drop; cut observations; split at turns.")] = Overlong.DROP,
) -> None:
    """Turn trajectories into rows of tokens with their loss mask; what makes no row is counted with its reason."""
    from sanderling.train.row_source import rows_of_file

    counts = rows_of_file(file, out, tokenizer, profile, max_tokens, overlong)
    share = f" ({counts.trained_tokens / counts.tokens:.0%} trained)" if counts.tokens else ""
    show(
        f"{counts.trajectories:,} trajectories: {counts.rows:,} rows of {counts.tokens:,} tokens{share}; "
        f"the longest has {counts.longest:,}."
    )
    if counts.split:
        show(f"  {counts.split:,} too long and split into several rows")
    if counts.turns_left_out:
        show(f"  {counts.turns_left_out:,} turns are in no row")
    left = {reason: count for reason, count in counts.left_out().items() if count}
    for reason, count in left.items():
        show(f"  {count:,} {reason.replace('_', ' ')}, such as {counts.examples[reason]}")
    if left:
        show(f"  which and why: {out}.left-out.jsonl")


@app.command("stats")
def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trajectories; several are shown side by side.")],
    out: Annotated[Path | None, _option("--out", "Write a page with plots.", "PAGE.html")] = None,
    json_out: Annotated[Path | None, _option("--json", "Write the figures for machines.", "FILE")] = None,
    tokenizer: Annotated[Path | None, _option("--tokenizer", "A directory with tokenizer.json: count its tokens.")] = None,
) -> None:
    """Count turns, lengths, tools, endings, scripts and verdicts, in a table and on a page with plots."""
    from sanderling.core.chat import load_tokenizer
    from sanderling.data.stats import data_page, figures_table, portray
    from sanderling.runs.provenance import command_line

    check_places([*files, *([tokenizer] if tokenizer is not None else [])], [place for place in (out, json_out) if place])
    counted, names = tokenizer and load_tokenizer(tokenizer), Counter(file.stem for file in files)
    portraits = []
    for file in files:
        name = file.stem if names[file.stem] == 1 else f"{file.resolve().parent.name}/{file.stem}"
        portraits.append(portray(name, open_trajectories(file), counted))
    Console().print(figures_table(portraits))
    if json_out is not None:
        replace_file(json_out, json.dumps([one.as_json() for one in portraits], indent=1, ensure_ascii=False) + "\n")
    if out is not None:
        replace_file(out, data_page("Trajectories", portraits, command=command_line()))
        show(f"The page is {out}.")


@app.command("run")
def run(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCES...", help="Raw files or folders of them, in any layout.")],
    out: Annotated[Path, _option("--out", "Directory of the run.")],
    recipe: Annotated[str, _option("--recipe", "dr-venus, literesearcher, agentcpm, or a TOML file.")] = "dr-venus",
    tokenizer: Annotated[Path | None, _option("--tokenizer", "A directory with tokenizer.json; else no rows.")] = None,
    sets: Set = None,
    concurrency: Replies = 8,
    price: JudgePrices = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: Cache = None,
    fresh: Annotated[bool, _option("--fresh", "Delete what the directory holds and begin again.")] = False,
) -> None:
    """Import, clean, judge, dedupe, split, resample, make rows, and report; steps that are done are skipped.

    Judges stand in the recipe: --set 'judge.judges=["contains", "http://host:port/v1#model"]' asks a model where a rule fails.
    """
    from sanderling.data.pipeline.config import DataRun, find_data_recipe
    from sanderling.data.pipeline.run import OpenVerdictsError, run_data
    from sanderling.runs.provenance import command_line
    from sanderling.runs.stages import clear_run
    from sanderling.train.row_source import rows_of_file

    config = or_help(lambda others: find_data_recipe(recipe, others), sets)
    if tokenizer is not None:
        config = config.model_copy(update={"tokenizer": tokenizer})
    chosen = DataRun(sources, out, config)
    chosen.check()
    budget = BudgetConfig(max_tokens=max_tokens, max_cost=max_cost, cache=cache)
    read_prices(price or [], sum(map(names_model, config.judge.judges)), max_cost)  # what is wrong is told before the work
    if fresh:
        clear_run(out, sources)

    def opened(specs: Sequence[str], run: Path) -> AbstractAsyncContextManager[Judge]:
        config = JudgeConfig(judges=tuple(specs), prices=tuple(price or ()))
        return _judge(config, Spending(run, budget), concurrency)

    try:
        with after_interrupt():
            how: dict[str, Any] = {"write_rows": rows_of_file, "open_judges": opened, "concurrency": concurrency}
            run_data(chosen, Report(Console()), command_line(), **how)
    except OpenVerdictsError as error:
        show(str(error), error=True)
        raise typer.Exit(UNFINISHED) from None


@app.command("generate")
def generate(
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="A file of questions with their answers (.jsonl).")],
    out: Annotated[Path, _option("--out", "The store of trajectories (.jsonl); the same one goes on.")],
    model: Model = None,
    profile: ProfileName = None,
    world: Worlds = None,
    judges: Judges = None,
    attempts: Annotated[int | None, _option("--attempts", "At each question; 1 by default.", min=1)] = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    progress: ShowProgress = True,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Let a teacher research questions, several times each, and keep every judged trajectory.

    --model teacher:SIZE/SEED is a script that walks what synth chains draws from the encyclopedia of that size and seed.
    Killed, stopped or out of budget, the same command goes on and repeats nothing, unfinished episodes included. Exit status: 3
    when a budget was spent or attempts met outages, 130 after Ctrl-C; a second Ctrl-C interrupts at once.
    """
    given = {"questions": questions, "out": out, "attempts": attempts, "judge.judges": judges or None}
    given |= {"agent.model": model, "agent.profile": profile, "agent.worlds": world or None}
    given |= {"budget.max_tokens": max_tokens, "budget.max_cost": max_cost}
    if unfinished := generated(settings(GenerateConfig, file, sets, given), "generating", progress=progress):
        raise typer.Exit(unfinished)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
