"""Others' trajectories as a run of ours: read, joined to a benchmark's questions, written into a log, judged like our own.

The records are read twice: once to learn what each is, once to write them. A verdict that stands in them is taken for a second
judge's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from sanderling.core.errors import UserError
from sanderling.data.fields import named_columns
from sanderling.evaluate.benchmarks.files import Loaded, load_benchmark, sha256_of
from sanderling.evaluate.benchmarks.rows import Options
from sanderling.evaluate.benchmarks.table import get_benchmark, is_private_name
from sanderling.evaluate.judging import Judges, by_hand_of, with_book
from sanderling.evaluate.log import About, Kind, RunLog, RunState, sha256_of_questions
from sanderling.evaluate.peers.files import Records, open_records
from sanderling.evaluate.peers.records import UNMATCHED, Joiner, PeerFacts, Plan, planned, rewritten
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import RejudgeConfig, judges_or_own, rejudge
from sanderling.judge.verdict import Judge
from sanderling.policy.budget import Spending

_UNNAMED = (
    "Its texts are left out of reports and logs, since AgentToLeaP's records do not say of which benchmark they are: "
    "eval score --public says that they may be published."
)


class ScoreConfig(RejudgeConfig):
    """Settings of ``sanderling eval score``."""

    benchmark: str = "jsonl"
    """Whose file the questions are: a key, FILE.toml or ``file.py:name``."""
    split: str = ""
    """The part that the file is, where its name does not say it."""
    columns: str = ""
    """Columns of unusual names: ``question=Prompt,answer=Gold``."""
    layout: str = ""
    """Only records of this layout (or ``file.py:name``); others are left out."""
    public: bool = False
    """AgentToLeaP's records, which name no benchmark, are of one that may be published."""
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
    peers = read_peers(sources, config.layout, loaded, public=config.public)
    spending.private = peers.about.private
    log.finish(write_peers(log, peers, command))
    by_hand = by_hand_of(log, verdicts)

    def chosen(first: Judge | None, second: Judge | None) -> Judges:
        if first is None:
            raise UserError("Nobody judges: name one with --judge.")
        return with_book(log, first, second, by_hand)

    config = config.model_copy(update={"judging": judging})
    return await rejudge(log, benchmark, config, spending, chosen, command=command, on_judged=on_judged)


@dataclass(frozen=True)
class PeerRun:
    """Others' records, before they are judged."""

    records: Records
    plan: Plan
    about: About


def read_peers(sources: Sequence[Path], layout: str = "", loaded: Loaded | None = None, *, public: bool = False) -> PeerRun:
    """Read the records once. Raises UserError.

    ``loaded``: the benchmark whose accepted answers count. ``public``: a person says that the texts may be published, where
    nothing else says what they are.
    """
    joiner = Joiner(loaded.questions) if loaded is not None else None
    records = open_records(sources, layout, joiner.by_task if joiner else ())
    plan = planned(records, joiner)
    questions = list(plan.questions.values())
    hidden = _why_hidden(plan, loaded, public=public)
    about = About(
        kind=Kind.PEERS,
        benchmark=loaded.benchmark if loaded else "",
        split=loaded.split if loaded else "",
        file=loaded.path_name if loaded else "",
        file_sha256=loaded.sha256 if loaded else "",
        chosen="those with a record" if loaded else "all",
        questions=len(questions),
        questions_sha256=sha256_of_questions(questions),
        seed=0,
        private=bool(hidden) or (loaded is not None and loaded.private),
        canaries=loaded.canaries if loaded else (),
        peers=_facts(records, plan, loaded, hidden),
    )
    return PeerRun(records, plan, about)


def write_peers(log: RunLog, run: PeerRun, command: str) -> RunState:
    """Write records, questions and published verdicts down, unless they are there. Raises UserError for another run's place."""
    questions = list(run.plan.questions.values())
    begun = log.begin(run.about, questions, run.plan.attempts, command)
    log.write_state(begun, questions)
    known = {one.id for one in log.episodes()}
    for record in rewritten(run.records, run.plan):
        if record.id not in known:
            log.append(record, durable=False)  # a loss of power takes what the same command writes again
    if run.plan.published:
        log.keep_published(run.plan.published)
    return begun


def _why_hidden(plan: Plan, loaded: Loaded | None, *, public: bool) -> str:
    """Why the records' texts are not to be published, in a sentence; empty: the records are no reason."""
    named = ", ".join(filter(is_private_name, plan.sets))
    why = f"its records name {named}" if named else "its records say that they are private" if plan.private else ""
    if public and (why or (loaded is not None and loaded.private)):
        reason = why or "the benchmark's file is private"
        raise UserError(
            f"--public cannot be said here, since {reason}: leave it out; eval report --show-texts shows you the texts."
        )
    if why:
        return f"Its texts are left out of reports and logs: {why}."
    return _UNNAMED if "agenttoleap" in plan.layouts and loaded is None and not public else ""


def _facts(records: Records, plan: Plan, loaded: Loaded | None, hidden: str) -> PeerFacts:
    left, asked = records.left, {one.id for one in loaded.questions} if loaded else set[str]()
    # One that is not the benchmark's is counted apart.
    answered = {id for id, one in plan.questions.items() if any(map(str.strip, one.answers)) or UNMATCHED in one.meta}
    return PeerFacts(
        sources=tuple(source.resolve().name for source in records.sources),
        sources_sha256=sha256_of(records.files),
        layouts=tuple(plan.layouts),
        records=len(plan.places),
        lost=len(plan.lost),
        unread=left["unread"] + left["files"] + plan.unplaced,
        copies=left["copies"],
        parts=left["parts"],
        benchmark_questions=len(loaded.questions) if loaded else None,
        without_record=len(asked - plan.questions.keys()),
        without_answer=sum(place.question not in answered for place in plan.places),
        joined=dict(plan.joined),
        unmatched=dict(plan.unmatched),
        unmatched_examples=tuple(plan.unmatched_examples),
        published=len(plan.published),
        published_unsure=left["unsure"] + left["contradictions"],
        sets=tuple(plan.sets),
        hidden=hidden,
        chosen=plan.selections,
    )
