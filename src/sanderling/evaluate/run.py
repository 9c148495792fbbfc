"""Run an evaluation: every question, several attempts, one judge; resumable, and honest about outages.

How attempts are made, stored and gone on with is the affair of `attempts`; here they become figures.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sanderling import __version__
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.evaluate.attempt_stores import WholeRecords
from sanderling.evaluate.attempts import PATIENT, Attempts, Retry, Rollout, make_attempts
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.rows import AttemptRow
from sanderling.evaluate.summary import RunInfo, summarise
from sanderling.evaluate.watch import Watch
from sanderling.judge.verdict import Judge
from sanderling.runs.jsonl import TrajectoryStore


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    total: int
    scored: int
    correct: int


class _Counted(Watch):
    """Tells how far a run is."""

    def __init__(self, total: int, tell: Callable[[Progress], None]) -> None:
        self._total, self._tell = total, tell
        self._counts: Counter[bool | None] = Counter()

    def resumed(self, episodes: Iterable[Episode]) -> None:
        self._counts.update(episode.correct for episode in episodes)
        self._report()

    def ended(self, episode: Episode) -> None:
        self._counts[episode.correct] += 1
        self._report()

    def _report(self) -> None:
        right, wrong = self._counts[True], self._counts[False]
        self._tell(Progress(self._counts.total(), self._total, right + wrong, right))


async def evaluate(
    questions: Sequence[Question],
    attempts: int,
    rollout: Rollout,
    judge: Judge,
    store: TrajectoryStore,
    *,
    command: str,
    seed: int,
    concurrency: int = 8,
    retry: Retry = PATIENT,
    unscored_limit: float = 0.02,
    on_progress: Callable[[Progress], None] | None = None,
    on_stored: Callable[[AttemptRow], None] | None = None,
) -> EvalResult:
    """Evaluate, or go on with what ``store`` already holds; see `make_attempts`.

    Raises UserError also when a budget was spent before every attempt was made: figures over a part would mislead.
    """
    started = time.monotonic()
    made = await make_attempts(
        Attempts(questions, attempts, seed),
        rollout,
        judge,
        WholeRecords(store),
        concurrency=concurrency,
        retry=retry,
        on_stored=on_stored,
        watch=None if on_progress is None else _Counted(len(questions) * attempts, on_progress),
    )
    if made.stopped:
        raise UserError(f"{made.stopped} What is done is kept, and the next run goes on.")
    date = datetime.now(UTC).isoformat(timespec="seconds")
    seconds = time.monotonic() - started
    info = RunInfo(command, seed, __version__, date, seconds, made.resumed, unscored_limit, judge.name)
    return summarise(made.episodes.values(), questions, attempts, info)
