"""Which trajectories a run left out, where and why: one list over all steps, gathered from what each of them keeps.

Contract: a line for each trajectory that came into a step and did not come out of it: ``step``, ``id``, ``reason`` (a code),
``detail``, and ``file``, below the run's directory, that holds it or what is known of it. An entry that the import could not
read has its place as its id; where one line stands for several (a damaged block of Parquet), ``entries`` says for how many, and
0 for a whole file that is no recording. Of copies that make no row each has a line, and so has one of whose turns a part makes
rows (``cut``, ``turns_left_out``). Nothing is made up here, so the list can be gathered again at any time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sanderling.core.record import encode_record
from sanderling.data.cleaning.files import DROPPED_KEY
from sanderling.data.files import open_trajectories
from sanderling.data.standing import standing
from sanderling.judge.verdict import META_KEY
from sanderling.recipes.data.layout import Layout
from sanderling.runs.jsonl import JsonlLog
from sanderling.runs.writing import write_lines
from sanderling.train.row_files import left_out_file


def write_left_out(layout: Layout) -> int:
    """Gather the list of a finished run; how many lines. Raises UserError when a file of the run is gone or damaged."""
    return write_lines(layout.all_left_out, (encode_record(line) for line in left_out(layout)))


def left_out(layout: Layout) -> Iterator[dict[str, Any]]:
    """The lines, in the order of the steps."""
    for line in JsonlLog(layout.unread):
        several = {"entries": line["entries"]} if "entries" in line else {}
        yield _line(layout, "import", line["place"], line["code"], "", layout.unread) | several
    for one in json.loads(layout.import_report.read_bytes())["left_files"]:
        yield _line(layout, "import", one["file"], "not_a_recording", one["reason"], layout.import_report) | {"entries": 0}
    if layout.dropped.exists():
        for trajectory in open_trajectories(layout.dropped):
            why = trajectory.meta[DROPPED_KEY]
            told = f"{why['step']}: {why['detail']}" if why["detail"] else why["step"]
            yield _line(layout, "clean", trajectory.id, why["reason"], told, layout.dropped)
    for trajectory in open_trajectories(layout.left_out):
        verdict = trajectory.meta.get(META_KEY) or {}
        told = ": ".join(filter(None, (verdict.get("code"), verdict.get("reason"))))
        yield _line(layout, "judge", trajectory.id, standing(trajectory).value, told, layout.left_out)
    for line in JsonlLog(layout.same):
        yield _line(layout, "dedupe", line["id"], line["reason"], line["detail"], layout.same)
    yield from _not_resampled(layout)
    for part in layout.parts if layout.config.tokenizer is not None else ():
        file = left_out_file(layout.rows(part))
        for line in JsonlLog(file):
            yield _line(layout, "rows", line["id"], line["reason"], line["detail"], file)


def _not_resampled(layout: Layout) -> Iterator[dict[str, Any]]:
    """Those in a bucket of which no copy is wanted."""
    schedule = layout.config.resample.schedule()
    if min(schedule.weights) > 0:
        return
    file = layout.parted / f"{layout.parts[0]}.jsonl"
    for trajectory in open_trajectories(file):
        turns = sum(1 for _ in trajectory.turns())
        if not schedule.weight(turns):
            yield _line(layout, "resample", trajectory.id, "weight_0", f"{turns:,} turns", file)


def _line(layout: Layout, step: str, id: str, reason: str, detail: str, file: Path) -> dict[str, Any]:
    return {"step": step, "id": id, "reason": reason, "detail": detail, "file": file.relative_to(layout.root).as_posix()}
