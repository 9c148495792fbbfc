"""Trajectories that others have made, as a run of ours: read, joined to a benchmark's questions, judged like our own.

Sources are files of any layout that `data` imports, or AgentToLeaP's folders: ``TASK/traj_I/``, ``TASK_run_I/`` or ``TASK/``,
each with a ``result.json``, which an attempt that was killed lacks. ``TASK-context-N/`` without one is a later part of an
attempt's context. What the harness copies to ``success/`` and ``fail/`` is no further attempt.

A record finds the benchmark's question by its task's name, if that question was asked, else by the question's words; without a
benchmark's file the records' own questions are taken. Attempts are numbered 0, 1, … within their question, in the order of
their folders' numbers, else as they are read. Records are read twice, to learn what each is and to write them.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.text import normalised
from sanderling.core.types import Ending
from sanderling.data.importing import Import, find_places
from sanderling.data.layouts import REPEATED
from sanderling.data.questions import named_columns
from sanderling.evaluate.benchmark_files import Loaded, load_benchmark, sha256_of
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import get_benchmark
from sanderling.evaluate.judging import by_hand_of
from sanderling.evaluate.log import About, PeerFacts, RunLog, sha256_of_questions
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import RejudgeConfig, judges_or_own, rejudge
from sanderling.policy.budget import Spending

UNMATCHED = "unmatched"  # what ids of questions begin with that the benchmark does not ask


@dataclass(frozen=True)
class Found:
    """One recorded attempt, as the import gives it."""

    trajectory: Trajectory  # without nodes where the attempt was made and has no readable record
    layout: str
    task: str = ""  # the benchmark's id of the question, where the place of the record says it
    number: int | None = None  # of the attempt, where its place says it

    @property
    def lost(self) -> bool:
        """Whether it has no readable record."""
        return not self.trajectory.nodes and self.trajectory.ending is Ending.CANCELLED


@dataclass
class Records:
    """Others' records, one after the other. Iterating again reads them again, in the same order."""

    files: list[Path]
    read: Callable[[], Iterator[Found]]
    unread: int = 0  # entries and files, of the last reading

    def __iter__(self) -> Iterator[Found]:
        return self.read()


def open_records(sources: Sequence[Path], layout: str = "", tasks: Iterable[str] = ()) -> Records:
    """Records of files, or of AgentToLeaP's folders, whose ``tasks`` are known. ``layout``: ``file.py:name``, for files.

    Raises UserError for both at once, and for sources that are not there.
    """
    missing = next((source for source in sources if not source.exists()), None)
    if missing is not None:
        raise UserError(f"There is no file or folder {missing}: check the path.")
    # Others, our own runs too, call a file so; in AgentToLeaP's stands a history.
    may_be = layout in ("", "agenttoleap")
    leaps = [may_be and any(_field(path, "conversation_history") for path in one.rglob(_RESULT)) for one in sources]
    if all(leaps):
        return _leap_folders(sources, set(tasks))
    if any(leaps):
        raise UserError("Folders of AgentToLeaP's results and other files cannot be scored together: score each by itself.")

    def read() -> Iterator[Found]:
        reading = Import(*sources, layout=layout)
        for one in reading:
            if isinstance(one, Trajectory):
                number = one.seeds.attempt if reading.layout == "sanderling" else None
                yield Found(one, reading.layout, number=number)
        records.unread = reading.report.unread + len(reading.report.left_files)

    records = Records([place.path for place in find_places(sources)], read)
    return records


# AgentToLeaP's folders ------------------------------------------------------------------------------------------------------

FAILED = "the run failed; its record does not say whether the model, a tool or the harness did"
_RESULT, _COPIES = "result.json", ("success", "fail")


class _Attempt(NamedTuple):
    """One attempt's folder, or a copy of it."""

    task: str
    number: int
    folder: Path
    is_copy: bool  # the harness's, of an attempt that it judged


def _leap_folders(sources: Sequence[Path], tasks: set[str]) -> Records:
    """The attempts of one run, task by task.

    A run that failed (``success`` is false) is an outage: its file does not say whose.
    """
    paths = (path for source in sources for path in sorted(source.resolve().rglob("*.json")))
    folders = list(dict.fromkeys(path.parent for path in paths if path.name in {_RESULT, *REPEATED}))
    whole = [folder for folder in folders if (folder / _RESULT).exists() or not re.fullmatch(r".+-context-\d+", folder.name)]
    tasks = tasks | {folder.parent.name for folder in whole if folder.name.startswith("traj_")}
    attempts: dict[tuple[str, int], _Attempt] = {}
    for one in sorted((_placed(folder, tasks) for folder in whole), key=lambda one: one.is_copy):
        held = attempts.setdefault((one.task, one.number), one)  # a copy whose attempt is gone takes its place
        if held is not one and not one.is_copy:
            raise UserError(f"{one.folder} and {held.folder} are both attempt {one.number} of {one.task!r}: remove one.")

    def read() -> Iterator[Found]:
        for one in sorted(attempts.values()):
            found = _read(one)
            if isinstance(found, str):
                asked = Question(id=one.task, text="")
                found = Trajectory(id="", question=asked, nodes=(), leaf=None, ending=Ending.CANCELLED, detail=found)
            yield Found(found, "agenttoleap", one.task, one.number)

    results = [one.folder / _RESULT for one in sorted(attempts.values())]
    return Records([result for result in results if result.exists()], read)


