"""``sanderling eval``: agents measured on benchmarks, runs judged again and compared.

Thin: `evaluate` makes attempts and figures. Exit status: 0 for a valid result, 3 when a budget was spent, a judge was not
reached or too much could not be scored, 130 after Ctrl-C. The first Ctrl-C stops the attempts under way and keeps their turns.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.cli import UNFINISHED
from sanderling.cli import options as common
from sanderling.cli.attempting import live_run, tell_attempts, tell_stopped
from sanderling.cli.options import JUDGING, RUN, argument, option, settings, show, table
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.core.types import BudgetSpentError
from sanderling.data.questions import check_questions, named_columns, write_questions
from sanderling.evaluate.benchmark_files import check_lines, find_files, load_benchmark, remarks, split_of
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import BENCHMARKS, facts, get_benchmark
from sanderling.evaluate.figures import Comparison, comparisons
from sanderling.evaluate.judging import by_hand_of, unused_by_hand, write_to_settle
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.peers import ScoreConfig, notes_of, score_peers
from sanderling.evaluate.reports.compare import compared, open_runs, result_shown, terminal
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import EvalConfig, RejudgeConfig, check_run, chosen_of, rejudge, run_benchmark
from sanderling.policy.budget import Spending, read_prices
from sanderling.report.numbers import MISSING, percent
from sanderling.runs.files import check_places, replace_file
from sanderling.runs.jsonl import write_trajectories
from sanderling.runs.progress import command_line
from sanderling.tools.python.sandbox import Rung
from sanderling.world.guard import GuardKind

app = typer.Typer(no_args_is_help=True, help="Measure agents on public benchmarks, whose files you bring.")

_SHOWN, _READINGS = 10, 4
"""Differing attempts that are printed; right, wrong and unscored ones of each run that can be read on a report's page."""
_PAGE = "A directory for report.html, one file that loads nothing."
_JUDGES = (
    "A rule, http://host:port/v1#model or file.py:name; repeatable, tried in order; default: the benchmark's, or the last used."
)
_TAKEN = "The benchmark's file, whose accepted answers count; without it the records' own."
_ROLES = "Columns of unusual names, as question=Prompt,answer=Gold; also id, level, topic."
_PRIVATE = "Show private questions too, of which only the length is shown otherwise."
_LIMIT = "More unscored attempts make the run invalid; 0.02 by default."
_TEXTS = "Put texts into it, or leave them out. By default they are in it unless they are not to be published."
_THEIRS = "Trajectories that data import reads, or AgentToLeaP's folders."
_REASONS = "Print judges' reasons of a benchmark that is not to be published, too."

Key = Annotated[str, argument("KEY", "Which benchmark (sanderling eval list), or file.py:name.")]
BenchmarkFile = Annotated[Path, argument("FILE", "Its file, or the folder as it was downloaded.")]
Run = Annotated[Path, argument("RUN", "Directory of a run.")]
Canary = Annotated[str, option("--canary", "Decrypts a file that does not hold its own canary.")]
Judging = Annotated[list[str] | None, option("--judge", _JUDGES, "JUDGE", JUDGING)]
Second = Annotated[list[str] | None, option("--second-judge", "Compared with the judge; decides nothing.", "JUDGE", JUDGING)]
Verdicts = Annotated[Path | None, option("--verdicts", "A person's verdicts (CSV), before every judge's.", "FILE", JUDGING)]
Out = Annotated[Path, option("--out", "Directory of the run; name it again to resume.", panel=RUN)]


