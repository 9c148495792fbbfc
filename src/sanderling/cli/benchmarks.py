"""``sanderling eval list``, ``check``, ``score``, ``agree``, ``export``: what stands around a run. Thin."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from sanderling.cli import UNFINISHED
from sanderling.cli.options import JUDGING, ConfigFile, Set, settings, show, table
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.report.numbers import MISSING, percent

if TYPE_CHECKING:
    from sanderling.evaluate.agreement import Comparison

_SHOWN = 10

Key = Annotated[str, typer.Argument(metavar="KEY", help="Which benchmark (sanderling eval list), or file.py:name.")]
BenchmarkFile = Annotated[Path, typer.Argument(metavar="FILE", help="Its file, or the folder as it was downloaded.")]
SplitName = Annotated[
    str | None, typer.Option("--split", metavar="NAME", help="The part that the file is, where its name does not say it.")
]
ColumnRoles = Annotated[
    str | None,
    typer.Option(
        "--columns", help="Columns of unusual names, as question=Prompt,answer=Gold; also id, level, topic.", metavar="ROLES"
    ),
]
Canary = Annotated[str, typer.Option("--canary", help="Decrypts a file that does not hold its own canary.")]
Judging = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        metavar="JUDGE",
        rich_help_panel=JUDGING,
        help="A rule (exact, f1:0.8), http://host:port/v1#model or file.py:name; repeatable, in order. By default the "
        "publisher's own rule, or whoever judged before.",
    ),
]
Second = Annotated[
    list[str] | None,
    typer.Option("--second-judge", metavar="JUDGE", help="Compared with the judge; decides nothing.", rich_help_panel=JUDGING),
]
Verdicts = Annotated[
    Path | None,
    typer.Option(
        "--verdicts", metavar="FILE", help="A person's verdicts (CSV), before every judge's.", rich_help_panel=JUDGING
    ),
]


def list_(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Tell everything that is known of this one.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts for machines.")] = False,
) -> None:
    """List the benchmarks: size, judge, licence; of one also where to get it, and what is not known."""
    from sanderling.evaluate.benchmarks.table import BENCHMARKS, facts, get_benchmark

    chosen = [get_benchmark(key)] if key else list(BENCHMARKS.values())
    if as_json:
        known = [facts(one) for one in chosen]
        typer.echo(json.dumps(known[0] if key else known, indent=1, ensure_ascii=False))
        return
    if key:
        found = Table(box=None, show_header=False, pad_edge=False)
        for name, value in facts(chosen[0]).items():
            if value not in ("", [], {}):
                found.add_row(
                    name.replace("_", " "), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                )
        show(found)
        return
    found = table("key", ">questions", "judge", "hidden", "licence")
    for one in chosen:
        size = f"{one.splits[0].questions:,}" if one.splits and one.splits[0].questions else MISSING
        judge = f"rule {one.own_rule}" if one.own_rule else f"model: {one.form}"
        hidden = "encrypted" if one.cipher else "gated" if one.gated else MISSING
        found.add_row(one.key, size, judge, hidden, one.licence.partition(";")[0])
    show(found, "Nothing is downloaded: eval list KEY says where to get the file, eval check KEY FILE reads it.")


def check(
    key: Key,
    file: BenchmarkFile,
    split: SplitName = None,
    columns: ColumnRoles = None,
    canary: Canary = "",
    with_attachments: Annotated[
        bool, typer.Option("--with-attachments", help="Keep questions about a file or an image.")
    ] = False,
    show_private: Annotated[
        bool, typer.Option("--show", help="Show private questions too, of which only the length is shown otherwise.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the questions (JSON lines); private ones for you only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts for machines.")] = False,
) -> None:
    """Read a benchmark's file, decrypted where it is encrypted, and count; nothing is written but to --out."""
    from sanderling.data.questions import named_columns, write_questions
    from sanderling.evaluate.benchmarks.files import check_figures, check_lines, load_benchmark
    from sanderling.evaluate.benchmarks.rows import Options
    from sanderling.evaluate.benchmarks.table import get_benchmark
    from sanderling.runs.files import check_places

    benchmark = get_benchmark(key)
    check_places([file], [out] if out else [])
    options = Options(split=split or "", columns=named_columns(columns or ""), with_attachments=with_attachments, canary=canary)
    loaded = load_benchmark(benchmark, file, options)
    texts = show_private or not loaded.private
    if as_json:
        typer.echo(json.dumps(check_figures(loaded, texts=texts), indent=1, ensure_ascii=False))
    else:
        show(*check_lines(benchmark, loaded, texts=texts))
    if out is not None:
        count = write_questions(out, loaded.questions, private=loaded.private)
        typer.echo(visible(f"{count:,} questions are in {out}{', for you only' if loaded.private else ''}."), err=as_json)