def _placed(folder: Path, tasks: set[str]) -> _Attempt:
    """Whose folder it is. ``x_run_2`` is a run of x where its record says so or x is a known task, else a task of that name."""
    if traj := re.fullmatch(r"traj_(\d+)", folder.name):
        return _Attempt(folder.parent.name, int(traj[1]), folder, folder.parent.parent.name in _COPIES)
    run, is_copy = re.fullmatch(r"(.+)_run_(\d+)", folder.name), folder.parent.name in _COPIES
    known = run is not None and run[1] in tasks and folder.name not in tasks
    if run is not None and (known or _field(folder / _RESULT, "task_id") == run[1]):
        return _Attempt(run[1], int(run[2]), folder, is_copy)
    return _Attempt(folder.name, 0, folder, is_copy)


def _read(one: _Attempt) -> Trajectory | str:
    """The record of an attempt, or why there is none."""
    if not (one.folder / _RESULT).exists():
        return "begun, and not ended"
    try:
        reading = Import(one.folder / _RESULT, name=f"{one.task}/{one.number}")
        records = [each for each in reading if isinstance(each, Trajectory) and each.meta.get("layout") == "agenttoleap"]
    except UserError:
        records = []
    if len(records) != 1:
        return "its record is cut off, or none"
    model, fields = _field(one.folder / "meta_config.json", "model"), records[0].meta.get("fields")
    changes: dict[str, Any] = {"model": model if isinstance(model, str) else ""}
    if isinstance(fields, dict) and fields.get("success") is False:
        changes |= {"ending": Ending.POLICY_OUTAGE, "detail": FAILED}
    return records[0].model_copy(update=changes)


def _field(path: Path, name: str) -> Any:
    """A field of a JSON file; None where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found.get(name) if isinstance(found, dict) else None


# What each record becomes ---------------------------------------------------------------------------------------------------


class Joiner:
    """A benchmark's questions by task and by their words.

    Example: ``Joiner(loaded.questions).find("Who wrote it?", task="17")`` gives the question and how it was found
    """

    def __init__(self, questions: Iterable[Question]) -> None:
        self.by_task: dict[str, Question] = {}  # by the id that the publisher gave: ours without the benchmark's key
        self._by_text = defaultdict[str, list[Question]](list)
        for question in questions:
            self.by_task[question.id.partition("/")[2] or question.id] = question
            self._by_text[_words(question.text)].append(question)

    def find(self, text: str, task: str = "") -> tuple[Question | None, str]:
        """The question of a record that asks ``text``, and how it was found; or None, and why."""
        named = self.by_task.get(task)
        # Perhaps inside a prompt; no text at all contradicts nothing.
        if named is not None and (not text.strip() or f" {_words(named.text)} " in f" {_words(text)} "):
            return named, "by task"
        alike = self._by_text.get(_words(text), [])
        if len(alike) == 1:
            return alike[0], "by text"
        return None, f"asked by {'several questions' if alike else 'no question'} of the benchmark"


def _words(text: str) -> str:
    return normalised(text) or " ".join(text.split())


@dataclass
class Plan:
    """What a reading becomes; settled before anything is written."""

    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    places: list[tuple[str, int | None]] = field(default_factory=list[tuple[str, int | None]])
    """Question and recorded number of each record, in the order of the reading."""
    numbers: list[int] = field(default_factory=list[int])  # the attempt that each of these becomes
    lost: int = 0
    joined: Counter[str] = field(default_factory=Counter[str])
    unmatched: Counter[str] = field(default_factory=Counter[str])
    layouts: dict[str, None] = field(default_factory=dict[str, None])


def planned(records: Iterable[Found], joiner: Joiner | None) -> Plan:
    """Read all records once. ``joiner``: of the benchmark; None: the records' own questions. Raises UserError."""
    plan = Plan()
    for one in records:
        question = _own(one, plan) if joiner is None else _joined(one, joiner, plan)
        plan.places.append((question.id, one.number))
        plan.lost += one.lost
        plan.layouts[one.layout] = None
    if plan.lost == len(plan.places):
        raise UserError("No trajectory can be read: give files with trajectories, or AgentToLeaP's folder of results.")
    plan.numbers = _numbered(plan.places)
    return plan


def _joined(one: Found, joiner: Joiner, plan: Plan) -> Question:
    """The benchmark's question, or else the record's own without its answers, which may be another benchmark's."""
    asked = one.trajectory.question
    found, how = joiner.find(asked.text, one.task)
    if found is not None:
        plan.joined[how] += not one.lost
        return plan.questions.setdefault(found.id, found)
    plan.unmatched[how] += not one.lost
    id = f"{UNMATCHED}/{one.task or asked.id}"
    return plan.questions.setdefault(id, asked.model_copy(update={"id": id, "answers": (), "meta": {UNMATCHED: how}}))


