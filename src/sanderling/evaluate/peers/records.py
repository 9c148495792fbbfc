"""Trajectories that others have made, as a run: which question and attempt each record is, and what has to be said of them all.

A record finds the benchmark's question by its task's name, which is the benchmark's own id; else by the question's exact text;
else by its words, as contamination compares them. Nothing is guessed: two candidates are none, and a task's name alone proves
nothing where another text was asked, since benchmarks number their questions alike. Without a benchmark's file the records' own
questions are taken: by the task's name where it is known, else by their text and accepted answers.

Attempts are numbered 0, 1, … within their question: in the order of the numbers that their places say, else as they are read.
`files` reads the records and writes the run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.text import normalised
from sanderling.core.types import Ending
from sanderling.evaluate.result import EvalResult

UNMATCHED = "unmatched"
"""What ids of questions begin with that the benchmark does not ask."""
PLACE = "recorded_as"
"""In a record's meta: its id where it came from."""
NUMBER = "recorded_attempt"
"""In a record's meta: the attempt's number where it came from, if it had one."""
_EXAMPLES = 3


@dataclass(frozen=True)
class Found:
    """One recorded attempt."""

    trajectory: Trajectory
    """As the import gives it."""
    layout: str
    task: str = ""
    """The task's own name, where the place of the record says it; it is the benchmark's id of the question."""
    number: int | None = None
    """Of the attempt, where its place says it."""
    published: bool | None = None
    """The verdict of those who made it; None: none is recorded."""
    named_set: str = ""
    """The benchmark's name as the record has it."""
    chosen: str = ""
    """Why such records are a selection; empty: nothing says that they are."""
    chosen_if_right: bool = False
    """They are one only where all of them are published as right."""


@dataclass(frozen=True)
class Lost:
    """An attempt that was made and has no readable record."""

    task: str
    number: int
    why: str


# A benchmark's questions, to be found again ---------------------------------------------------------------------------------


class Joiner:
    """A benchmark's questions by task, text and words.

    Example: ``Joiner(loaded.questions).find("Who wrote it?", task="17")`` gives the question and how it was found
    """

    def __init__(self, questions: Iterable[Question]) -> None:
        self.by_task: dict[str, Question] = {}
        """By the id that the publisher gave: ours without the benchmark's key."""
        self._by_text: dict[str, list[Question]] = {}
        self._by_words: dict[str, list[Question]] = {}
        for question in questions:
            self.by_task[question.id.partition("/")[2] or question.id] = question
            self._by_text.setdefault(_plain(question.text), []).append(question)
            if words := normalised(question.text):
                self._by_words.setdefault(words, []).append(question)

    def find(self, text: str, task: str = "") -> tuple[Question | None, str]:
        """The question of a record that asks ``text``, and how it was found; or None, and why."""
        named = self.by_task.get(task) if task else None
        if named is not None and _asks(text, named):
            return named, "by task"
        for held, key, how in ((self._by_text, _plain(text), "by text"), (self._by_words, normalised(text), "by words")):
            if alike := held.get(key):
                return (alike[0], how) if len(alike) == 1 else (None, "asked by several questions of the benchmark")
        return None, "asked by no question of the benchmark"


def _asks(text: str, question: Question) -> bool:
    """Whether a text asks this question, perhaps inside a prompt; no text at all contradicts nothing."""
    if not text.strip():
        return True
    words, wanted = normalised(text), normalised(question.text)
    return f" {wanted} " in f" {words} " if wanted else _plain(text) == _plain(question.text)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip("?？ ")  # some harnesses add a question mark


# What each record becomes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """What a record becomes."""

    question: str
    attempt: int
    recorded: int | None = None
    """Its number where it came from."""

    @property
    def id(self) -> str:
        """Of the attempt's record."""
        return f"{self.question}-{self.attempt}"