def score(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Trajectories that data import reads, or AgentToLeaP's folders.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory of the run that is written; the same one goes on.")],
    questions: Annotated[
        Path | None,
        typer.Option("--questions", help="The benchmark's file, whose accepted answers count; without it the records' own."),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", metavar="KEY", help="Whose file it is; sanderling eval list has them.")
    ] = None,
    canary: Canary = "",
    public: Annotated[bool, typer.Option("--public", help="Without a benchmark's file: the records may be shown.")] = False,
    judges: Judging = None,
    second: Second = None,
    verdicts: Verdicts = None,
    unscored_limit: Annotated[
        float | None, typer.Option("--unscored-limit", help="More unscored attempts make the run invalid; 0.02 by default.")
    ] = None,
    config_file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Judge and measure trajectories that others have made: a run's directory, for eval report, judge, agree and export.

    Exit status: 0 for a valid result, 3 when a judge was not reached, its budget was spent, or too much could not be scored.
    Killed or stopped, the same command goes on.
    """
    import asyncio

    from sanderling.cli.evaluate import end, show_peers, show_result, show_where
    from sanderling.core.asking import BudgetSpentError
    from sanderling.evaluate.log import RunLog
    from sanderling.evaluate.peers.run import ScoreConfig, score_peers
    from sanderling.policy.budget import Spending
    from sanderling.runs.files import check_places
    from sanderling.runs.provenance import command_line

    given = {
        "benchmark": benchmark, "public": public or None,
        "unscored_limit": unscored_limit, "judging.judges": judges or None, "judging.second": second or None,
    }  # fmt: skip
    config, log = settings(ScoreConfig, config_file, sets, given), RunLog(out)
    check_places([*files, *([questions] if questions else [])], [log.database])
    spending = Spending(log.root, config.budget, locked=True)
    about = {"questions": questions, "canary": canary, "verdicts": verdicts, "command": command_line()}
    with log.exclusive(), Console(stderr=True).status("judging") as status:
        judging = score_peers(files, log, config, spending, **about, on_judged=lambda count: status.update(f"{count:,} judged"))
        try:
            result = asyncio.run(judging)
        except BudgetSpentError as error:
            show(f"{error} What there was before stays as it is; the same command goes on.")
            raise typer.Exit(UNFINISHED) from None
    show_peers(log.require().about, result)
    show_result(log)
    show_where(log, spending)
    end(result)


def agree(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run with a second judge or a person's verdicts.")],
    show_texts: Annotated[
        bool, typer.Option("--show-texts", help="Print judges' reasons of a benchmark that is not to be published, too.")
    ] = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write what they differ on, to be settled for --verdicts.")
    ] = None,
) -> None:
    """Compare a run's judge with its second judge, and with a person: agreement, kappa, and each attempt they differ on.

    Cohen's kappa is 1 for judges that always agree and 0 for such as agree no more than their habits would by chance.
    """
    from sanderling.evaluate.agreement import comparisons
    from sanderling.evaluate.judging import write_to_settle
    from sanderling.evaluate.log import RunLog
    from sanderling.evaluate.result import EvalResult

    directory = RunLog(run)
    about = directory.require().about
    result = EvalResult.load(directory.result_file)
    judged = directory.verdicts()
    found = comparisons(judged, result.judge, result.second_judge)
    if not found:
        raise UserError(f"{run} has one judge alone: run sanderling eval judge {run} with --second-judge, or with --verdicts.")
    for comparison in found:
        _show_comparison(comparison, reasons=show_texts or not about.private)
    if csv is not None:
        if csv.exists():
            raise UserError(f"{csv} exists, and may hold verdicts: choose another file.")
        differing = {one.key: one for comparison in found for one in comparison.differing}
        count = write_to_settle(csv, differing.values(), directory.episodes())
        show(f"{count:,} answers to settle in {csv}: fill in the column correct with yes or no.")


def _show_comparison(comparison: "Comparison", *, reasons: bool) -> None:
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


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory that eval run has written.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="A log of Inspect (FILE.eval), or whole trajectories (FILE.jsonl, .parquet)."),
    ],
    texts: Annotated[
        bool | None,
        typer.Option(
            "--show-texts/--no-texts",
            help="Put texts into it, or leave them out. By default they are in it unless they are not to be published.",
        ),
    ] = None,
) -> None:
    """Write a run as trajectories, or a finished one as a log of Inspect (https://inspect.aisi.org.uk) for its viewer."""
    from sanderling.evaluate.inspect_log import export_run
    from sanderling.evaluate.log import RunLog
    from sanderling.runs.jsonl import write_trajectories

    if out.suffix in (".jsonl", ".parquet"):
        log = RunLog(run)
        private = log.require().about.private
        if texts is False or (private and not texts):
            raise UserError(f"{out.name} would hold questions and answers: say --show-texts, or write a log of Inspect.")
        show(f"{out}: {write_trajectories(out, log.records()):,} attempts.")
        return
    made = export_run(run, out, texts=texts)
    show(f"{out}: {made.samples:,} attempts. To read it: inspect view --log-dir {out.parent}")
    if not made.texts:
        show("Questions, answers and messages are left out; --show-texts puts them in.")
