"""``sanderling eval agree``: how far a run's judges agree, and on what they differ. Thin; computes no figure."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.core.text import visible
from sanderling.evaluate.judged import PUBLISHED, JudgedAttempt
from sanderling.evaluate.judged_figures import Comparison
from sanderling.judge.verdict import Code
from sanderling.report.numbers import MISSING, percent, span

_SHOWN = 10


def agree(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run with a second judge or a person's verdicts.")],
    show_texts: Annotated[
        bool, typer.Option("--show-texts", help="Print judges' reasons of a benchmark that is not to be published, too.")
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv", help="Write what they differ on, to be settled by hand and given back with --verdicts.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Compare a run's judge with its second judge, and with a person: agreement, kappa, and each attempt they differ on.

    Cohen's kappa is 1 for judges that always agree and 0 for such as agree no more than their habits would by chance.
    """
    from sanderling.core.errors import UserError
    from sanderling.evaluate.judged import read_judged
    from sanderling.evaluate.judged_figures import comparisons
    from sanderling.evaluate.judging import write_to_settle
    from sanderling.evaluate.result import EvalResult
    from sanderling.evaluate.run_directory import RunDirectory

    directory = RunDirectory(run)
    about = directory.require().about
    result = EvalResult.load(directory.result_file)
    judged = read_judged(directory.judged_file, result.judged_sha256)
    found = comparisons(judged, result.judge, result.second_judge)
    if not found:
        raise UserError(f"{run} has one judge alone: run sanderling eval judge {run} with --second-judge, or with --verdicts.")
    console = Console(highlight=False, soft_wrap=True)
    for comparison in found:
        _print(console, comparison, reasons=show_texts or not about.private)
    if csv is not None:
        if csv.exists():
            raise UserError(f"{csv} exists, and may hold verdicts: choose another file.")
        rows = {row.key: row for row in directory.attempts.rows()}
        differing = {one.key: one for comparison in found for one in comparison.differing}
        count = write_to_settle(csv, list(differing.values()), rows)
        console.print(
            visible(f"{count:,} answers to settle in {csv}: fill in the column correct with yes or no."), markup=False
        )


def _print(console: Console, comparison: Comparison, *, reasons: bool) -> None:
    """How often they agree, who is the milder, and the first few attempts that they differ on."""
    found, counts = comparison.figures, comparison.figures.counts
    first, second = visible(comparison.first), visible(comparison.second)
    console.print(f"{first} against {second}: {counts.scored:,} attempts at {found.questions:,} questions.", markup=False)
    kappa = MISSING if found.kappa is None else f"{found.kappa:.2f}"
    low_high = "" if found.kappa_interval is None else " (95% {:.2f} to {:.2f})".format(*found.kappa_interval)
    console.print(
        f"  agree on {percent(found.agreed)} (95% {span(found.agreed_interval)}); kappa {kappa}{low_high}", markup=False
    )
    console.print(
        f"  both right {counts.both:,}, both wrong {counts.neither:,}, right for the first alone {counts.first_only:,}, for "
        f"the second alone {counts.second_only:,}; no verdict by the first {counts.first_unscored:,}, by the second alone "
        f"{counts.second_unscored:,}",
        markup=False,
    )
    console.print(
        f"  avg of these attempts: {percent(found.first_average)} by the first, {percent(found.second_average)} by the second",
        markup=False,
    )
    for one in comparison.differing[:_SHOWN]:
        said = "right" if _first_said(one) else "wrong"
        other = "" if comparison.second == PUBLISHED else f" | {one.second_reason}"
        why = f" {one.before.get('reason') or one.reason}{other}" if reasons else ""
        console.print(visible(f"  {one.id}: {said} for the first.{why}"), markup=False)
    if len(comparison.differing) > _SHOWN:
        console.print(f"  and {len(comparison.differing) - _SHOWN:,} more; --csv FILE has them all.")


def _first_said(one: JudgedAttempt) -> bool:
    return bool(one.overruled if one.code is Code.BY_HAND else one.correct)