@dataclass
class Plan:
    """What a reading becomes; settled before anything is written."""

    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    places: list[Place] = field(default_factory=list[Place])
    """Of the records, in the order of the reading."""
    lost: list[tuple[Place, str]] = field(default_factory=list[tuple[Place, str]])
    """Attempts without a record, and why."""
    unplaced: int = 0
    """Attempts without a record of whose question nothing is known."""
    published: dict[str, bool] = field(default_factory=dict[str, bool])
    """By the id that the record gets."""
    joined: Counter[str] = field(default_factory=Counter[str])
    unmatched: Counter[str] = field(default_factory=Counter[str])
    unmatched_examples: list[str] = field(default_factory=list[str])
    sets: dict[str, None] = field(default_factory=dict[str, None])
    chosen: dict[str, bool] = field(default_factory=dict[str, bool])
    """Why the records are a selection, and whether they are one only where all are right."""
    layouts: dict[str, None] = field(default_factory=dict[str, None])
    private: bool = False
    """A record says of its question that it is not to be published."""

    @property
    def selections(self) -> tuple[str, ...]:
        """Why the records are no sample."""
        are_right = all(self.published.values())
        return tuple(why for why, if_right in self.chosen.items() if are_right or not if_right)

    @property
    def attempts(self) -> int:
        """The most at any question."""
        return 1 + max(place.attempt for place in (*self.places, *(place for place, _ in self.lost)))


def planned(records: Iterable[Found | Lost], joiner: Joiner | None) -> Plan:
    """Read all records once. ``joiner``: of the benchmark; None: the records' own questions. Raises UserError."""
    plan = Plan()
    taken: defaultdict[str, set[int]] = defaultdict(set)
    of_task: dict[str, Question] = dict(joiner.by_task) if joiner else {}
    asked: dict[str, Question] = {}
    lost: list[Lost] = []
    published: list[bool | None] = []
    for one in records:
        if isinstance(one, Lost):
            lost.append(one)
            continue
        question = _own(one, plan) if joiner is None else _joined(one, joiner, plan)
        if one.task:
            asked.setdefault(one.task, question)
        plan.places.append(Place(question.id, _number(one.number, taken[question.id], question.id), one.number))
        published.append(one.published)
        plan.layouts[one.layout] = None
        plan.private |= one.trajectory.question.meta.get("private") is True
        plan.sets |= {one.named_set: None} if one.named_set else {}
        plan.chosen |= {one.chosen: one.chosen_if_right} if one.chosen else {}
    of_task |= asked
    for one in lost:
        known = of_task.get(one.task)
        if known is None:
            plan.unplaced += 1
            continue
        plan.questions.setdefault(known.id, known)
        plan.lost.append((Place(known.id, _number(one.number, taken[known.id], known.id), one.number), one.why))
    _close_gaps(plan, taken)
    plan.published = {place.id: right for place, right in zip(plan.places, published, strict=True) if right is not None}
    return plan


def _joined(one: Found, joiner: Joiner, plan: Plan) -> Question:
    """The benchmark's question, or else the record's own without its answers, which may be another benchmark's."""
    asked = one.trajectory.question
    found, how = joiner.find(asked.text, one.task)
    if found is not None:
        plan.joined[how] += 1
        return plan.questions.setdefault(found.id, found)
    plan.unmatched[how] += 1
    if len(plan.unmatched_examples) < _EXAMPLES:
        plan.unmatched_examples.append(one.trajectory.id)
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
    meta = {**asked.meta, **({"set": one.named_set} if one.named_set else {})}
    return plan.questions.setdefault(id, asked.model_copy(update={"id": id, "meta": meta}))


def _number(named: int | None, taken: set[int], question: str) -> int:
    """The attempt's number, which nobody else of the question has. Raises UserError for one that is named twice."""
    if named is not None and named in taken:
        raise UserError(f"Two records are attempt {named} at {question!r}: remove one of them, or score them apart.")
    number = named if named is not None else next(n for n in range(len(taken) + 1) if n not in taken)
    taken.add(number)
    return number


def _close_gaps(plan: Plan, taken: Mapping[str, set[int]]) -> None:
    """Attempts of a question are numbered from 0 on: a number that nobody has would be an attempt that nobody made."""
    rank = {(question, number): n for question, numbers in taken.items() for n, number in enumerate(sorted(numbers))}

    def closed(place: Place) -> Place:
        return replace(place, attempt=rank[place.question, place.attempt])

    plan.places = [closed(place) for place in plan.places]
    plan.lost = [(closed(place), why) for place, why in plan.lost]


