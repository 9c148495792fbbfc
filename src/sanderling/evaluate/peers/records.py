"""Trajectories that others have made, as a run: which question and attempt each record is, and what has to be said of them all.

A record finds the benchmark's question by its task's name, which is the benchmark's own id, if that question was asked; else by
the question's exact text; else by its words. Nothing is guessed: two candidates are none. Without a benchmark's file the
records' own questions are taken: by the task's name where it is known, else by their text and accepted answers.

Attempts are numbered 0, 1, … within their question: in the order of the numbers that their places say, else as they are read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.text import normalised
from sanderling.core.types import Ending

UNMATCHED = "unmatched"  # what ids of questions begin with that the benchmark does not ask
NUMBER = "recorded_attempt"  # in a record's meta: the attempt's number where it came from, if it had one
HIDDEN = "Its texts are left out of reports and logs, as no benchmark's file says that they may be shown; --public does."


@dataclass(frozen=True)
class Found:
    """One recorded attempt, as the import gives it."""

    trajectory: Trajectory  # without nodes where the attempt was made and has no readable record
    layout: str
    task: str = ""  # the benchmark's id of the question, where the place of the record says it
    number: int | None = None  # of the attempt, where its place says it
    published: bool | None = None  # the verdict of those who made it; None: none is recorded

    @property
    def lost(self) -> bool:
        """Whether it has no readable record."""
        return not self.trajectory.nodes and self.trajectory.ending is Ending.CANCELLED


class Joiner:
    """A benchmark's questions by task, text and words.

    Example: ``Joiner(loaded.questions).find("Who wrote it?", task="17")`` gives the question and how it was found
    """

    def __init__(self, questions: Iterable[Question]) -> None:
        self.by_task: dict[str, Question] = {}
        """By the id that the publisher gave: ours without the benchmark's key."""
        self._by_text, self._by_words = (defaultdict[str, list[Question]](list) for _ in range(2))
        for question in questions:
            self.by_task[question.id.partition("/")[2] or question.id] = question
            self._by_text[_plain(question.text)].append(question)
            self._by_words[normalised(question.text)].append(question)

    def find(self, text: str, task: str = "") -> tuple[Question | None, str]:
        """The question of a record that asks ``text``, and how it was found; or None, and why."""
        named = self.by_task.get(task)
        if named is not None and _asks(text, named):
            return named, "by task"
        words = normalised(text)
        alike_words = self._by_words.get(words) if words else None
        for alike, how in ((self._by_text.get(_plain(text)), "by text"), (alike_words, "by words")):
            if alike:
                return (alike[0], how) if len(alike) == 1 else (None, "asked by several questions of the benchmark")
        return None, "asked by no question of the benchmark"


def _asks(text: str, question: Question) -> bool:
    """Whether a text asks this question, perhaps inside a prompt; no text at all contradicts nothing."""
    words, wanted = normalised(text), normalised(question.text)
    return not text.strip() or (f" {wanted} " in f" {words} " if wanted else _plain(text) == _plain(question.text))


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip("?？ ")  # some harnesses add a question mark


# What each record becomes ---------------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """What a reading becomes; settled before anything is written."""

    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    places: list[tuple[str, int | None]] = field(default_factory=list[tuple[str, int | None]])
    """Question and recorded number of each record, in the order of the reading."""
    numbers: list[int] = field(default_factory=list[int])  # the attempt that each of these becomes
    lost: int = 0
    published: dict[str, bool] = field(default_factory=dict[str, bool])  # by the id that the record gets
    joined: Counter[str] = field(default_factory=Counter[str])
    unmatched: Counter[str] = field(default_factory=Counter[str])
    layouts: dict[str, None] = field(default_factory=dict[str, None])
    private: bool = False  # a record says of its question that it is not to be published


def planned(records: Iterable[Found], joiner: Joiner | None) -> Plan:
    """Read all records once. ``joiner``: of the benchmark; None: the records' own questions. Raises UserError."""
    plan = Plan()
    published: list[bool | None] = []
    for one in records:
        question = _own(one, plan) if joiner is None else _joined(one, joiner, plan)
        plan.places.append((question.id, one.number))
        plan.lost += one.lost
        published.append(one.published)
        plan.layouts[one.layout] = None
        plan.private |= one.trajectory.question.meta.get("private") is True
    plan.numbers = _numbered(plan.places)
    ids = (f"{question}-{number}" for (question, _), number in zip(plan.places, plan.numbers, strict=True))
    plan.published = {id: right for id, right in zip(ids, published, strict=True) if right is not None}
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
    """The record's own question; equal texts with other accepted answers are another one."""
    asked = one.trajectory.question
    name = id = one.task or asked.id
    number = 1
    while (held := plan.questions.get(id)) and not one.task and (held.text, held.answers) != (asked.text, asked.answers):
        number += 1
        id = f"{name}~{number}"
    if held is None or not held.text:
        plan.questions[id] = asked.model_copy(update={"id": id})
    return plan.questions[id]


def _numbered(places: list[tuple[str, int | None]]) -> list[int]:
    """Attempts of a question count from 0 on, those with a number first. Raises UserError for two of one number."""
    of: defaultdict[str, list[int]] = defaultdict(list)
    for at, (question, _) in enumerate(places):
        of[question].append(at)
    found = [0] * len(places)
    for question, attempts in of.items():
        named = [number for at in attempts if (number := places[at][1]) is not None]
        if len(set(named)) < len(named):
            twice = next(number for number in named if named.count(number) > 1)
            raise UserError(f"Two records are attempt {twice} at {question!r}: remove one of them, or score them apart.")
        for rank, at in enumerate(sorted(attempts, key=lambda at: (places[at][1] is None, places[at][1] or 0, at))):
            found[at] = rank
    return found


def rewritten(records: Iterable[Found], plan: Plan) -> Iterator[Trajectory]:
    """The records of the same reading as they are stored."""
    for one, (id, recorded), attempt in zip(records, plan.places, plan.numbers, strict=True):
        meta = {**one.trajectory.meta, "recorded_as": one.trajectory.id}
        meta |= {} if recorded is None else {NUMBER: recorded}
        changes = {"id": f"{id}-{attempt}", "question": plan.questions[id], "seeds": Seeds(attempt=attempt), "meta": meta}
        yield one.trajectory.model_copy(update=changes)


# What a reader of the figures has to know -----------------------------------------------------------------------------------


class PeerFacts(Frozen):
    """What a run of others' records rests on; fixed with the files."""

    sources_sha256: str
    layouts: tuple[str, ...]
    records: int  # attempts with a record
    lost: int = 0  # attempts that have none that could be read: begun and not ended, or cut off
    unread: int = 0  # entries and files that could not be read
    benchmark_questions: int | None = None
    """That the benchmark's file holds; None: none was given, and the records' own accepted answers are used."""
    without_record: int = 0
    joined: dict[str, int] = Field(default_factory=dict[str, int])  # how records found their question
    unmatched: dict[str, int] = Field(default_factory=dict[str, int])  # records that found none, and why: unscored
    hidden: str = ""  # why texts are left out of reports and logs, where no file of the benchmark says so; a sentence


def notes_of(facts: PeerFacts) -> list[str]:
    """What a reader has to know before believing a figure, a sentence each."""
    notes: list[str] = []
    if facts.benchmark_questions is None:
        notes.append("Its accepted answers are the records' own: no file of the benchmark was given.")
    if facts.hidden:
        notes.append(facts.hidden)
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
