"""How far a world resembles recorded calls that it was not built from: figures with counts and intervals.

`world.recorded` repeats each recorded search and visit in the world; here its values become means over the calls in which they
are defined: ``overlap``, the share of recorded addresses that the world lists for the same query; ``visit_held``, of visited
pages that it holds; ``answer_read``, of questions whose answer stood in what was recorded, and stands in the world's. Intervals
are 95%, a bootstrap over whole questions, because calls for one question depend on each other. A report holds numbers only.

Example: ``measure_fidelity(Path("worlds/w"), Path("recorded"), Path("report"), k=5).figures``
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import sanderling
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.data.importing import read_recorded
from sanderling.evaluate.statistics import FloatArray, Interval, constant_interval
from sanderling.runs.files import or_cannot, replace_file
from sanderling.runs.progress import command_line
from sanderling.world.contract import World
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_as_met, read_manifest
from sanderling.world.recorded import BuiltFrom, Row, compare_calls, read_built_from, recorded_calls, sides, was_asked

_RESAMPLES = 2_000
_CHUNK = 100  # resamples drawn at once: bounds memory whatever the number of questions


@dataclass(frozen=True)
class Figure:
    """A mean over the n calls (or questions) in which it is defined."""

    name: str
    n: int
    value: float | None
    interval: Interval | None  # None where there is one question only


@dataclass(frozen=True)
class Comparison:
    """The figures of one set of recorded trajectories."""

    label: str
    trajectories: int
    questions: int
    searches: int
    asked_before: int  # queries that the build knew word for word: in no figure
    visits: int
    figures: tuple[Figure, ...]


def measure_fidelity(
    directory: Path, against: Path, out: Path, *, k: int = 10, search: SearchMode = SearchMode.LEXICAL
) -> Comparison:
    """Compare the world in a directory with recorded trajectories, or a recording, and write ``fidelity.json`` into ``out``.

    Raises UserError when no trajectory is left to compare.
    """
    manifest, known = read_manifest(directory), read_built_from(directory)
    world, trajectories, same_question = open_as_met(directory, search=search), read_recorded(against)[0], 0
    with or_cannot(f"make {out}", "choose another place with --out"):
        out.mkdir(parents=True, exist_ok=True)
    if known is not None:
        found = sides(trajectories, known)
        if not found.unseen:
            raise UserError(
                f"All {len(trajectories)} trajectories were built into this world, or share a question with one that was: "
                "build it again with --hold-out 0.2, or give others."
            )
        trajectories, same_question = found.unseen, len(found.same_question)
    rows, counts = compare(world, trajectories, known, k=k)
    compared = summarise("held out" if known else "not known to be held out", rows, counts)
    report = {
        "command": command_line(),
        "date": datetime.now(UTC).date().isoformat(),
        "version": sanderling.__version__,
        "world": world.name,
        "world_source": manifest.source,
        "fingerprint": world.fingerprint,
        "pages": world.page_count,
        "k": k,
        "compared": asdict(compared),
        "same_question": same_question,  # trajectories that were not built in, but whose question was: in no figure
    }
    replace_file(out / "fidelity.json", json.dumps(report, indent=1) + "\n")
    return compared


def compare(world: World, recorded: Sequence[Trajectory], known: BuiltFrom | None, *, k: int) -> tuple[list[Row], Counter[str]]:
    """A row for each recorded call, and counts. Queries that are ``known`` to the build, word for word, are left out."""
    calls = recorded_calls(recorded)
    kept = tuple(search for search in calls.searches if known is None or not was_asked(search, known))
    counts = Counter(trajectories=len(recorded), searches=len(kept), visits=len(calls.visits))
    counts["asked_before"] = len(calls.searches) - len(kept)
    return compare_calls(replace(calls, searches=kept), world, k=k), counts


def summarise(label: str, rows: Sequence[Row], counts: Counter[str], *, seed: int = 0) -> Comparison:
    """All figures of some rows, and ``counts`` of `compare`. The same rows and seed give the same figures."""
    names = ("overlap", "visit_held")
    defined = {name: [(row.question, row.values[name]) for row in rows if name in row.values] for name in names}
    read = {row.question: 0.0 for row in rows if row.answer_recorded}
    read |= {row.question: 1.0 for row in rows if row.answer_shown and row.question in read}
    defined["answer_read"] = list(read.items())
    figures: list[Figure] = []
    for name, pairs in defined.items():
        values = np.array([value for _, value in pairs])
        interval = _interval([question for question, _ in pairs], values, seed)
        figures.append(Figure(name, len(pairs), float(values.mean()) if pairs else None, interval))
    return Comparison(label=label, questions=len({row.question for row in rows}), figures=tuple(figures), **counts)


def _interval(questions: Sequence[str], values: FloatArray, seed: int) -> Interval | None:
    """95% bootstrap interval of the mean of all values, each with its question, resampling whole questions; None for one.

    Where all values are 0 or all are 1, Wilson's interval over the questions, as a bootstrap would have no width.
    """
    names, at = np.unique(np.asarray(questions), return_inverse=True)
    if len(names) < 2:
        return None
    if bool((values == values[0]).all()) and (same := constant_interval(np.full(len(names), values[0]))) is not None:
        return same
    sums, counts = np.bincount(at, values, len(names)), np.bincount(at, minlength=len(names))
    rng = np.random.default_rng([seed, 1])
    drawn = (rng.integers(0, len(names), (_CHUNK, len(names))) for _ in range(_RESAMPLES // _CHUNK))
    means = np.concatenate([sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1) for chosen in drawn])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))