def _own(one: Found, plan: Plan) -> Question:
    """The record's own question; equal ids with other texts or accepted answers are another one."""
    asked, id, number = one.trajectory.question, one.task or one.trajectory.question.id, 1
    name = id
    while (held := plan.questions.get(id)) and not one.task and (held.text, held.answers) != (asked.text, asked.answers):
        number += 1
        id = f"{name}~{number}"
    if held is None or not held.text:
        plan.questions[id] = asked.model_copy(update={"id": id})
    return plan.questions[id]


def _numbered(places: list[tuple[str, int | None]]) -> list[int]:
    """Attempts of a question count from 0 on, those with a number first. Raises UserError for two of one number."""
    twice = [place for place, count in Counter(place for place in places if place[1] is not None).items() if count > 1]
    for question, number in twice:
        raise UserError(f"Two records are attempt {number} at {question!r}: remove one of them, or score them apart.")
    made: Counter[str] = Counter()
    found = [0] * len(places)
    for at in sorted(range(len(places)), key=lambda at: (places[at][1] is None, places[at][1] or 0, at)):
        found[at] = made[places[at][0]]
        made[places[at][0]] += 1
    return found


def rewritten(records: Iterable[Found], plan: Plan) -> Iterator[Trajectory]:
    """The records of the same reading as they are stored."""
    for one, (id, _), attempt in zip(records, plan.places, plan.numbers, strict=True):
        meta = {**one.trajectory.meta, "recorded_as": one.trajectory.id}
        changes = {"id": f"{id}-{attempt}", "question": plan.questions[id], "seeds": Seeds(attempt=attempt), "meta": meta}
        yield one.trajectory.model_copy(update=changes)


def notes_of(facts: PeerFacts) -> list[str]:
    """What a reader has to know before believing a figure, a sentence each."""
    notes: list[str] = []
    if facts.benchmark_questions is None:
        notes.append("Its accepted answers are the records' own: no file of the benchmark was given.")
    if facts.unmatched:
        counts = ", ".join(f"{count:,} {why}" for why, count in facts.unmatched.items())
        notes.append(f"Its records without a question of the benchmark are unscored: {counts}.")
    if facts.without_record:
        missing = f"{facts.without_record:,} of the benchmark's {facts.benchmark_questions:,}"
        notes.append(f"Questions without any record: {missing}.")
    if facts.lost:
        notes.append(f"{facts.lost:,} attempts were begun and have no record that could be read: unscored.")
    if facts.unread:
        notes.append(f"{facts.unread:,} entries or files could not be read, and are in no count.")
    return notes


# The run --------------------------------------------------------------------------------------------------------------------


class ScoreConfig(RejudgeConfig):
    """Settings of ``sanderling eval score``."""

    benchmark: str = "jsonl"
    """Benchmark of the question file: a key, or ``file.py:name``."""
    split: str = ""
    """Split of the file, if its name does not say it."""
    columns: str = ""
    """Names of columns: ``question=Prompt,answer=Gold``."""
    layout: str = ""
    """Your own layout, ``file.py:name``."""
    unscored_limit: float | None = Field(default=0.02, ge=0.0, le=1.0)
    """Above this share of unscored attempts the run is invalid."""


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
    config = config.model_copy(update={"judging": judges_or_own(benchmark, config.judging)})
    joiner = Joiner(loaded.questions) if loaded is not None else None
    records = open_records(sources, config.layout, joiner.by_task if joiner else ())
    plan = planned(records, joiner)
    about = _about(records, plan, loaded)
    spending.private = about.private
    state = log.begin(about, list(plan.questions.values()), 1 + max(plan.numbers), command)
    log.write_state(state, list(plan.questions.values()))
    known = {one.id for one in log.episodes()}
    for record in rewritten(records, plan):
        if record.id not in known:
            log.append(record, durable=False)  # a loss of power takes what the same command writes again
    log.finish(state)
    by_hand = by_hand_of(log, verdicts)
    return await rejudge(log, benchmark, config, spending, by_hand, anew=False, command=command, on_judged=on_judged)


def _about(records: Records, plan: Plan, loaded: Loaded | None) -> About:
    """What the run is; private where no benchmark's file says that its texts may be shown."""
    asked = {one.id for one in loaded.questions} if loaded else set[str]()
    questions = list(plan.questions.values())
    facts = PeerFacts(
        sources_sha256=sha256_of(records.files),
        layouts=tuple(plan.layouts),
        records=len(plan.places) - plan.lost,
        lost=plan.lost,
        unread=records.unread,
        benchmark_questions=len(loaded.questions) if loaded else None,
        without_record=len(asked - plan.questions.keys()),
        joined=dict(plan.joined),
        unmatched=dict(plan.unmatched),
    )
    chosen = {"questions": len(questions), "questions_sha256": sha256_of_questions(questions), "seed": 0, "peers": facts}
    if loaded is None:
        return About(benchmark="", private=True, **chosen)
    return About(**loaded.facts, chosen="those with a record", **chosen)