def rewritten(records: Iterable[Found | Lost], plan: Plan) -> Iterator[Trajectory]:
    """The records as they are stored: those of the same reading, then those that were lost."""
    read = (one.trajectory for one in records if isinstance(one, Found))
    for one, place in zip(read, plan.places, strict=True):
        meta = {**one.meta, PLACE: one.id, **_numbered(place)}
        question, seeds = plan.questions[place.question], Seeds(attempt=place.attempt)
        yield one.model_copy(update={"id": place.id, "question": question, "seeds": seeds, "meta": meta})
    for place, why in plan.lost:
        yield Trajectory(
            id=place.id,
            question=plan.questions[place.question],
            nodes=(),
            leaf=None,
            ending=Ending.CANCELLED,
            seeds=Seeds(attempt=place.attempt),
            detail=why,
            meta=_numbered(place),
        )


def _numbered(place: Place) -> dict[str, int]:
    return {} if place.recorded is None else {NUMBER: place.recorded}


# What a reader of the figures has to know -----------------------------------------------------------------------------------


class PeerFacts(Frozen):
    """What a run of others' records rests on; fixed with the files."""

    sources: tuple[str, ...]
    """Names of files and folders, without their places."""
    sources_sha256: str
    layouts: tuple[str, ...]
    records: int
    """Attempts with a record."""
    lost: int = 0
    """Attempts that have none that could be read: begun and not ended, or cut off."""
    unread: int = 0
    """Entries and files of which not even the task is known."""
    copies: int = 0
    """Of attempts that are there."""
    parts: int = 0
    """Of contexts: they stand in the whole record as well."""
    benchmark_questions: int | None = None
    """That the benchmark's file holds; None: none was given, and the records' own accepted answers are used."""
    without_record: int = 0
    """Of these."""
    without_answer: int = 0
    """Records whose question has no accepted answer: unscored."""
    joined: dict[str, int] = Field(default_factory=dict[str, int])
    """How records found their question."""
    unmatched: dict[str, int] = Field(default_factory=dict[str, int])
    """Records that found none, and why: unscored."""
    unmatched_examples: tuple[str, ...] = ()
    published: int = 0
    """Attempts with a verdict of those who made them."""
    published_unsure: int = 0
    """Verdicts left out, as it is not certain whose they are."""
    sets: tuple[str, ...] = ()
    """Benchmarks that the records name."""
    hidden: str = ""
    """Why texts are left out of reports and logs, where no file of the benchmark says so; a sentence."""
    chosen: tuple[str, ...] = ()
    """Why the records are a selection, and no sample."""


def notes_of(facts: PeerFacts, result: EvalResult) -> list[str]:
    """What a reader has to know before believing a figure, a sentence each."""
    notes = [f"It is no estimate of a system: {why}." for why in facts.chosen]
    if facts.benchmark_questions is None:
        notes.append("Its accepted answers are the records' own: no file of the benchmark was given.")
    if facts.hidden:
        notes.append(facts.hidden)
    if facts.without_answer:
        notes.append(f"{facts.without_answer:,} of its records are at questions without an accepted answer: unscored.")
    if len(facts.sets) > 1:
        notes.append(f"Its records name several benchmarks: {', '.join(facts.sets)}.")
    if facts.unmatched:
        counts = ", ".join(f"{count:,} {why}" for why, count in facts.unmatched.items())
        shown = f" (such as {', '.join(facts.unmatched_examples)})" if facts.unmatched_examples else ""
        notes.append(f"Its records without a question of the benchmark are unscored: {counts}{shown}.")
    if facts.without_record and facts.benchmark_questions:
        low = sum(one.correct / one.attempts for one in result.questions) / facts.benchmark_questions
        notes.append(
            f"Questions without any record: {facts.without_record:,} of the benchmark's {facts.benchmark_questions:,}; "
            f"counted as wrong, with all that is unscored, avg@k would be {100 * low:.1f}%."
        )
    if facts.lost:
        notes.append(f"{facts.lost:,} attempts were begun and have no record that could be read: unscored.")
    if facts.unread:
        notes.append(f"{facts.unread:,} entries or files could not be read, and are in no count.")
    scored, correct = sum(one.scored for one in result.questions), sum(one.correct for one in result.questions)
    made = [one.attempts for one in result.questions]
    fewest, most = min(made), max(made)
    if fewest < most and scored:
        notes.append(
            f"Its questions have {fewest:,} to {most:,} attempts ({made.count(most):,} have {most:,}, and pass@{most} rests on "
            f"no others) and weigh the same; of all scored attempts {100 * correct / scored:.1f}% are right."
        )
    if facts.published_unsure:
        notes.append(f"{facts.published_unsure:,} published verdicts are left out: it is not certain which attempts they mean.")
    return notes
