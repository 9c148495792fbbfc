"""``sanderling eval``: agents measured on benchmarks, runs judged again and compared.

Thin: `evaluate` makes attempts and figures. Exit status: 0 for a valid result, 3 when a budget was spent, a judge was not
reached or too much could not be scored, 130 after Ctrl-C. The first Ctrl-C stops the attempts under way and keeps their turns.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from sanderling.cli import UNFINISHED
from sanderling.cli.benchmarks import BenchmarkFile, Judging, Key, Second, Verdicts, agree, check, export, list_, score
from sanderling.cli.options import (
    RUN,
    Concurrency,
    ConfigFile,
    Model,
    ProfileName,
    Seed,
    Set,
    Web,
    Worlds,
    settings,
    show,
)
from sanderling.core.errors import UserError
from sanderling.core.text import visible

if TYPE_CHECKING:
    from sanderling.evaluate.attempts import Made, Watch
    from sanderling.evaluate.guarding import GuardFacts
    from sanderling.evaluate.log import About, RunLog
    from sanderling.evaluate.result import EvalResult
    from sanderling.policy.budget import Spending

app = typer.Typer(no_args_is_help=True, help="Measure agents on public benchmarks, whose files you bring.")

Out = Annotated[Path, typer.Option("--out", help="Directory of the run; the same one goes on.", rich_help_panel=RUN)]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run.")]


@app.command()
def run(
    key: Key,
    file: BenchmarkFile,
    out: Out,
    model: Model = None,
    profile: ProfileName = None,
    concurrency: Concurrency = None,
    world: Worlds = None,
    web: Web = None,
    judges: Judging = None,
    attempts: Annotated[
        int | None, typer.Option("--attempts", min=1, help="At each question; 1 by default.", rich_help_panel=RUN)
    ] = None,
    seed: Seed = None,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show how far it is.", rich_help_panel=RUN)] = True,
    config_file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Let an agent try every question, judge its answers, and print figures with their error bars.

    Killed, stopped or out of budget, the same command goes on and repeats no finished attempt; once finished, it tries those
    again that met outages.
    """
    from sanderling.agent.opening import check_agent
    from sanderling.cli.attempting import live_run, tell_attempts, tell_stopped
    from sanderling.data.questions import named_columns
    from sanderling.evaluate.benchmarks.files import load_benchmark, remarks
    from sanderling.evaluate.benchmarks.rows import Options
    from sanderling.evaluate.benchmarks.table import get_benchmark
    from sanderling.evaluate.log import RunLog
    from sanderling.evaluate.run import EvalConfig, run_benchmark
    from sanderling.policy.budget import Spending
    from sanderling.runs.provenance import command_line

    given = {
        "agent.model": model, "agent.profile": profile, "agent.concurrency": concurrency, "agent.worlds": world,
        "agent.web": web, "agent.seed": seed, "judging.judges": judges, "attempts": attempts,
    }  # fmt: skip
    config, benchmark = settings(EvalConfig, config_file, sets, given), get_benchmark(key)
    options = Options(split=config.split, columns=named_columns(config.columns), canary=config.canary)
    loaded = load_benchmark(benchmark, file, options)
    check_agent(config.agent, loaded.questions)
    show(*map(_warning, remarks(benchmark, loaded)))
    log, spending = RunLog(out), Spending(out, config.budget, private=loaded.private)
    with log.exclusive():
        total = min(config.limit or len(loaded.questions), len(loaded.questions)) * config.attempts

        async def work(watch: "Watch | None", cancel: asyncio.Event) -> "Made":
            heard = {"watch": watch, "cancel": cancel, "command": command_line()}
            return await run_benchmark(benchmark, loaded, config, log, spending, **heard)

        title = loaded.path_name if benchmark.key == "jsonl" else benchmark.title  # which stands for any file
        made = live_run(total, title, spending, work, progress=progress)
        tell_attempts(made, total, out, spending)
        _show_guard(log.require().about.guard, log.guard_file)
        if made.stopped:
            raise typer.Exit(tell_stopped(made))
        result = show_result(log)
        show(f"{log.result_file} has all figures.")
        if result.unscored:
            show("The same command tries the unscored attempts once more, and repeats nothing else.")
    end(result)


