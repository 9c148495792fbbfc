"""The steps of the data pipeline: each reads a file, writes the next one whole, and returns its figures.

Every step's figures have ``came_in``, ``went_out`` and ``told``, a sentence for people. What a step leaves out stands in a file
of its own, with the reason; `left_out` makes one list of all.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from sanderling.core.record import encode_record
from sanderling.data.cleaning.files import clean_file
from sanderling.data.contamination import Hit, check_file, kinds
from sanderling.data.dedupe import LeftOut, Shares, dedupe_file, split_file
from sanderling.data.files import open_trajectories
from sanderling.data.importers.store import import_to
from sanderling.data.resample import resample_file
from sanderling.recipes.data.judging import judge
from sanderling.recipes.data.layout import Layout, count_lines
from sanderling.recipes.progress import Report
from sanderling.runs.writing import write_lines

Figures = dict[str, Any]


def bring_in(layout: Layout, report: Report) -> Figures:
    """Raw files to records."""
    with report.task("Import", 1) as advance:
        written = import_to(list(layout.sources), layout.imported, layout.questions, lambda *_: None)
        advance(1)
    found = written.report
    odd = f", {found.unread:,} entries unread (1-imported.jsonl.unread.jsonl)" if found.unread else ""
    odd += f", {len(written.left_files):,} files left that are no recordings" if written.left_files else ""
    told = (
        f"{found.messages:,} messages, {found.raw:,} of them kept raw{odd}; {found.questions:,} questions without a trajectory"
    )
    return {
        "came_in": found.trajectories + found.unread,
        "went_out": written.trajectories,
        "told": told,
        "report": found.as_json(),
    }


def clean(layout: Layout, report: Report) -> Figures:
    """Records to what may be imitated."""
    recipe = layout.config.clean.resolved()
    with report.task("Clean", count_lines(layout.imported)) as advance:
        done = clean_file(
            open_trajectories(layout.imported),
            layout.cleaned,
            recipe,
            layout.profile,
            origin=layout.imported,
            workers=layout.config.workers,
            advance=lambda more: advance(more),
        )
    found = done.report
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
    told = f"{found.changed:,} of the kept changed; dropped: {reasons or 'none'}"
    return {"came_in": found.came_in, "went_out": found.kept, "told": told, "report": found.as_json()}


def dedupe(layout: Layout, report: Report) -> Figures:
    """One for each question, and none that a benchmark asks."""
    settings = layout.config.dedupe
    number = count_lines(layout.judged)
    with report.task("Dedupe", 1) as advance:
        done = dedupe_file(
            layout.judged,
            layout.unlike,
            threshold=settings.threshold,
            by_answers=settings.by_answers,
            keep=settings.keep or max(1, number),
            prefer=settings.prefer,
        )
        told = f"{done.questions:,} questions, at most {done.largest:,} of one"
        written = done.written
        left_out = [_left_out(one.id, "same_question", one, f"{one.kept} stays: {one.kept_question}") for one in done.left_out]
        if layout.config.against:
            found = check_file(layout.unlike, layout.config.against, out=layout.benchmark_free)
            written = found.rows - len(found.hits)
            alike = ", ".join(f"{count:,} {kind}" for kind, count in kinds(found.hits).items()) or "none"
            told += f"; asked by benchmarks ({found.benchmarks:,} questions): {alike}"
            left_out += [
                _left_out(hit.id, hit.kind.value, hit, f"{hit.benchmark}: {hit.benchmark_question}") for hit in found.hits
            ]
        advance(1)
    write_lines(layout.same, map(encode_record, left_out))
    return {"came_in": number, "went_out": written, "told": told}


def _left_out(id: str, reason: str, found: LeftOut | Hit, detail: str) -> dict[str, Any]:
    return {"id": id, "reason": reason, "detail": detail, "found": dataclasses.asdict(found)}


def part(layout: Layout, report: Report) -> Figures:
    """Parts that share no question."""
    settings = layout.config.split
    source = layout.benchmark_free if layout.config.against else layout.unlike
    with report.task("Split", 1) as advance:
        done = split_file(
            source, layout.parted, Shares.read(settings.shares), seed=settings.seed, by_answers=settings.by_answers
        )
        advance(1)
    told = ", ".join(f"{name} {count:,}" for name, count in zip(done.names, done.trajectories, strict=True))
    total = sum(done.trajectories)
    return {"came_in": total, "went_out": total, "told": told, "parts": dict(zip(done.names, done.trajectories, strict=True))}


def repeat(layout: Layout, report: Report) -> Figures:
    """Long ones more often, in the first part."""
    settings = layout.config.resample
    schedule = settings.schedule()
    with report.task("Resample", 1) as advance:
        done = resample_file(layout.parted / f"{layout.parts[0]}.jsonl", layout.resampled, schedule, settings.seed)
        advance(1)
    buckets = zip(schedule.names(), schedule.weights, done.result.before, done.result.after, strict=True)
    told = f"{layout.parts[0]}: " + ", ".join(f"{name} turns {before:,} ×{times}" for name, times, before, _ in buckets)
    return {
        "came_in": done.trajectories,
        "went_out": done.written,
        "told": told,
        "before": list(done.result.before),
        "after": list(done.result.after),
        "side_by_side": done.result.neighbours,
    }


def make_rows(layout: Layout, report: Report) -> Figures:
    """Token rows of every part; the first from its resampled trajectories."""
    from sanderling.core.chat import load_tokenizer
    from sanderling.train.encoding import Encoding
    from sanderling.train.row_files import write_rows

    if layout.config.tokenizer is None:
        return {"came_in": 0, "went_out": 0, "told": "none made: give --tokenizer DIRECTORY"}
    encoding = Encoding(load_tokenizer(layout.config.tokenizer), layout.profile)
    told: list[str] = []
    found: dict[str, Any] = {}
    came_in = went_out = 0
    with report.task("Rows", len(layout.parts)) as advance:
        for place, name in enumerate(layout.parts):
            source = layout.parted / f"{name}.jsonl" if place else layout.resampled
            counts = write_rows(layout.rows(name), open_trajectories(source), encoding, layout.config.rows.limit())
            found[name] = counts.as_json()
            came_in, went_out = came_in + counts.trajectories, went_out + counts.rows
            left = {reason.replace("_", " "): count for reason, count in counts.left_out().items()}
            told.append(
                f"{name} {counts.rows:,} rows, {counts.tokens:,} tokens ({counts.trained_tokens:,} trained)"
                + "".join(f", {count:,} {reason}" for reason, count in left.items() if count)
            )
            advance(1)
    return {"came_in": came_in, "went_out": went_out, "told": "; ".join(told), "parts": found}


STEPS: tuple[tuple[str, str, Callable[[Layout, Report], Figures]], ...] = (
    ("import", "Raw files to records", bring_in),
    ("clean", "What may be imitated", clean),
    ("judge", "Who is right", judge),
    ("dedupe", "One for each question", dedupe),
    ("split", "Parts that share no question", part),
    ("resample", "Long ones more often", repeat),
    ("rows", "Rows of tokens", make_rows),
)
