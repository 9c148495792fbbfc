"""The data pipeline, whole: raw files to supervised rows, resumable step by step, one report with the numbers of each.

    run = DataRun([Path("raw")], Path("runs/data"), find_data_recipe("dr-venus"))
    run_data(run, Report(Console()), command_line(), write_rows=rows_of_file)

Each step reads a file, writes the next one whole, and returns its figures: ``came_in``, ``went_out``, and ``told``, a sentence
for people. What a step leaves out stands in a file of its own, with the reason; one list of all is gathered at the end.
"""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_record, encode_trajectory
from sanderling.core.text import visible
from sanderling.data.cleaning import DROPPED_KEY, clean_file
from sanderling.data.contamination import check_file, kinds
from sanderling.data.dedupe import Shares, dedupe_file, split_file
from sanderling.data.importing import import_to, open_trajectories
from sanderling.data.pipeline.config import DataRun, Keep
from sanderling.data.resample import resample_file
from sanderling.data.stats import NOT_JUDGED, data_page, figures_table, portray, ruling_of
from sanderling.judge.book import JudgeReport, VerdictBook, judge_stream
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import META_KEY, Judge, Ruling, in_order
from sanderling.policy.load import names_model
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog, Lines, write_lines
from sanderling.runs.progress import Report, machine
from sanderling.runs.run import Run, beside
from sanderling.runs.stages import Stage, run_stages

PAGE, NUMBERS = "report.html", "data.json"
Figures = dict[str, Any]


class OpenVerdictsError(UserError):
    """Verdicts are missing that the same command may still get."""


OpenJudges = Callable[[Sequence[str], Path], AbstractAsyncContextManager[Judge]]
"""Opens judges of these names as one; what they spend is written down beside the path."""


@asynccontextmanager
async def open_rules(specs: Sequence[str], out: Path) -> AsyncIterator[Judge]:
    """Judges that go by rule. Raises UserError for a model, which somebody has to open, and to pay."""
    models = [spec for spec in specs if names_model(spec)]
    if models:
        raise UserError(f"{models[0]} is a model, and only rules judge here: ask it with sanderling data run.")
    yield in_order([rule_judge(spec) for spec in specs])


class RowCounts(Protocol):
    """What became of the trajectories that rows were made of."""

    trajectories: int
    rows: int
    tokens: int
    trained_tokens: int

    def left_out(self) -> dict[str, int]: ...

    def as_json(self) -> dict[str, Any]: ...


WriteRows = Callable[[Path, Path, Path, str, int | None, str], RowCounts]
"""Makes rows: source, output, directory of the tokenizer, profile, the longest row, and what becomes of a longer one."""


