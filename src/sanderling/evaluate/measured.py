"""An agent measured on a benchmark's questions, into a directory: what is asked, the attempts, the figures.

A figure by a judge that nobody chose would mislead, so the publisher's own rule is the only default there is. Knows no command
line and no model.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.asking import BudgetSpentError, placed
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.evaluate.attempts import PATIENT, Attempts, Made, Retry, make_attempts
from sanderling.evaluate.begun import JUDGE, require_begun_with
from sanderling.evaluate.benchmark_files import Loaded
from sanderling.evaluate.benchmarks import Benchmark
from sanderling.evaluate.guarding import NO_GUARD, GuardFacts
from sanderling.evaluate.judged import read_judged
from sanderling.evaluate.judging import Judges, concluded, info_of
from sanderling.evaluate.recorded_calls import Recording
from sanderling.evaluate.rollouts import rollout_of
from sanderling.evaluate.run_directory import About, RunDirectory, RunFile, sha256_of_questions
from sanderling.evaluate.watch import Watch


@dataclass(frozen=True)
class Wanted:
    """What a run is to measure."""

    about: About
    questions: tuple[Question, ...]
    judges: tuple[str, ...]
    """Names of judges, as people write them."""
    unjudged: bool = False
    """Questions without accepted answers are asked as well."""


def prepared(
    benchmark: Benchmark,
    loaded: Loaded,
    judges: Sequence[str],
    limit: int | None,
    sample_seed: int | None,
    seed: int,
    guard: GuardFacts = NO_GUARD,
    *,
    unjudged: bool = False,
) -> Wanted:
    """Choose questions and judges. Raises UserError where no judge is named and the publisher's own is a model."""
    chosen, how = _chosen(loaded.questions, limit, sample_seed)
    _require_answers(chosen, unjudged=unjudged)
    about = About(
        benchmark=loaded.benchmark,
        split=loaded.split,
        file=loaded.path_name,
        file_sha256=loaded.sha256,
        chosen=how,
        questions=len(chosen),
        questions_sha256=sha256_of_questions(chosen),
        seed=seed,
        private=loaded.private,
        canaries=loaded.canaries,
        guard=guard,
    )
    return Wanted(about, tuple(chosen), judges_or_own(benchmark, judges), unjudged)


def judges_or_own(benchmark: Benchmark | None, judges: Sequence[str]) -> tuple[str, ...]:
    """The judges that somebody named, else the publisher's own rule. Raises UserError where there is none."""
    if judges:
        return tuple(judges)
    if benchmark is None:
        raise UserError("Without a benchmark nothing says who judges: name a rule or a model with --judge.")
    if not benchmark.own_rule:
        raise UserError(
            f"{benchmark.title} is scored by a model (its publisher's: {benchmark.published_judge}): name one with --judge, "
            "or a rule, and say so beside the figure."
        )
    return (benchmark.own_rule,)


def _require_answers(questions: Sequence[Question], *, unjudged: bool) -> None:
    without = sum(not question.answers for question in questions)
    if without and not unjudged:
        raise UserError(
            f"{without:,} of the {len(questions):,} questions have no accepted answer, so that nothing can be scored there: "
            "say --unjudged to have them attempted all the same."
        )


@dataclass(frozen=True)
class Measure:
    """A run that has begun."""

    directory: RunDirectory
    run: RunFile
    questions: Sequence[Question]
    concurrency: int = 8
    unscored_limit: float = 0.02
    unjudged: bool = False
    recording: Recording | None = None
    """Of a recorded world."""
    together: bool = False
    """All attempts at a question next to each other."""


async def measured(
    measure: Measure,
    agent: Agent,
    judges: Judges,
    journal: Journal,
    *,
    retry: Retry = PATIENT,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts that are missing; when none is, write the result and end the round.

    Raises UserError as `attempts.make_attempts` does, and for another agent or world than the run was begun with.
    """
    directory, run, judge = measure.directory, measure.run, judges.first
    require_begun_with(directory.run, directory.store, {**agent.as_json(), JUDGE: placed(judge.name, judge.places)})
    run = run.model_copy(update={"unscored_limit": measure.unscored_limit})
    directory.go_on(run, measure.questions)
    began = time.monotonic()
    made = await make_attempts(
        Attempts(measure.questions, run.attempts, run.about.seed, run.round, measure.unjudged, measure.together),
        rollout_of(agent, run.about.seed, journal=journal, cancel=cancel, watch=watch),
        judge,
        directory.attempts,
        concurrency=measure.concurrency,
        retry=retry,
        on_stored=journal.stored,
        watch=watch,
        cancel=cancel,
    )
    if made.stopped:
        return made
    share = measure.recording.share(directory.store) if measure.recording else None
    info = info_of(run, run.commands[-1], time.monotonic() - began, made.resumed, measure.unscored_limit, share)
    rows = [made.rows[one.id, attempt] for one in measure.questions for attempt in range(run.attempts)]
    try:
        await concluded(
            directory,
            rows,
            measure.questions,
            run.attempts,
            judges,
            info,
            concurrency=measure.concurrency,
            retry=retry,
            on_judged=watch and watch.judged,
        )
    except BudgetSpentError as error:
        return replace(made, stopped=str(error))
    directory.finish(run)
    if not judges.by_hand.lines:
        return made
    word = {one.key: one.correct for one in read_judged(directory.judged_file)}
    return replace(made, episodes={key: replace(one, correct=word[key]) for key, one in made.episodes.items()})


def _chosen(questions: Sequence[Question], limit: int | None, sample_seed: int | None) -> tuple[list[Question], str]:
    """Some of the questions, in the file's order, and how they were chosen. Raises UserError."""
    if limit is None and sample_seed is not None:
        raise UserError("--sample-seed draws a sample: say with --limit how large it is.")
    if limit is None or limit >= len(questions):
        return list(questions), "all"
    if sample_seed is None:
        return list(questions[:limit]), f"first {limit}"
    places = sorted(random.Random(sample_seed).sample(range(len(questions)), limit))
    return [questions[place] for place in places], f"{limit} by seed {sample_seed}"
