"""The result of a run in the terminal, and how the command ends. Thin; computes no figure."""

from collections.abc import Sequence
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.cli import exits
from sanderling.cli.eval_said import said_lines
from sanderling.core.text import visible
from sanderling.evaluate.attempts import Made
from sanderling.evaluate.benchmarks.files import Loaded, left_out, warnings
from sanderling.evaluate.benchmarks.table import Benchmark
from sanderling.evaluate.comparing.tables import tries
from sanderling.evaluate.guarding import GuardFacts, guard_counts
from sanderling.evaluate.judging import why_unscored
from sanderling.evaluate.log import About
from sanderling.evaluate.peers.records import notes_of
from sanderling.evaluate.recorded_calls import share_told
from sanderling.evaluate.result import Estimate, EvalResult
from sanderling.evaluate.run import Evaluation
from sanderling.report.numbers import MISSING, duration, mean, percent, span
from sanderling.world.guard import GuardKind


def show_result(console: Console, measure: Evaluation, made: Made) -> None:
    """Print the figures, say how to go on where attempts are missing, and exit as the command says."""
    if made.stopped:
        console.print(f"{made.stopped} The same command goes on where this one stopped.", markup=False)
        raise typer.Exit(exits.INTERRUPTED if made.cancelled else exits.UNFINISHED)
    result = EvalResult.load(measure.log.result_file)
    print_result(console, result)
    console.print(visible(f"{measure.log.result_file} has all figures."), markup=False)
    if result.unscored:
        if why := why_unscored(measure.log):
            console.print(Text(visible(f"Unscored, most often: {why}")))
        console.print("The same command tries the unscored attempts once more, and repeats nothing else.")
    end_as_valid(result)


def show_unused(console: Console, unused: Sequence[str]) -> None:
    """Lines of a person's verdicts that are about nothing here: most likely they are mistyped."""
    if unused:
        told = visible(", ".join(unused[:3]))
        console.print(f"{len(unused):,} lines of --verdicts are about no attempt (such as {told}).", markup=False)


def end_as_valid(result: EvalResult) -> None:
    """Exit as a command does whose result may be invalid."""
    if not result.valid:
        raise typer.Exit(exits.UNFINISHED)


def show_file(console: Console, benchmark: Benchmark, loaded: Loaded) -> None:
    """What was left out of the file, and what to look at before a run is paid for."""
    for line in left_out(loaded):
        console.print(visible(line), markup=False)
    for line in warnings(benchmark, loaded):
        console.print(Text(visible(f"Note: {line}"), style="yellow"))


def show_guard(console: Console, facts: GuardFacts, log: Path) -> None:
    """One line: what was hidden from the agent."""
    if not facts.on:
        console.print("Guard: off; leaks of the benchmark may have been read.")
        return
    counts = guard_counts(log)
    kinds = {"by address": GuardKind.ADDRESS, "word for word": GuardKind.VERBATIM, "by canary": GuardKind.CANARY}
    parts = ", ".join(f"{counts.kinds[kind]:,} {how}" for how, kind in kinds.items())
    content = "" if facts.verbatim else " (this benchmark's questions are not looked for in pages)"
    console.print(
        f"Guard: {counts.hidden:,} results and pages hidden ({parts}) from {counts.attempts:,} attempts; "
        f"{counts.kinds[GuardKind.REPORTED]:,} quote a question in part, and were shown{content}.",
        markup=False,
    )


def show_peers(console: Console, about: About, result: EvalResult) -> None:
    """What others' records are, and what has to be known before their figures are believed."""
    facts = about.peers
    if facts is None:
        return
    counted = f"Records: {facts.records:,} ({', '.join(facts.layouts)}), questions: {len(result.questions):,}"
    joined = ", ".join(f"{count:,} {how}" for how, count in facts.joined.items())
    found = f"; joined to the benchmark's questions {joined}" if joined else ""
    left = f"; {facts.copies:,} copies and {facts.parts:,} parts of contexts left out" if facts.copies or facts.parts else ""
    console.print(Text(visible(counted + found + left + ".")))
    for note in notes_of(facts, result):
        console.print(Text(visible(note), style="yellow"))
    if facts.published:
        console.print(Text(f"{facts.published:,} attempts have a published verdict: sanderling eval agree compares with them."))


def print_result(console: Console, result: EvalResult) -> None:
    """The headline with its bounds, then the curves, groups and what it took."""
    console.print(_headline(result))
    if result.invalid_because:
        console.print(Text(f"This run is invalid: {result.invalid_because}", style="red"))
    if result.recorded is not None:
        console.print(Text(f"The world is a recording: {share_told(result.recorded)}", style="yellow"))
    if result.attempts > 1 and result.pass_at_1.value is not None:
        console.print(_curves(result))
    for name, groups in result.groups.items():
        table = _table(name, "questions", "pass@1", "95% interval", "unscored")
        for group, one in groups.items():
            estimate = one.pass_at_1
            count = estimate.questions + estimate.too_few
            table.add_row(
                Text(visible(group)), f"{count:,}", percent(estimate.value), span(estimate.interval), f"{one.unscored:,}"
            )
        console.print(table)
    for line in said_lines(result):
        console.print(Text(visible(line)))
    if result.mean_turns is not None:
        console.print(Text(_taken(result)))


def _headline(result: EvalResult) -> Text:
    best = result.pass_at_1
    asked = f"{len(result.questions):,} questions × {tries(result)}"
    bounds = f"; between {percent(result.pass_at_1_bounds.low)} and {percent(result.pass_at_1_bounds.high)} had the "
    bounds += f"{result.unscored:,} unscored attempts been wrong or right" if result.unscored else ""
    return Text.assemble(
        ("avg@" + tries(result), "bold"),
        f" {percent(best.value)} (95% {span(best.interval)}) over {asked}",
        bounds if result.unscored else "",
        visible(f". Judge: {result.judge}."),
    )


def _curves(result: EvalResult) -> Table:
    """pass@k, pass^k and the majority's at powers of two and at all attempts."""
    table = _table("k", "questions", "pass@k", "95% interval", "majority of k", "95% interval", "pass^k")
    for k in result.majority or result.pass_at_k:
        some, vote, every = result.pass_at_k[k], result.majority.get(k), result.pass_hat_k[k]
        asked = f"{some.questions:,}"
        table.add_row(str(k), asked, percent(some.value), span(some.interval), *_cells(vote), percent(every.value))
    return table


def _cells(estimate: Estimate | None) -> tuple[str, str]:
    return (percent(estimate.value), span(estimate.interval)) if estimate else (MISSING, MISSING)


def _taken(result: EvalResult) -> str:
    spent = result.spending
    visits = percent(result.browse.overall, 0)
    parts = [f"{mean(result.mean_turns)} turns", f"{mean(result.mean_calls)} calls, {visits} of them visits"]
    if result.format_accuracy is not None:
        parts.append(f"{percent(result.format_accuracy)} of turns keep the grammar")
    if spent is not None and spent.seconds is not None:
        parts.append(f"{duration(spent.seconds)} for each right answer")
    if spent is not None and spent.sampled_tokens is not None:
        parts.append(f"{spent.sampled_tokens:,.0f} tokens sampled for each")
    return "An attempt: " + "; ".join(parts) + "."


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1))
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place == 0 else "right")
    return table