def run_data(
    run: DataRun,
    report: Report,
    command: str,
    *,
    write_rows: WriteRows,
    open_judges: OpenJudges = open_rules,
    concurrency: int = 8,
) -> Path:
    """Run what is not done yet and write the report; returns its page. Raises UserError.

    ``write_rows`` comes from whoever trains (`train`); ``concurrency``: verdicts that are waited for at a time.
    """
    run.check()
    steps: dict[str, tuple[str, Callable[[DataRun, Report], Figures]]] = {
        "import": ("Raw files to records", bring_in),
        "clean": ("What may be imitated", clean),
        "judge": ("Who is right", partial(judge, open_judges=open_judges, concurrency=concurrency)),
        "dedupe": ("One for each question", dedupe),
        "split": ("Parts that share no question", split),
        "resample": ("Long ones more often", resample),
        "rows": ("Rows of tokens", partial(make_rows, write_rows=write_rows)),
    }
    stages = [Stage(name, title, partial(step, run, report)) for name, (title, step) in steps.items()]
    records = run_stages(stages, run.root, run.inputs(), report)
    train = run.parts[0]
    sets = {"imported": run.imported, "cleaned": run.cleaned, "judged": run.judged, "deduped": run.deduped}
    sets |= {train: run.part(train), "resampled": run.resampled}
    tokenizer = run.config.tokenizer and load_tokenizer(run.config.tokenizer)
    portraits = [portray(name, open_trajectories(path), tokenizer) for name, path in sets.items()]
    numbers = {
        "command": command,
        "machine": machine(),
        "settings": run.config.model_dump(mode="json"),
        "steps": [{"name": one.name, "seconds": round(one.seconds, 2), **one.figures} for one in records],
        "left_out": write_lines(run.all_left_out, map(encode_record, left_out(run))),
        "sets": [one.figures for one in portraits],
    }
    replace_file(run.root / NUMBERS, json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    title = f"From raw files to rows: {run.config.title}"
    replace_file(run.root / PAGE, data_page(title, portraits, command=command, steps=numbers["steps"]))
    report.console.print(figures_table([portraits[0], portraits[1], portraits[-1]]))
    for step in numbers["steps"]:
        report.say(f"{step['name']:<9} {step['came_in']:>9,} → {step['went_out']:>9,}  {step['told']}")
    report.say(f"{numbers['left_out']:,} were left out: {visible(str(run.all_left_out))} says which and why.")
    report.say(f"The report is {visible(str(run.root / PAGE))}.")
    return run.root / PAGE


def bring_in(run: DataRun, report: Report) -> Figures:
    """Raw files to records."""
    written = import_to(run.sources, run.imported, run.questions)
    found = written.report
    odd = f", {found.unread:,} entries unread (1-imported.jsonl.unread.jsonl)" if found.unread else ""
    odd += f", {len(written.left_files):,} files left that are no recordings" if written.left_files else ""
    kept = f"{found.messages:,} messages, {found.raw:,} of them kept raw"
    return {
        "came_in": found.trajectories + found.unread,
        "went_out": written.trajectories,
        "told": f"{kept}{odd}; {found.questions:,} questions without a trajectory",
        "report": found.as_json(),
    }


def clean(run: DataRun, report: Report) -> Figures:
    """Records to what may be imitated."""
    recipe, source = run.config.clean.resolved(), open_trajectories(run.imported)
    with report.task("Clean", count_lines(run.imported)) as advance:
        found = clean_file(source, run.cleaned, recipe, run.profile, origin=run.imported, advance=advance)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
    told = f"{found.changed:,} of the kept changed; dropped: {reasons or 'none'}"
    return {"came_in": found.came_in, "went_out": found.kept, "told": told, "report": found.as_json()}


def judge(run: DataRun, report: Report, open_judges: OpenJudges = open_rules, concurrency: int = 8) -> Figures:
    """Who is right: rules and models say, or the verdicts in the records.

    Verdicts outlive a kill. One that another run may still get (no server, no budget) keeps the step open: its files are not
    written, and OpenVerdictsError is raised.
    """
    settings = run.config.judge
    found = dict.fromkeys((*Ruling, NOT_JUDGED), 0)
    with ExitStack() as stack:
        kept, others = (stack.enter_context(Lines(path)) for path in (run.judged, run.left_out))
        advance = stack.enter_context(report.task("Judge", count_lines(run.cleaned)))
        counts = JudgeReport("the verdicts in the records")
        trajectories = open_trajectories(run.cleaned)
        if settings.judges:
            opening = open_judges(settings.judges, beside(run.judged))
            trajectories = _judged(run, trajectories, opening, concurrency, counts, stack)
        for trajectory in trajectories:
            ruling = ruling_of(trajectory)
            found[ruling or NOT_JUDGED] += 1
            wanted = settings.keep is Keep.ALL or ruling is Ruling.CORRECT
            wanted |= settings.keep is Keep.NOT_WRONG and ruling is not Ruling.INCORRECT
            (kept if wanted else others).add(encode_trajectory(trajectory))
            advance(1)
        if counts.open:
            codes = sorted(counts.examples.items())
            why = ", ".join(f"{counts.codes[code]:,} {code.value} (such as {ids[0]})" for code, ids in codes)
            raise OpenVerdictsError(
                f"{counts.open:,} of {counts.trajectories:,} verdicts are still open ({why}): run the same command again, with "
                "a larger limit if that was reached; what was said is remembered."
            )
    told = ", ".join(f"{count:,} {ruling}" for ruling, count in found.items() if count) or "none"
    figures = {"came_in": kept.count + others.count, "went_out": kept.count, "standings": found}
    if settings.judges:
        figures["report"] = counts.as_json()
    return figures | {"told": f"by {counts.judge}: {told}; kept {settings.keep.value}"}


def _judged(
    run: DataRun,
    trajectories: Iterable[Trajectory],
    opening: AbstractAsyncContextManager[Judge],
    concurrency: int,
    counts: JudgeReport,
    stack: ExitStack,
) -> Iterator[Trajectory]:
    """The trajectories with their verdicts, in order and counted; the judges are closed with the stack."""
    runner, connections = stack.enter_context(asyncio.Runner()), AsyncExitStack()
    stack.callback(lambda: runner.run(connections.aclose()))
    chosen = runner.run(connections.enter_async_context(opening))
    counts.judge = chosen.name
    book = VerdictBook(stack.enter_context(Run(beside(run.judged))).table("verdicts"))
    stream = judge_stream(trajectories, chosen, book, concurrency=concurrency, runner=runner)
    for one in stack.enter_context(closing(stream)):
        counts.add(one, None)
        yield one.trajectory


def dedupe(run: DataRun, report: Report) -> Figures:
    """One for each question, and none that a benchmark asks."""
    settings, number = run.config.dedupe, count_lines(run.judged)
    choice: dict[str, Any] = {"keep": settings.keep or max(1, number), "prefer": settings.prefer}
    choice |= {"threshold": settings.threshold, "by_answers": settings.by_answers}
    done = dedupe_file(run.judged, run.unlike, **choice)
    told, written = f"{done.questions:,} questions, at most {done.largest:,} of one", done.kept
    same = [(one["id"], "same_question", f"{one['kept']} stays: {one['kept_question']}", one) for one in done.left_out]
    if run.config.against:
        found = check_file(run.unlike, run.config.against, out=run.benchmark_free)
        written = found.rows - len(found.hits)
        alike = ", ".join(f"{count:,} {kind}" for kind, count in kinds(found.hits).items()) or "none"
        told += f"; asked by benchmarks ({found.benchmarks:,} questions): {alike}"
        for hit in found.hits:
            detail = f"{hit.benchmark}: {hit.benchmark_question}"
            same.append((hit.id, hit.kind.value, detail, dataclasses.asdict(hit)))
    lines = ({"id": id, "reason": reason, "detail": detail, "found": one} for id, reason, detail, one in same)
    write_lines(run.same, map(encode_record, lines))
    return {"came_in": number, "went_out": written, "told": told}


def split(run: DataRun, report: Report) -> Figures:
    """Parts that share no question."""
    settings = run.config.split
    shares = Shares.read(settings.shares)
    done = split_file(run.deduped, run.parted, shares, seed=settings.seed, by_answers=settings.by_answers)
    parts = {one.name: one.trajectories for one in done}
    told, total = ", ".join(f"{name} {count:,}" for name, count in parts.items()), sum(parts.values())
    return {"came_in": total, "went_out": total, "told": told, "parts": parts}


def resample(run: DataRun, report: Report) -> Figures:
    """Long ones more often, in the first part."""
    name, schedule = run.parts[0], run.config.resample.schedule()
    done = resample_file(run.part(name), run.resampled, schedule, run.config.resample.seed)
    buckets = zip(schedule.names(), schedule.weights, done.before, strict=True)
    return {
        "came_in": sum(done.before),
        "went_out": len(done.rows),
        "told": f"{name}: " + ", ".join(f"{bucket} turns {before:,} ×{times}" for bucket, times, before in buckets),
        "before": list(done.before),
        "after": list(done.after),
        "side_by_side": done.neighbours,
    }


def make_rows(run: DataRun, report: Report, write_rows: WriteRows) -> Figures:
    """Token rows of every part; the first from its resampled trajectories."""
    config, told, parts = run.config, list[str](), dict[str, Any]()
    if config.tokenizer is None:
        return {"came_in": 0, "went_out": 0, "told": "none made: give --tokenizer DIRECTORY"}
    came_in = went_out = 0
    for place, name in enumerate(run.parts):
        source, limit = run.part(name) if place else run.resampled, config.rows
        made = write_rows(source, run.rows(name), config.tokenizer, config.profile, limit.max_tokens, limit.overlong)
        parts[name] = vars(made)
        came_in, went_out = came_in + made.trajectories, went_out + made.rows
        missing = [f", {count:,} {reason.replace('_', ' ')}" for reason, count in made.left_out().items() if count]
        tokens = f"{made.tokens:,} tokens ({made.trained_tokens:,} trained)"
        told.append(f"{name} {made.rows:,} rows, {tokens}{''.join(missing)}")
    return {"came_in": came_in, "went_out": went_out, "told": "; ".join(told), "parts": parts}


def left_out(run: DataRun) -> Iterator[dict[str, Any]]:
    """A line for each trajectory that came into a step of a finished run and did not come out of it.

    ``step``, ``id`` (of an unread entry its place), ``reason`` (a code), ``detail``, and ``file``, below the run's directory,
    that holds it or what is known of it; ``entries`` where a line stands for several, 0 for a whole file that is no recording.
    """

    def line(step: str, file: Path, id: str, reason: str, detail: str, **more: Any) -> dict[str, Any]:
        place = file.relative_to(run.root).as_posix()
        return {"step": step, "id": id, "reason": reason, "detail": detail, "file": place, **more}

    for one in JsonlLog(run.unread):
        several = {"entries": one["entries"]} if "entries" in one else {}
        yield line("import", run.unread, one["place"], one["code"], "", **several)
    for one in json.loads(run.import_report.read_bytes())["left_files"]:
        yield line("import", run.import_report, one["file"], "not_a_recording", one["reason"], entries=0)
    for trajectory in open_trajectories(run.dropped) if run.dropped.exists() else ():
        why = trajectory.meta[DROPPED_KEY]
        yield line("clean", run.dropped, trajectory.id, why["reason"], _joined(why["step"], why["detail"]))
    for trajectory in open_trajectories(run.left_out):
        verdict = trajectory.meta.get(META_KEY) or {}
        ruling = ruling_of(trajectory) or NOT_JUDGED
        yield line("judge", run.left_out, trajectory.id, ruling, _joined(verdict.get("code"), verdict.get("reason")))
    for one in JsonlLog(run.same):
        yield line("dedupe", run.same, one["id"], one["reason"], one["detail"])
    schedule, file = run.config.resample.schedule(), run.part(run.parts[0])
    for trajectory in open_trajectories(file) if min(schedule.weights) == 0 else ():
        turns = sum(1 for _ in trajectory.turns())
        if not schedule.weight(turns):
            yield line("resample", file, trajectory.id, "weight_0", f"{turns:,} turns")
    for name in run.parts if run.config.tokenizer is not None else ():
        file = run.rows(name).with_name(f"{run.rows(name).name}.left-out.jsonl")
        for one in JsonlLog(file):
            yield line("rows", file, one["id"], one["reason"], one["detail"])


def _joined(*parts: str | None) -> str:
    return ": ".join(filter(None, parts))


def count_lines(path: Path) -> int:
    """Lines of a store that an earlier step wrote."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
