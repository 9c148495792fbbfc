"""``sanderling data``: raw trajectories to supervision, step by step or in one run. Thin: the work is done in ``data/``."""

import json
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sanderling.cli import UNFINISHED
from sanderling.cli import options as common
from sanderling.cli.attempting import generated
from sanderling.cli.options import BUDGET, JUDGING, argument, option, or_help, settings, show, table
from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.data.cleaning import DROPPED, REPORT, clean_file, get_recipe
from sanderling.data.contamination import check_file
from sanderling.data.dedupe import Shares, dedupe_file, split_file
from sanderling.data.importing import import_to, open_trajectories
from sanderling.data.pipeline import DataRun, OpenVerdictsError, find_data_recipe, run_data
from sanderling.data.resample import Schedule, resample_file
from sanderling.data.stats import data_page, figures_table, portray
from sanderling.judge.book import ByHand, JudgingConfig, Keep, judge_file
from sanderling.judge.opening import check_judges, judging
from sanderling.judge.prompts import PROMPTS
from sanderling.judge.verdict import Ruling
from sanderling.policy.budget import BudgetConfig, Spending, read_prices
from sanderling.policy.load import names_model
from sanderling.runs.files import check_places, replace_file
from sanderling.runs.progress import Report, command_line
from sanderling.runs.run import beside
from sanderling.runs.stages import after_interrupt, command_in
from sanderling.synth.generate import GenerateConfig
from sanderling.train.row_source import Overlong, rows_of_file

app = typer.Typer(no_args_is_help=True, help="Turn raw trajectories into supervision.")

_EXAMPLES, _LONGEST = 8, 300
_SHARES = "train=0.95,validation=0.05"
_SHARE = f"Names and shares of questions; by default {_SHARES.replace(',', ', ')}."
_ANY = "Trajectories: a store (.jsonl), Parquet, or recorded files or a folder of them."
_BY_HAND = "A person's verdicts, which outweigh any judge: CSV of id,correct, or headed question,answer,correct."
_FORM = f"How a judging model is asked, and its reply read: {', '.join(PROMPTS)}."
_PRICE = "Price of a judging model per million tokens, as PROMPT,SAMPLED; one for all, or one for each in order."

File = Annotated[Path, argument("FILE", _ANY)]
Raw = Annotated[
    list[Path], argument("SOURCE...", ".json, .jsonl, .parquet, also packed (.gz, .bz2, .xz, .zst), or folders of them.")
]
Out = Annotated[Path, option("--out", "Where to write: .jsonl or .parquet.")]
ByAnswers = Annotated[bool, option("--by-answers/--by-text", "Whether other known answers make other questions.")]
ReportFile = Annotated[Path | None, option("--report", "Write everything that was found, with both texts, as JSON.")]
JudgePrices = Annotated[list[str] | None, option("--judge-price", _PRICE, panel=BUDGET)]
Tokenizer = Annotated[Path | None, option("--tokenizer", "A directory with tokenizer.json.")]


@app.command("import")
def import_(
    sources: Raw,
    out: Annotated[Path | None, option("--out", "Trajectories go here: .jsonl or .parquet.", "FILE")] = None,
    questions: Annotated[Path | None, option("--questions", "Question sets go here: .jsonl.", "FILE")] = None,
    layout: Annotated[str, option("--layout", "Tried before all others; file.py:name for your own.", "NAME")] = "",
    messages: Annotated[str, option("--messages", "Where conversations stand, such as msgs or run.msgs.", "FIELD")] = "",
) -> None:
    """Bring recorded trajectories and question sets into the record; layouts are recognised, none is asked for.

    Messages nobody can classify are kept raw and counted. Beside the output stand FILE.import.json (the report) and, for
    entries that could not be read at all, FILE.unread.jsonl. Files appear whole or not at all; a killed import starts over.
    """
    with Console(stderr=True).status("reading") as status:
        how: dict[str, Any] = {"progress": lambda number: status.update(f"reading: {number:,} records")}
        written = import_to(sources, out, questions, **how, layout=layout, messages=messages)
    found = written.report
    Console().print(found)
    if found.questions and questions is None:
        show(f"{found.questions:,} questions were met and not written: give --questions FILE to keep them.")
    if found.trajectories and out is None:
        show(f"{found.trajectories:,} trajectories were met and not written: give --out FILE to keep them.")
    if written.unread_file is not None:
        show(f"{found.unread:,} entries could not be read; they are in {written.unread_file}.")
        show(*([f"Of these, {found.advice}."] if found.advice else []))
    if written.renamed:
        show(f"Renamed, since an earlier trajectory has their id: {written.renamed:,} (to ID~2 and so on).")
    if found.left_files:
        show(f"{len(found.left_files):,} files are no recordings and were left: the report names each.")
    show(f"Report: {written.report_file}")


