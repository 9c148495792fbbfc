"""What stands beside the attempts in a run's directory, for its figures. Knows no command line."""

from collections.abc import Sequence
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks import get_benchmark
from sanderling.evaluate.beside import Beside
from sanderling.evaluate.guarding import guard_counts
from sanderling.evaluate.judged import JudgedAttempt
from sanderling.evaluate.result import GuardFigures
from sanderling.evaluate.run_directory import RunDirectory, RunFile
from sanderling.evaluate.scores import as_table, read_scores
from sanderling.runs.files import replace_file


def beside_of(directory: RunDirectory, run: RunFile, judged: Sequence[JudgedAttempt]) -> Beside:
    """Prices, verdicts, scores, and what the guard did. Raises UserError for a damaged log or table."""
    file = directory.scores_file
    return Beside(
        prices=run.prices,
        guard=_guard(directory, run),
        looked_for=_looked_for(run.about.benchmark),
        judged=judged,
        scores=read_scores(file, {one.id: one.key for one in judged}) if file.is_file() else {},
    )


def keep_scores(directory: RunDirectory, given: Path) -> None:
    """Keep a user's scores with the run, in place of earlier ones. Raises UserError as `scores.read_scores`."""
    ids = {row.key: row.id for row in directory.attempts.rows()}
    found = read_scores(given, {id: key for key, id in ids.items()})
    replace_file(directory.scores_file, as_table(found, ids), durable=True)


def _guard(directory: RunDirectory, run: RunFile) -> GuardFigures | None:
    if not run.about.guard.on:
        return None
    found = guard_counts(directory.guard_file)
    return GuardFigures(kinds=found.kinds, attempts=found.attempts)


def _looked_for(benchmark: str) -> bool:
    """Not where a benchmark's questions were made from pages; a benchmark of another's is looked for."""
    try:
        return get_benchmark(benchmark).verbatim
    except UserError:
        return True
