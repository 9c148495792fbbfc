"""Others' records as a run's directory of the same shape as ours, ready to be judged.

The files are read twice: once to learn which question and attempt each record is, and what has to be said of them all, once to
write them; memory holds one record. The same command on the same files goes on with what is written. Knows no judge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.layouts import layout_named
from sanderling.evaluate.benchmark_files import Loaded
from sanderling.evaluate.benchmarks import is_private_name
from sanderling.evaluate.peers.agenttoleap import LeapFolders
from sanderling.evaluate.peers.contract import Records
from sanderling.evaluate.peers.facts import PeerFacts
from sanderling.evaluate.peers.files import RecordedFiles
from sanderling.evaluate.peers.folders import holds_results
from sanderling.evaluate.peers.joining import Joiner
from sanderling.evaluate.peers.plan import UNMATCHED, Plan, planned, rewritten
from sanderling.evaluate.run_directory import About, Kind, RunDirectory, RunFile, sha256_of_questions
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import write_trajectories

_UNNAMED = (
    "Its texts are left out of reports and logs, since AgentToLeaP's records do not say of which benchmark they are: "
    "eval score --public says that they may be published."
)


@dataclass(frozen=True)
class Scored:
    """What others' records are, before they are judged."""

    records: Records
    plan: Plan
    about: About


def open_records(sources: Sequence[Path], layout: str = "", tasks: frozenset[str] = frozenset()) -> Records:
    """Records of files, or of AgentToLeaP's folders. Raises UserError for both at once, and for sources that are not there."""
    if layout:
        layout_named(layout)
    missing = next((source for source in sources if not source.exists()), None)
    if missing is not None:
        raise UserError(f"There is no file or folder {missing}: check the path.")
    leaps = [holds_results(source) for source in sources] if layout in ("", "agenttoleap") else [False]
    if all(leaps):
        return LeapFolders(sources, tasks)
    if any(leaps):
        raise UserError("Folders of AgentToLeaP's results and other files cannot be scored together: score each by itself.")
    return RecordedFiles(sources, layout)


def prepared(sources: Sequence[Path], layout: str = "", loaded: Loaded | None = None, *, public: bool = False) -> Scored:
    """Read the records once. Raises UserError.

    ``loaded``: the benchmark whose accepted answers count. ``public``: a person says that the texts may be published, where
    nothing else says what they are.
    """
    joiner = Joiner(loaded.questions) if loaded is not None else None
    records = open_records(sources, layout, joiner.tasks if joiner else frozenset())
    plan = planned(records, joiner)
    questions = list(plan.questions.values())
    hidden = _hidden(plan, loaded, public=public)
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
    return Scored(records, plan, about)


def written(directory: RunDirectory, scored: Scored, command: str) -> RunFile:
    """Write records, questions and published verdicts down, unless they are there. Raises UserError for another run's place."""
    questions = list(scored.plan.questions.values())
    begun = directory.begin(scored.about, questions, scored.plan.attempts, command)
    directory.go_on(begun, questions)
    if not directory.store.path.exists():
        write_trajectories(directory.store.path, rewritten(scored.records, scored.plan))
    if scored.plan.published:
        lines = [
            f'"{id.replace(chr(34), chr(34) * 2)}",{"yes" if said else "no"}' for id, said in scored.plan.published.items()
        ]
        replace_file(directory.published_file, "\n".join(["id,correct", *lines]) + "\n", durable=True)
    return begun


def _hidden(plan: Plan, loaded: Loaded | None, *, public: bool) -> str:
    """Why the records' texts are not to be published, in a sentence; empty: the records are no reason."""
    named = ", ".join(filter(is_private_name, plan.sets))
    why = f"its records name {named}" if named else "its records say that they are private" if plan.private else ""
    if public and (why or (loaded is not None and loaded.private)):
        told = why or "the benchmark's file is private"
        raise UserError(
            f"--public cannot be said here, since {told}: leave it out; eval report --show-texts shows you the texts."
        )
    if why:
        return f"Its texts are left out of reports and logs: {why}."
    if "agenttoleap" in plan.layouts and loaded is None and not public:
        return _UNNAMED
    return ""


def _facts(records: Records, plan: Plan, loaded: Loaded | None, hidden: str) -> PeerFacts:
    sources, left = records.sources(), records.left
    asked = {one.id for one in loaded.questions} if loaded else set[str]()
    return PeerFacts(
        sources=sources.names,
        sources_sha256=sources.sha256,
        layouts=tuple(plan.layouts),
        records=len(plan.places),
        lost=len(plan.lost),
        unread=left.unread + left.files + plan.unplaced,
        copies=left.copies,
        parts=left.parts,
        benchmark_questions=len(loaded.questions) if loaded else None,
        without_record=len(asked - plan.questions.keys()),
        without_answer=sum(not _can_be_scored(plan.questions[place.question]) for place in plan.places),
        joined=dict(plan.joined),
        unmatched=dict(plan.unmatched),
        unmatched_examples=tuple(plan.unmatched_examples),
        published=len(plan.published),
        published_unsure=left.unsure_verdicts + left.contradictions,
        sets=tuple(plan.sets),
        hidden=hidden,
        chosen=plan.selections,
    )


def _can_be_scored(question: Question) -> bool:
    """Whether it has an accepted answer; one that is not the benchmark's is counted apart."""
    return any(answer.strip() for answer in question.answers) or UNMATCHED in question.meta