@app.command("clean")
def clean(
    file: File,
    out: Out,
    recipe: Annotated[str, option("--recipe", "dr-venus, literesearcher, agentcpm, minimal, or TOML.")] = "dr-venus",
    sets: common.Set = None,
) -> None:
    """Clean trajectories by a recipe; every dropped one is kept beside them with its reason."""
    chosen = or_help(partial(get_recipe, recipe), sets)
    target = get_profile(chosen.profile)
    with Console(stderr=True).status("cleaning"):
        report = clean_file(open_trajectories(file), out, chosen, target, origin=file)
    steps = table("step", ">in", ">out", ">changed", "what was done")
    for step in report.steps:
        done = [f"dropped {number:,} {reason}" for reason, number in step.dropped.items()]
        done += [f"{number:,} {code} in {step.noted[code]:,}" for code, number in step.notes.items()]
        steps.add_row(step.step, f"{step.came_in:,}", f"{step.went_out:,}", f"{step.changed:,}", "\n".join(done))
    show(steps)
    left = f"{report.dropped:,} dropped ({out.with_suffix(DROPPED)})" if report.dropped else "none dropped"
    kept = f"{report.came_in:,} came in, {report.kept:,} kept ({out}; {report.changed:,} changed)"
    show(f"{kept}, {left}. Report: {out.with_suffix(REPORT)}")
    if silent := report.reasons.get("no_reasoning", 0):
        show(
            f"{silent:,} were dropped because their turns show no reasoning, which the profile's agents are trained to write: "
            "use a teacher that shows it, or keep them as they are with --recipe minimal."
        )


