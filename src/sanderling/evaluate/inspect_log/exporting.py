"""A run's directory into a log file that Inspect opens.

Of an attempt that was made more than once the last record counts, as everywhere; the run's index tells which that is, and the
records are read one by one. Knows no layout of the log.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.guarding import guard_counts
from sanderling.evaluate.inspect_log.archive import EvalArchive
from sanderling.evaluate.inspect_log.header import header_of, log_id, reductions_of
from sanderling.evaluate.inspect_log.sample import Json, sample_of, usage_of
from sanderling.evaluate.inspect_log.scores import Said, said_in_record, said_of
from sanderling.evaluate.judged import read_judged
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.rows import Key
from sanderling.evaluate.run_directory import RunDirectory, RunFile

FORMATS = (".eval", ".json")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}[:-]\d{2}[:-]\d{2}")


class Types(Protocol):
    """Inspect's types, as far as they are needed: `package.InspectLog`."""

    def sample(self, found: Json) -> tuple[bytes, bytes]: ...
    def header(self, found: Json) -> bytes: ...
    def reductions(self, found: list[Json]) -> bytes: ...
    def write_json(self, path: Path, header: Json, samples: Any, reductions: list[Json]) -> None: ...


@dataclass(frozen=True)
class Exported:
    """What was written."""

    samples: int
    missing: int
    """Attempts that the result counts and the store does not hold."""
    texts: bool
    """Whether questions, answers and messages are in it."""
    listed: bool
    """Whether the viewer lists a file of this name; it opens every one by its address."""


def export_run(place: Path, out: Path, types: Types, *, texts: bool | None = None) -> Exported:
    """Write a finished run as a log. ``texts`` None: unless they are not to be published.

    Raises UserError for a directory that is no finished run, and for a file name of no format.
    """
    if out.suffix not in FORMATS:
        raise UserError(f"{out.name} is no log of Inspect: call it something that ends in {' or '.join(FORMATS)}.")
    directory = RunDirectory(place)
    run = directory.require()
    result = EvalResult.load(directory.result_file)
    shown = not run.about.private if texts is None else texts
    samples = _Samples(directory, run, result, shown)
    if out.suffix == ".json":
        made = list(samples)
        types.write_json(out, samples.header(), made, reductions_of(result))
    else:
        with EvalArchive(out) as archive:
            for sample in samples:
                archive.add(sample["id"], sample["epoch"], *types.sample(sample))
            archive.finish(types.header(samples.header()), types.reductions(reductions_of(result)))
    return Exported(samples.written, result.made - samples.written, shown, _is_listed(out.name))


class _Samples:
    """The samples of a run, one by one, and what is known when the last is made."""

    def __init__(self, directory: RunDirectory, run: RunFile, result: EvalResult, texts: bool) -> None:
        self._directory, self._run, self._result, self._texts = directory, run, result, texts
        self._limits = limits_of(directory)
        self._guarded = guard_counts(directory.guard_file).by_attempt
        self._judged = {one.key: one for one in read_judged(directory.judged_file, self._result.judged_sha256)}
        self._log = log_id(run.about, result)
        self._usage: Counter[str] | None = Counter()
        self.written = 0

    def __iter__(self) -> Iterator[Json]:
        for key, trajectory in _last_records(self._directory, self._result):
            self.written += 1
            self._count(trajectory)
            yield sample_of(
                trajectory,
                self._said(key, trajectory),
                self._limits,
                uuid=hashlib.sha256(f"{self._log} {key[1]} {key[0]}".encode("utf-8", "backslashreplace")).hexdigest()[:22],
                guarded=self._guarded.get(key),
                texts=self._texts,
            )

    def header(self) -> Json:
        """Of the samples that were made so far."""
        usage = dict(self._usage) if self._usage else None
        return header_of(self._run, self._result, usage, texts=self._texts)

    def _said(self, key: Key, trajectory: Trajectory) -> list[Said]:
        judged = self._judged.get(key)
        if judged is None:
            return said_in_record(trajectory, self._result.judge)
        return said_of(judged, self._result.judge, self._result.second_judge)

    def _count(self, trajectory: Trajectory) -> None:
        """Add up what everything took; unknown once it is unknown for one. An outage before the first turn took nothing."""
        usage = usage_of(trajectory) if trajectory.nodes else {}
        if usage is None or self._usage is None:
            self._usage = None
        else:
            self._usage.update(usage)


def limits_of(directory: RunDirectory) -> dict[Ending, float]:
    """How large the agent's budgets were, as the run was begun with; empty where it does not say."""
    try:
        profile = Profile.model_validate(directory.made_with()["profile"])
    except (ValueError, KeyError):
        return {}
    budgets, guards = profile.budgets, profile.guards
    found = {
        Ending.TURN_LIMIT: budgets.max_turns,
        Ending.CONTEXT_EXHAUSTED: budgets.max_context_tokens,
        Ending.TIME_LIMIT: budgets.max_seconds,
        Ending.REPETITION: guards.max_repeated_calls,
        Ending.MALFORMED: guards.max_malformed,
    }
    return {ending: float(value) for ending, value in found.items() if value is not None}


def _is_listed(name: str) -> bool:
    """Inspect takes a JSON file for a log where its name begins with a time, as those do that it writes itself."""
    return name.endswith(".eval") or _TIME.match(name) is not None


def _last_records(directory: RunDirectory, result: EvalResult) -> Iterator[tuple[Key, Trajectory]]:
    """The record that counts of each attempt that the result is about, in the store's order."""
    asked = {one.id for one in result.questions}
    rows = (row for row in directory.attempts.rows() if row.key[0] in asked and row.key[1] < result.attempts)
    last = {row.key: row.line for row in rows}
    for key, line in sorted(last.items(), key=lambda item: item[1].offset):
        yield key, directory.store.at(line)
