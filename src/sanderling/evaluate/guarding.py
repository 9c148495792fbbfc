"""The guard of a run: what it hides, as ``run.json`` says it, its log, and what came of it.

The blocklist is that of known leaks with what a person adds; by their words, pages are hidden for the benchmarks whose sources
do not hold the questions themselves (`Benchmark.verbatim`). Knows no command line.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Loaded
from sanderling.evaluate.benchmarks.registry import leaks
from sanderling.evaluate.result import Record
from sanderling.runs.jsonl import JsonlLog
from sanderling.world.blocked import Blocklist
from sanderling.world.filters import read_blocklist
from sanderling.world.guard import Guard, GuardKind, GuardLine


class GuardFacts(Record):
    """What a run's guard hides; runs that differ in it measure different things."""

    on: bool = False
    verbatim: bool = False
    """Whether pages that hold a question word for word are hidden."""
    fingerprint: str = ""
    """Of its rules, the blocklist's included."""


NO_GUARD = GuardFacts()


@dataclass(frozen=True)
class Guarding:
    """The rules of a guard; none at all where it is off."""

    on: bool = False
    blocklist: Blocklist = field(default_factory=Blocklist)
    texts: dict[str, str] = field(default_factory=dict)
    """Of questions that are looked for, by id."""
    canaries: tuple[str, ...] = ()

    @property
    def facts(self) -> GuardFacts:
        if not self.on:
            return NO_GUARD
        rules = Guard(self.blocklist, self.texts, self.canaries, lambda line: None)
        return GuardFacts(on=True, verbatim=bool(self.texts), fingerprint=rules.fingerprint)

    def guard(self, log: Path) -> Guard | None:
        """The guard, writing into a log; None where it is off."""
        if not self.on:
            return None
        lines = JsonlLog(log, durable=False)  # outlives the process; a loss of power may take the last lines

        def write(line: GuardLine) -> None:
            lines.append(line.model_dump(mode="json"))

        return Guard(self.blocklist, self.texts, self.canaries, write)


def guarding_of(benchmark: Benchmark, loaded: Loaded, files: Sequence[Path], *, on: bool = True) -> Guarding:
    """The rules for a benchmark, with further blocklists. Raises UserError for a file that is none."""
    if not on:
        if files:
            raise UserError("--blocklist adds to the guard, and --no-guard switches it off: leave one of them out.")
        return Guarding()
    blocklist = Blocklist.parse(leaks())
    for file in files:
        if not file.is_file():
            raise UserError(f"There is no blocklist at {file}: check the path.")
        blocklist |= read_blocklist(file)
    texts = {question.id: question.text for question in loaded.questions} if benchmark.verbatim else {}
    return Guarding(True, blocklist, texts, loaded.canaries)


@dataclass(frozen=True)
class GuardCounts:
    """What a guard did; the same thing hidden twice from one attempt counts once."""

    kinds: dict[GuardKind, int]
    attempts: int
    """That something was hidden from."""

    @property
    def hidden(self) -> int:
        return sum(count for kind, count in self.kinds.items() if kind is not GuardKind.REPORTED)


def guard_counts(log: Path) -> GuardCounts:
    """What a log tells. Raises UserError for a line that is none of a guard's."""
    lines = _lines(log)
    kinds = Counter(kind for *_, kind in lines)
    return GuardCounts({kind: kinds[kind] for kind in GuardKind}, len(_hidden(lines)))


def hidden_from(log: Path) -> set[tuple[str, int]]:
    """Question and attempt of those that something was hidden from. Raises UserError as :func:`guard_counts`."""
    return _hidden(_lines(log))


def guarded_attempts(log: Path) -> dict[tuple[str, int], Counter[GuardKind]]:
    """What was written down of each attempt, by question and attempt. Raises UserError as :func:`guard_counts`."""
    found: dict[tuple[str, int], Counter[GuardKind]] = {}
    for question, attempt, _, _, kind in _lines(log):
        found.setdefault((question, attempt), Counter())[kind] += 1
    return found


_Line = tuple[str, int, str, str, GuardKind]


def _hidden(lines: set[_Line]) -> set[tuple[str, int]]:
    return {(question, attempt) for question, attempt, _, _, kind in lines if kind is not GuardKind.REPORTED}


def _lines(log: Path) -> set[_Line]:
    try:
        return {_key(GuardLine.model_validate(line)) for line in JsonlLog(log)}
    except ValidationError as error:
        raise UserError(f"{log} is no log of a guard: restore it, or choose another directory.") from error


def _key(line: GuardLine) -> _Line:
    return line.question, line.attempt, line.tool, line.url, line.kind