@app.command()
def judge(
    run: Run,
    judges: Judging = None,
    second: Second = None,
    verdicts: Verdicts = None,
    price: Annotated[
        str | None, typer.Option("--price", help="What the agent's tokens cost per million, as PROMPT,SAMPLED.")
    ] = None,
    config_file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Judge a run's attempts again, by another judge, another prompt or a person's word; no attempt is repeated.

    Without a judge its figures are made anew by what was said before, with other prices. What a judge has said of the
    same answer before is not asked again. Killed or stopped, the same command goes on.
    """
    from sanderling.core.asking import BudgetSpentError
    from sanderling.evaluate.benchmarks.table import get_benchmark
    from sanderling.evaluate.judging import by_hand_of, unused_by_hand
    from sanderling.evaluate.log import RunLog
    from sanderling.evaluate.run import RejudgeConfig, rejudge
    from sanderling.policy.budget import Spending, read_prices
    from sanderling.runs.provenance import command_line

    config = settings(RejudgeConfig, config_file, sets, {"judging.judges": judges, "judging.second": second})
    log = RunLog(run)
    about = log.require().about
    benchmark = get_benchmark(about.benchmark) if about.benchmark else None  # others' records may come without
    spending = Spending(run, config.budget, private=about.private)
    prices = read_prices([price], 1)[0] if price is not None else None
    with log.exclusive(), Console(stderr=True).status("judging") as status:
        by_hand = by_hand_of(log, verdicts)
        if prices is not None:
            log.price(prices)
        how = {"anew": True, "command": command_line(), "on_judged": lambda count: status.update(f"{count:,} judged")}
        try:
            asyncio.run(rejudge(log, benchmark, config, spending, by_hand, **how))
        except BudgetSpentError as error:
            show(f"{error} What there was before stays as it is; the same command goes on.")
            raise typer.Exit(UNFINISHED) from None
    result = show_result(log)
    if unused := unused_by_hand(log, by_hand):
        show(f"{len(unused):,} lines of --verdicts are about no attempt (such as {', '.join(unused[:3])}).")
    show_where(log, spending)
    end(result)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Directories that eval run has written.")],
    out: Annotated[Path | None, typer.Option("--out", help="A directory for report.html, one file that loads nothing.")] = None,
    baseline: Annotated[str, typer.Option(help="The run that others are compared with, by its name; the first.")] = "",
    readings: Annotated[int, typer.Option(min=0, help="Trajectories of each run that can be read on the page.")] = 12,
    show_texts: Annotated[bool, typer.Option("--show-texts", help="Show texts of private benchmarks too.")] = False,
) -> None:
    """Compare runs: averages with error bars, paired differences, curves over attempts, groups, endings, costs."""
    from sanderling.evaluate.reports.compare import compared, open_runs
    from sanderling.evaluate.reports.page import html
    from sanderling.evaluate.reports.tables import terminal
    from sanderling.runs.files import replace_file

    opened = open_runs(runs, readings if out is not None else 0)
    if baseline and baseline not in {one.name for one in opened}:
        raise UserError(f"None of the runs is called {baseline!r}: there are {', '.join(one.name for one in opened)}.")
    found = compared(opened, baseline)
    console = Console(highlight=False)
    for shown in terminal(found):
        console.print(shown)
    if out is not None:
        private = any(one.private for one in opened)
        replace_file(out / "report.html", html(found, texts=show_texts), private=private)
        console.print(Text(visible(f"{out / 'report.html'} holds all of it.")))


# What is printed ----------------------------------------------------------------------------------------------------------


def _show_guard(facts: "GuardFacts", log: Path) -> None:
    """One line: what was hidden from the agent."""
    from sanderling.evaluate.guarding import guard_counts
    from sanderling.world.guard import GuardKind

    if not facts.on:
        show("Guard: off; leaks of the benchmark may have been read.")
        return
    counts = guard_counts(log)
    kinds = {"by address": GuardKind.ADDRESS, "word for word": GuardKind.VERBATIM, "by canary": GuardKind.CANARY}
    parts = ", ".join(f"{counts.kinds[kind]:,} {how}" for how, kind in kinds.items())
    content = "" if facts.verbatim else " (this benchmark's questions are not looked for in pages)"
    show(
        f"Guard: {sum(counts.kinds[kind] for kind in kinds.values()):,} results and pages hidden ({parts}) from "
        f"{len(counts.hidden_from):,} attempts; {counts.kinds[GuardKind.REPORTED]:,} quote a question in part, and were "
        f"shown{content}."
    )


def show_peers(about: "About", result: "EvalResult") -> None:
    """What others' records are, and what has to be known before their figures are believed."""
    from sanderling.evaluate.peers.records import notes_of

    facts = about.peers
    assert facts is not None, "others' records"
    counted = f"Records: {facts.records:,} ({', '.join(facts.layouts)}), questions: {len(result.questions):,}"
    joined = ", ".join(f"{count:,} {how}" for how, count in facts.joined.items())
    found = f"; joined to the benchmark's questions {joined}" if joined else ""
    show(Text(visible(counted + found + ".")), *map(_warning, notes_of(facts)))


def show_where(log: "RunLog", spending: "Spending") -> None:
    """What judging took, and where everything is."""
    if spending.ledger.spent.calls:
        show(str(spending))
    show(f"{log.result_file} has all figures, {log.database} every verdict.")


def show_result(log: "RunLog") -> "EvalResult":
    """The figures of a run, printed."""
    from sanderling.evaluate.reports.tables import result_shown
    from sanderling.evaluate.result import EvalResult

    result = EvalResult.load(log.result_file)
    show(*result_shown(result))
    return result


def end(result: "EvalResult") -> None:
    """Exit as a command does whose result may be invalid."""
    if not result.valid:
        raise typer.Exit(UNFINISHED)


def _warning(text: str) -> Text:
    return Text(visible(text), style="yellow")


for _name, _command in (("list", list_), ("check", check), ("score", score), ("agree", agree), ("export", export)):
    app.command(_name)(_command)