@app.command("list")
def list_(key: Annotated[str, argument("[KEY]", "Show everything known about this one.")] = "") -> None:
    """List the benchmarks: size, judge, licence; of one also where to get it, and what is not known."""
    if key:
        grid = Table(box=None, show_header=False, pad_edge=False)
        for name, value in facts(get_benchmark(key)).items():
            if value not in ("", [], {}):
                grid.add_row(name.replace("_", " "), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        show(grid)
        return
    found = table("key", ">questions", "judge", "hidden", "licence")
    for one in BENCHMARKS.values():
        size = f"{one.splits[0].questions:,}" if one.splits and one.splits[0].questions else MISSING
        judge = f"rule {one.own_rule}" if one.own_rule else f"model: {one.form}"
        hidden = "encrypted" if one.cipher else "gated" if one.gated else MISSING
        found.add_row(one.key, size, judge, hidden, one.licence.partition(";")[0])
    show(found, "Nothing is downloaded: eval list KEY says where to get the file, eval check KEY FILE reads it.")


@app.command("check")
def check(
    key: Key,
    file: BenchmarkFile,
    split: Annotated[str, option("--split", "The part that the file is, where its name does not say it.", "NAME")] = "",
    columns: Annotated[str, option("--columns", _ROLES, "ROLES")] = "",
    canary: Canary = "",
    show_private: Annotated[bool, option("--show", _PRIVATE)] = False,
    out: Annotated[Path | None, option("--out", "Write the questions (JSON lines), private ones for you only.", "FILE")] = None,
) -> None:
    """Read a benchmark's file, decrypted where it is encrypted, and count; nothing is written but to --out."""
    benchmark = get_benchmark(key)
    check_places([file], [out] if out else [])
    check_questions(*([out] if out else []))
    options = Options(split=split, columns=named_columns(columns), canary=canary)
    loaded = load_benchmark(benchmark, file, options)
    show(*check_lines(benchmark, loaded, texts=show_private or not loaded.private))
    if out is not None:
        count = write_questions(out, loaded.questions, private=loaded.private)
        show(f"{count:,} questions are in {out}{', for you only' if loaded.private else ''}.")


@app.command()
def run(
    key: Key,
    file: BenchmarkFile,
    out: Out,
    model: common.Model = None,
    profile: common.ProfileName = None,
    device: common.Device = None,
    dtype: common.Dtype = None,
    concurrency: common.Concurrency = None,
    world: common.Worlds = None,
    web: common.Web = None,
    judges: Judging = None,
    attempts: common.Attempts = None,
    seed: common.Seed = None,
    progress: common.Progress = True,
    config_file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Let an agent try every question, judge its answers, and print figures with their error bars.

    What eval check takes as --columns, --split and --canary is a setting here: --set columns=question=Prompt,answer=Gold.
    If interrupted or out of budget, run the same command again to resume; once finished, it tries those
    again that met outages.
    """
    given = {
        "agent.model": model, "agent.profile": profile, "agent.device": device, "agent.dtype": dtype,
        "agent.concurrency": concurrency, "agent.worlds": world, "agent.web": web, "agent.seed": seed,
        "judging.judges": judges, "attempts": attempts,
    }  # fmt: skip
    config, benchmark = settings(EvalConfig, config_file, sets, given), get_benchmark(key)
    if config.agent.files is None and (config.agent.read_file or config.agent.python is not Rung.OFF):
        folder = find_files(file, split_of(benchmark, file, config.split).files)[0].parent  # where attached files lie, too
        config = config.model_copy(update={"agent": config.agent.model_copy(update={"files": folder})})
    options = Options(config.split, named_columns(config.columns), config.canary, config.agent.files)
    loaded = load_benchmark(benchmark, file, options)
    check_run(config, benchmark, loaded.questions)
    show(*map(_warning, remarks(benchmark, loaded)))
    log, spending = RunLog(out), Spending(out, config.budget, private=loaded.private)
    with log.exclusive():
        total = len(chosen_of(loaded.questions, config)[0]) * config.attempts
        work = partial(run_benchmark, benchmark, loaded, config, log, spending, command=command_line())
        title = loaded.path_name if benchmark.key == "jsonl" else benchmark.title  # which stands for any file
        made = live_run(total, title, spending, work, progress=progress)
        tell_attempts(made, total, out, spending)
        _show_guard(log)
        if made.stopped:
            raise typer.Exit(tell_stopped(made))
        result = EvalResult.load(log.result_file)
        show(*result_shown(result), f"{log.result_file} has all figures.")
        if result.unscored:
            show("The same command tries the unscored attempts once more, and repeats nothing else.")
    if not result.valid:
        raise typer.Exit(UNFINISHED)


@app.command()
def judge(
    run: Run,
    judges: Judging = None,
    second: Second = None,
    verdicts: Verdicts = None,
    price: Annotated[str | None, option("--price", "What the agent's tokens cost per million: PROMPT,SAMPLED.")] = None,
    config_file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Judge a run's attempts again, by another judge, another prompt or a person's word; no attempt is repeated.

    Without a judge its figures are made anew by what was said before, with other prices. What a judge has said of the
    same answer before is not asked again. If interrupted, run the same command again to resume.
    """
    config = settings(RejudgeConfig, config_file, sets, {"judging.judges": judges, "judging.second": second})
    log = RunLog(run)
    about = log.require().about
    benchmark = get_benchmark(about.benchmark) if about.benchmark else None  # others' records may come without
    spending = Spending(run, config.budget, private=about.private)
    prices = read_prices([price], 1)[0] if price is not None else None
    how: dict[str, Any] = {"anew": True, "command": command_line()}
    with log.exclusive():
        by_hand = by_hand_of(log, verdicts)
        if prices is not None:
            log.put(log.require().model_copy(update={"prices": prices}))
        _judged(lambda on_judged: rejudge(log, benchmark, config, spending, by_hand, **how, on_judged=on_judged))
    show(*result_shown(EvalResult.load(log.result_file)))
    if unused := unused_by_hand(log, by_hand):
        show(f"{len(unused):,} lines of --verdicts are about no attempt (such as {', '.join(unused[:3])}).")
    _ended(log, spending)


@app.command("score")
def score(
    files: Annotated[list[Path], argument("FILE...", _THEIRS)],
    out: Annotated[Path, option("--out", "Directory of the run that is written; name it again to resume.")],
    questions: Annotated[Path | None, option("--questions", _TAKEN)] = None,
    benchmark: Annotated[str | None, option("--benchmark", "Whose file it is; sanderling eval list has them.", "KEY")] = None,
    canary: Canary = "",
    judges: Judging = None,
    second: Second = None,
    verdicts: Verdicts = None,
    unscored_limit: Annotated[float | None, option("--unscored-limit", _LIMIT)] = None,
    config_file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Judge and measure trajectories that others have made: a run's directory, for eval report, judge, agree and export.

    Exit status: 0 for a valid result, 3 when a judge was not reached, its budget was spent, or too much could not be scored.
    If interrupted, run the same command again to resume.
    """
    given = {"benchmark": benchmark, "unscored_limit": unscored_limit, "judging.judges": judges, "judging.second": second}
    config, log = settings(ScoreConfig, config_file, sets, given), RunLog(out)
    check_places([*files, *([questions] if questions else [])], [log.database])
    spending = Spending(log.root, config.budget, locked=True)
    about: dict[str, Any] = {"questions": questions, "canary": canary, "verdicts": verdicts, "command": command_line()}
    with log.exclusive():
        _judged(lambda on_judged: score_peers(files, log, config, spending, **about, on_judged=on_judged))
    facts, result = log.require().about.peers, EvalResult.load(log.result_file)
    assert facts is not None, "others' records"
    counted = f"Records: {facts.records:,} ({', '.join(facts.layouts)}), questions: {len(result.questions):,}"
    joined = ", ".join(f"{count:,} {how}" for how, count in facts.joined.items())
    found = f"; joined to the benchmark's questions {joined}" if joined else ""
    show(f"{counted}{found}.", *map(_warning, notes_of(facts)), *result_shown(result))
    _ended(log, spending)


@app.command("agree")
def agree(
    run: Run,
    show_texts: Annotated[bool, option("--show-texts", _REASONS)] = False,
    csv: Annotated[Path | None, option("--csv", "Write what they differ on, to be settled for --verdicts.", "FILE")] = None,
) -> None:
    """Compare a run's judge with its second judge, and with a person: agreement, kappa, and each attempt they differ on.

    Cohen's kappa is 1 for judges that always agree and 0 for such as agree no more than their habits would by chance.
    """
    log = RunLog(run)
    private, result = log.require().about.private, EvalResult.load(log.result_file)
    found = comparisons(log.verdicts(), result.judge, result.second_judge)
    if not found:
        raise UserError(f"{run} has one judge alone: run sanderling eval judge {run} with --second-judge, or with --verdicts.")
    for comparison in found:
        _show_comparison(comparison, reasons=show_texts or not private)
    if csv is not None:
        if csv.exists():
            raise UserError(f"{csv} exists, and may hold verdicts: choose another file.")
        differing = {one.key: one for comparison in found for one in comparison.differing}
        count = write_to_settle(csv, differing.values(), log.episodes())
        show(f"{count:,} answers to settle in {csv}: fill in the column correct with yes or no.")


@app.command()
def report(
    runs: Annotated[list[Path], argument("RUN...", "Directories that eval run has written.")],
    out: Annotated[Path | None, option("--out", _PAGE)] = None,
    baseline: Annotated[str, option("--baseline", "The run that others are compared with, by its name; the first.")] = "",
    show_texts: Annotated[bool, option("--show-texts", "Show texts of private benchmarks too.")] = False,
) -> None:
    """Compare runs: averages with error bars, paired differences, curves over attempts, groups, endings, costs."""
    from sanderling.evaluate.reports.pages import html  # which loads what draws charts

    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: name a folder for the report.")
    opened = open_runs(runs, _READINGS if out is not None else 0)
    if baseline and baseline not in {one.name for one in opened}:
        raise UserError(f"None of the runs is called {baseline!r}: there are {', '.join(one.name for one in opened)}.")
    found = compared(opened, baseline)
    show(*terminal(found))
    if out is not None:
        private = any(one.private for one in opened)
        replace_file(out / "report.html", html(found, texts=show_texts), private=private)
        show(f"{out / 'report.html'} holds all of it.")


@app.command("export")
def export(
    run: Run,
    out: Annotated[Path, option("--out", "A log of Inspect (FILE.eval), or whole trajectories (FILE.jsonl, .parquet).")],
    texts: Annotated[bool | None, option("--show-texts/--no-texts", _TEXTS)] = None,
) -> None:
    """Write a run as trajectories, or a finished one as a log of Inspect (https://inspect.aisi.org.uk) for its viewer."""
    log = RunLog(run)
    private = log.require().about.private
    check_places([run], [out])
    if out.suffix in (".jsonl", ".parquet"):
        if texts is False or (private and not texts):
            raise UserError(f"{out.name} would hold questions and answers: say --show-texts, or write a log of Inspect.")
        show(f"{out}: {write_trajectories(out, log.records()):,} attempts.")
        return
    from sanderling.evaluate.inspect_log import export_run  # an extra

    texts = not private if texts is None else texts
    count = export_run(run, out, texts=texts)
    show(f"{out}: {count:,} attempts. To read it: inspect view --log-dir {out.parent}")
    if not texts:
        show("Questions, answers and messages are left out; --show-texts puts them in.")


def _show_comparison(comparison: Comparison, *, reasons: bool) -> None:
    """How often they agree, who is the milder, and the first few attempts that they differ on."""
    found = comparison.figures
    first, second = found.first, found.second
    scored = found.both + found.neither + found.first_only + found.second_only
    kappa = MISSING if found.kappa is None else f"{found.kappa:.2f}"
    show(f"{first} against {second}: {scored:,} attempts at {found.questions:,} questions.")
    show(f"  agree on {percent(found.agreed)}; kappa {kappa}")
    show(
        f"  both right {found.both:,}, both wrong {found.neither:,}, right for the first alone {found.first_only:,}, for "
        f"the second alone {found.second_only:,}; no verdict by the first {found.first_unscored:,}, by the second alone "
        f"{found.second_unscored:,}"
    )
    for one in comparison.differing[:_SHOWN]:
        verdict = "right" if one.by_judge else "wrong"
        other = f" | {one.second_reason}" if one.second_reason else ""
        why = f" {one.before.get('reason') or one.reason}{other}" if reasons else ""
        show(f"  {one.id}: {verdict} for the first.{why}")
    if len(comparison.differing) > _SHOWN:
        show(f"  and {len(comparison.differing) - _SHOWN:,} more; --csv FILE has them all.")


def _show_guard(log: RunLog) -> None:
    """One line: what was hidden from the agent."""
    facts = log.require().about.guard
    if not facts.on:
        show("Guard: off; leaks of the benchmark may have been read.")
        return
    counts = log.guard_counts()
    kinds = {"by address": GuardKind.ADDRESS, "word for word": GuardKind.VERBATIM, "by canary": GuardKind.CANARY}
    parts = ", ".join(f"{counts.kinds[kind]:,} {how}" for how, kind in kinds.items())
    hidden = f"{sum(counts.kinds[kind] for kind in kinds.values()):,} results and pages hidden ({parts})"
    quoting = f"{counts.kinds[GuardKind.REPORTED]:,} quote a question in part, and were shown"
    content = "" if facts.verbatim else " (this benchmark's questions are not looked for in pages)"
    show(f"Guard: {hidden} from {counts.attempts:,} attempts; {quoting}{content}.")


def _judged(work: Callable[[Callable[[int], None]], Coroutine[Any, Any, object]]) -> None:
    """Judge under a line that says how far it is; exit status 3 where the budget is spent."""
    with Console(stderr=True).status("judging") as status:
        try:
            asyncio.run(work(lambda count: status.update(f"{count:,} judged")))
        except BudgetSpentError as error:
            show(f"{error} What there was before stays as it is; run the same command again to resume.")
            raise typer.Exit(UNFINISHED) from None


def _ended(log: RunLog, spending: Spending) -> None:
    """What judging took and where everything is; exit status 3 where the result is invalid."""
    if spending.ledger.spent.calls:
        show(str(spending))
    show(f"{log.result_file} has all figures, {log.database} every verdict.")
    if not EvalResult.load(log.result_file).valid:
        raise typer.Exit(UNFINISHED)


def _warning(text: str) -> Text:
    return Text(visible(text), style="yellow")