@app.command("judge")
def judge(
    file: File,
    out: Out,
    judges: common.Judges = None,
    keep: Annotated[Keep | None, option("--keep", "Which are written, each with its verdict; all by default.")] = None,
    verdicts: Annotated[Path | None, option("--verdicts", _BY_HAND, panel=JUDGING)] = None,
    price: JudgePrices = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    form: Annotated[str | None, option("--form", _FORM, panel=JUDGING)] = None,
    config_file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Judge the answer of every trajectory; what cannot be judged is unscored, with a reason.

    If interrupted, run the same command again to resume; nothing is asked twice. Exit status 3: the budget was
    spent or a judge was not reached.
    """
    check_places([file, *([verdicts] if verdicts is not None else [])], [out, out.with_name(f"{out.name}.judge.json")])
    by_hand = ByHand.read(verdicts) if verdicts else ByHand()
    given = {"judge.judges": judges or None, "judge.prompt": form, "judge.prices": price or None, "keep": keep}
    given |= {"budget.max_tokens": max_tokens, "budget.max_cost": max_cost}
    config = settings(JudgingConfig, config_file, sets, given)
    check_judges(config.judge)
    source, spending = open_trajectories(file), Spending(beside(out), config.budget)
    how: dict[str, Any] = {"keep": config.keep, "by_hand": by_hand, "concurrency": config.concurrency}
    opening = judging(config.judge, spending, config.concurrency)
    with after_interrupt(), Console(stderr=True).status("judging") as status, opening as (chosen, runner):
        how["on_progress"] = lambda report: status.update(f"{report.trajectories:,} judged")
        report = judge_file(source, out, chosen, **how, runner=runner)
    rulings = ", ".join(f"{report.rulings[ruling]:,} {ruling.value}" for ruling in Ruling)
    show(f"{report.trajectories:,} trajectories by {report.judge}: {rulings}")
    for code, ids in sorted(report.examples.items()):
        show(f"  {code.value}: {report.codes[code]:,} (such as {', '.join(ids)})")
    show(f"{report.written:,} written to {out}; report: {out.name}.judge.json")
    if spending.ledger.spent.calls:
        show(str(spending))
    if report.unused_by_hand:
        few = ", ".join(report.unused_by_hand[:3])
        show(f"{len(report.unused_by_hand):,} lines of --verdicts are about no trajectory (such as {few}).")
    if report.open:
        show(f"{report.open:,} are still open: run the same command again (with a larger limit, if that was reached).")
        raise typer.Exit(UNFINISHED)


@app.command("dedupe")
def dedupe(
    file: File,
    out: Out,
    keep: Annotated[int, option("--keep", "Most trajectories of one question.", min=1)] = 1,
    by_answers: ByAnswers = True,
    report: ReportFile = None,
) -> None:
    """Keep the best trajectory of each question and of its near-duplicates: judged right, answered, then the shortest."""
    check_places([file], [place for place in (out, report) if place is not None])
    done = dedupe_file(file, out, by_answers=by_answers, keep=keep)
    left = len(done.left_out)
    kept = f"{done.kept + left:,} trajectories of {done.questions:,} questions: {done.kept:,} kept, {left:,} left out"
    show(f"{kept}; at most {done.largest:,} of one question.")
    for one in [one for one in done.left_out if one["question"] != one["kept_question"]][:_EXAMPLES]:
        show(f"  {one['id']} asks {one['question'][:_LONGEST]!r}", f"    as {one['kept']}: {one['kept_question'][:_LONGEST]!r}")
    if report is not None:
        replace_file(report, json.dumps(done.left_out, indent=1) + "\n")


@app.command("contamination")
def contamination(
    file: Annotated[Path, argument("FILE", "Trajectories or questions, in any layout.")],
    against: Annotated[list[Path], option("--against", "A benchmark's questions; repeatable.", "FILE")],
    out: Annotated[Path | None, option("--out", "Write what was not recognised: .jsonl.")] = None,
    report: ReportFile = None,
) -> None:
    """Find questions that benchmarks ask as well: the same words, nearly the same, or contained."""
    check_places([file, *against], [place for place in (out, report) if place is not None])
    if out is not None and out.suffix != ".jsonl":
        raise UserError(f"{out} is written as JSON lines: end its name in .jsonl.")
    done = check_file(file, against, out=out)
    recognised = f"{len(done.hits):,} recognised{f' ({done.kinds()})' if done.hits else ''}"
    show(f"{done.rows:,} checked against {done.benchmarks:,} questions: {recognised}.")
    for hit in done.hits[:_EXAMPLES]:
        alike = f" {hit.similarity:.2f}" if hit.similarity is not None else ""
        answer = {True: ", the same answer", False: ", another answer", None: ""}[hit.same_answer]
        texts = ((hit.id, hit.question), (hit.benchmark, hit.benchmark_question))
        show(f"{hit.kind.value}{alike}{answer}", *(f"  {id}: {text[:_LONGEST]}" for id, text in texts))
    if len(done.hits) > _EXAMPLES:
        show(f"… and {len(done.hits) - _EXAMPLES:,} more: --report FILE writes all of them.")
    if report is not None:
        replace_file(report, json.dumps([asdict(hit) for hit in done.hits], indent=1) + "\n")


@app.command("split")
def split(
    file: File,
    out: Annotated[Path, option("--out", "Directory of the parts, NAME.jsonl each.")],
    share: Annotated[str, option("--share", _SHARE, show_default=False)] = _SHARES,
    seed: Annotated[int, option("--seed", "Of the hash that decides.")] = 0,
    by_answers: ByAnswers = False,
) -> None:
    """Share out trajectories so that no question stands in two parts; adding rows later moves no other."""
    done = split_file(file, out, Shares.read(share), seed=seed, by_answers=by_answers)
    rows, asked = sum(part.trajectories for part in done), sum(part.questions for part in done)
    shares = table("part", ">trajectories", ">share", ">questions", ">share")
    for name, count, questions in done:
        shares.add_row(name, f"{count:,}", _percent(count, rows), f"{questions:,}", _percent(questions, asked))
    show(shares)


@app.command("resample")
def resample(
    file: File,
    out: Out,
    thresholds: Annotated[str, option("--thresholds", "Most turns of each bucket, ascending.")] = "50,100",
    weights: Annotated[str, option("--weights", "Copies in each bucket, one more than thresholds.")] = "1,2,5",
    shuffle: Annotated[bool, option("--shuffle/--no-shuffle", "By ids and seed, or copies in a row.")] = True,
    seed: Annotated[int, option("--seed", "Of the order.")] = 0,
) -> None:
    """Repeat trajectories by their turns."""
    check_places([file], [out])
    schedule = Schedule(_numbers(thresholds, "--thresholds"), _numbers(weights, "--weights"))
    result = resample_file(file, out, schedule, seed, shuffle=shuffle)
    came_in, written = sum(result.before), len(result.rows)
    shares = table("turns", ">copies", ">before", ">share", ">after", ">share")
    for name, weight, before, after in zip(schedule.names(), schedule.weights, result.before, result.after, strict=True):
        shares.add_row(name, str(weight), f"{before:,}", _percent(before, came_in), f"{after:,}", _percent(after, written))
    shares.add_section()
    shares.add_row("all", "", f"{came_in:,}", "", f"{written:,}", "")
    show(shares)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UserError(f"{option} is {text!r}: give whole numbers with commas between them, such as 50,100.") from error


@app.command("rows")
def rows(
    file: File,
    tokenizer: Annotated[Path, option("--tokenizer", "A directory with tokenizer.json.")],
    profile: Annotated[str, option("--profile", "How messages become tokens, such as dr-venus-4b.")],
    out: Annotated[Path, option("--out", "Where to write.", "ROWS.parquet")],
    max_tokens: Annotated[int | None, option("--max-tokens", "A row's limit; the profile's context.", min=1)] = None,
    overlong: Annotated[Overlong, option("--overlong", "Beyond it: drop, or split at turns.")] = Overlong.DROP,
    newline: Annotated[bool, option("--train-newline", "Train the newline after a turn's <|im_end|>, too.")] = False,
) -> None:
    """Turn trajectories into rows of tokens with their loss mask; what makes no row is counted with its reason."""
    counts = rows_of_file(file, out, tokenizer, profile, max_tokens, overlong, newline)
    share = f" ({counts.trained_tokens / counts.tokens:.0%} trained)" if counts.tokens else ""
    made = f"{counts.rows:,} rows of {counts.tokens:,} tokens{share}; the longest has {counts.longest:,}"
    show(f"{counts.trajectories:,} trajectories: {made}.")
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
    files: Annotated[list[Path], argument("FILE...", "Trajectories; several are shown side by side.")],
    out: Annotated[Path | None, option("--out", "Write the same as a page.", "PAGE.html")] = None,
    json_out: Annotated[Path | None, option("--json", "Write the figures for machines.", "FILE")] = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Count turns, lengths, tools, endings and verdicts, in a table and on a page."""
    check_places([*files, *([tokenizer] if tokenizer is not None else [])], [place for place in (out, json_out) if place])
    counted, stems = tokenizer and load_tokenizer(tokenizer), Counter(file.stem for file in files)
    names = [one.stem if stems[one.stem] == 1 else f"{one.resolve().parent.name}/{one.stem}" for one in files]
    portraits = [portray(name, open_trajectories(one), counted) for name, one in zip(names, files, strict=True)]
    show(figures_table(portraits))
    if json_out is not None:
        replace_file(json_out, json.dumps(portraits, indent=1, ensure_ascii=False) + "\n")
    if out is not None:
        replace_file(out, data_page("Trajectories", portraits, command=command_line()))
        show(f"The page is {out}.")


@app.command("run")
def run(
    sources: Raw,
    out: Annotated[Path, option("--out", "Directory of the run.")],
    recipe: Annotated[str, option("--recipe", "dr-venus, literesearcher, agentcpm, or a TOML file.")] = "dr-venus",
    tokenizer: Tokenizer = None,
    sets: common.Set = None,
    price: JudgePrices = None,
    concurrency: common.Concurrency = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    fresh: common.Fresh = False,
) -> None:
    """Import, clean, judge, dedupe, split, resample, make rows, and report; finished steps are skipped.

    Judges stand in the recipe: --set 'judge.judges=["exact", "http://host:port/v1#model"]' asks a model where a rule fails.
    """
    own = [] if tokenizer is None else [f"tokenizer={tokenizer}"]
    config = or_help(lambda others: find_data_recipe(recipe, [*others, *own]), sets)
    chosen = DataRun(sources, out, config)
    chosen.check()
    budget = BudgetConfig(max_tokens=max_tokens, max_cost=max_cost)
    read_prices(price or [], sum(map(names_model, config.judge.judges)), max_cost)  # what is wrong is told before the work
    try:
        with command_in(out, fresh=fresh, reads=sources):
            how: dict[str, Any] = {"prices": price or (), "budget": budget, "concurrency": concurrency or 8}
            run_data(chosen, Report(Console()), command_line(), write_rows=rows_of_file, **how)
    except OpenVerdictsError as error:
        show(str(error), error=True)
        raise typer.Exit(UNFINISHED) from None


@app.command("generate")
def generate(
    questions: Annotated[Path, argument("QUESTIONS", "A file of questions with their answers (.jsonl).")],
    out: Annotated[Path, option("--out", "The store of trajectories (.jsonl); name it again to resume.")],
    model: common.Model = None,
    profile: common.ProfileName = None,
    device: common.Device = None,
    dtype: common.Dtype = None,
    world: common.Worlds = None,
    judges: common.Judges = None,
    attempts: common.Attempts = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    progress: common.Progress = True,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Let a teacher research questions, several times each, and keep every judged trajectory.

    --model teacher:SIZE/SEED is a script that answers what synth chains or elimination draws from that encyclopedia.
    If interrupted or out of budget, run the same command again to resume, unfinished episodes included. Exit status: 3
    when a budget was spent or attempts met outages, 130 after Ctrl-C; a second Ctrl-C interrupts at once.
    """
    given = {"questions": questions, "out": out, "attempts": attempts, "judge.judges": judges or None}
    given |= {"agent.model": model, "agent.profile": profile, "agent.device": device, "agent.dtype": dtype}
    given |= {"agent.worlds": world or None}
    given |= {"budget.max_tokens": max_tokens, "budget.max_cost": max_cost}
    if unfinished := generated(settings(GenerateConfig, file, sets, given), "generating", progress=progress):
        raise typer.Exit(unfinished)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
