"""Others' trajectories as a run of ours: read, joined to a benchmark's questions, written into a log, judged like our own.

The records are read twice: once to learn what each is, once to write them. A verdict that stands in them is taken for a second
judge's.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field

from sanderling.core.errors import UserError
from sanderling.data.questions import named_columns
from sanderling.evaluate.benchmarks.files import Loaded, load_benchmark, sha256_of
from sanderling.evaluate.benchmarks.rows import Options
from sanderling.evaluate.benchmarks.table import get_benchmark
from sanderling.evaluate.judging import by_hand_of
from sanderling.evaluate.log import About, Kind, RunLog, sha256_of_questions
from sanderling.evaluate.peers.files import Records, open_records
from sanderling.evaluate.peers.records import HIDDEN, Joiner, PeerFacts, Plan, planned, rewritten
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import RejudgeConfig, judges_or_own, rejudge
from sanderling.policy.budget import Spending


class ScoreConfig(RejudgeConfig):
    """Settings of ``sanderling eval score``."""

    benchmark: str = "jsonl"
    """Whose file the questions are: a key, or ``file.py:name``."""
    split: str = ""
    """The part that the file is, where its name does not say it."""
    columns: str = ""
    """Columns of unusual names: ``question=Prompt,answer=Gold``."""
    layout: str = ""
    """Only records of this layout (or ``file.py:name``); others are left out."""
    public: bool = False
    """Without a benchmark's file: the records may be shown in reports and logs."""
    unscored_limit: float | None = Field(default=0.02, ge=0.0, le=1.0)
    """A larger share of unscored attempts makes the run invalid."""


async def score_peers(
    sources: Sequence[Path],
    log: RunLog,
    config: ScoreConfig,
    spending: Spending,
    *,
    questions: Path | None = None,
    canary: str = "",
    verdicts: Path | None = None,
    command: str = "",
    on_judged: Callable[[int], None] | None = None,
) -> EvalResult:
    """Others' records as a run, judged; the same call on the same files goes on.

    ``questions``: the benchmark's file, whose accepted answers count; without it the records' own. ``canary`` decrypts one that
    does not hold its own. ``verdicts``: a person's, kept with the run. Raises UserError, and BudgetSpentError.
    """
    if questions is None and (config.benchmark != "jsonl" or config.split or config.columns or canary):
        key = config.benchmark
        raise UserError(f"Give the file of {key} with --questions: without it the records' own accepted answers are taken.")
    benchmark = get_benchmark(config.benchmark) if questions is not None else None
    options = Options(split=config.split, columns=named_columns(config.columns), canary=canary)
    loaded = load_benchmark(benchmark, questions, options) if benchmark is not None and questions is not None else None
    judging = config.judging.model_copy(update={"judges": judges_or_own(benchmark, config.judging.judges)})
    joiner = Joiner(loaded.questions) if loaded is not None else None
    records = open_records(sources, config.layout, joiner.by_task if joiner else ())
    plan = planned(records, joiner)
    about = _about(records, plan, loaded, public=config.public)
    spending.private = about.private
    _write(log, records, plan, about, command)
    by_hand = by_hand_of(log, verdicts)

    config = config.model_copy(update={"judging": judging})
    return await rejudge(log, benchmark, config, spending, by_hand, anew=False, command=command, on_judged=on_judged)


def _write(log: RunLog, records: Records, plan: Plan, about: About, command: str) -> None:
    """Write records, questions and published verdicts down, unless they are there. Raises UserError for another run's place."""
    questions = list(plan.questions.values())
    begun = log.begin(about, questions, 1 + max(plan.numbers), command)
    log.write_state(begun, questions)
    known = {one.id for one in log.episodes()}
    for record in rewritten(records, plan):
        if record.id not in known:
            log.append(record, durable=False)  # a loss of power takes what the same command writes again
    if plan.published:
        log.keep_published(plan.published)
    log.finish(begun)


def _about(records: Records, plan: Plan, loaded: Loaded | None, *, public: bool) -> About:
    """What the run is. ``public``: the texts may be published, where no benchmark's file says what they are."""
    hidden = "" if loaded is not None or (public and not plan.private) else HIDDEN
    asked = {one.id for one in loaded.questions} if loaded else set[str]()
    questions = list(plan.questions.values())
    return About(
        kind=Kind.PEERS,
        benchmark=loaded.benchmark if loaded else "",
        split=loaded.split if loaded else "",
        file=loaded.path_name if loaded else "",
        file_sha256=loaded.sha256 if loaded else "",
        chosen="those with a record" if loaded else "all",
        questions=len(questions),
        questions_sha256=sha256_of_questions(questions),
        seed=0,
        private=plan.private or bool(hidden) or (loaded is not None and loaded.private),
        canaries=loaded.canaries if loaded else (),
        peers=PeerFacts(
            sources_sha256=sha256_of(records.files),
            layouts=tuple(plan.layouts),
            records=len(plan.places) - plan.lost,
            lost=plan.lost,
            unread=records.unread,
            benchmark_questions=len(loaded.questions) if loaded else None,
            without_record=len(asked - plan.questions.keys()),
            joined=dict(plan.joined),
            unmatched=dict(plan.unmatched),
            hidden=hidden,
        ),
    )
