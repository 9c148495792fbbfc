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
from sanderling.evaluate.result import EvalResult

UNMATCHED = "unmatched"
"""What ids of questions begin with that the benchmark does not ask."""
NUMBER = "recorded_attempt"
"""In a record's meta: the attempt's number where it came from, if it had one."""
HIDDEN = "Its texts are left out of reports and logs, as no benchmark's file says that they may be shown; --public does."
SELECTED = {
    "webdancer-chatml": "training data, which is chosen for being right",
    "redsearcher-sft": "training data, which is chosen for being right",
    "literesearcher-cases": "LiteResearcher's cases are picked by hand among right answers",
}
"""Layouts whose records are a selection, and why."""


@dataclass(frozen=True)
class Found:
    """One recorded attempt, as the import gives it."""

    trajectory: Trajectory
    layout: str
    task: str = ""
    """The benchmark's id of the question, where the place of the record says it."""
    number: int | None = None
    """Of the attempt, where its place says it."""
    published: bool | None = None
    """The verdict of those who made it; None: none is recorded."""
    named_set: str = ""
    """The benchmark's name as the record has it."""


@dataclass(frozen=True)
class Lost:
    """An attempt that was made and has no readable record."""

    task: str
    number: int
    why: str


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
    """Of the records in the order of the reading, and then of those that are lost: question and recorded number."""
    numbers: list[int] = field(default_factory=list[int])
    """The attempt that each of these becomes."""
    lost: list[str] = field(default_factory=list[str])
    """Why those at the end of ``places`` have no record."""
    unplaced: int = 0
    """Attempts without a record of whose question nothing is known."""
    published: dict[str, bool] = field(default_factory=dict[str, bool])
    """By the id that the record gets."""
    joined: Counter[str] = field(default_factory=Counter[str])
    unmatched: Counter[str] = field(default_factory=Counter[str])
    layouts: dict[str, None] = field(default_factory=dict[str, None])
    private: bool = False
    """A record says of its question that it is not to be published."""


def planned(records: Iterable[Found | Lost], joiner: Joiner | None) -> Plan:
    """Read all records once. ``joiner``: of the benchmark; None: the records' own questions. Raises UserError."""
    plan = Plan()
    of_task: dict[str, Question] = {}
    lost: list[Lost] = []
    published: list[bool | None] = []
    for one in records:
        if isinstance(one, Lost):
            lost.append(one)
            continue
        question = _own(one, plan) if joiner is None else _joined(one, joiner, plan)
        of_task.setdefault(one.task, question)
        plan.places.append((question.id, one.number))
        published.append(one.published)
        plan.layouts[one.layout] = None
        plan.private |= one.trajectory.question.meta.get("private") is True
    of_task = (dict(joiner.by_task) if joiner else {}) | of_task
    for one in lost:
        known = of_task.get(one.task)
        if known is None:
            plan.unplaced += 1
            continue
        plan.questions.setdefault(known.id, known)
        plan.places.append((known.id, one.number))
        plan.lost.append(one.why)
    plan.numbers = _numbered(plan.places)
    ids = [f"{question}-{number}" for (question, _), number in zip(plan.places, plan.numbers, strict=True)]
    plan.published = {id: right for id, right in zip(ids, published, strict=False) if right is not None}
    return plan


def _joined(one: Found, joiner: Joiner, plan: Plan) -> Question:
    """The benchmark's question, or else the record's own without its answers, which may be another benchmark's."""
    asked = one.trajectory.question
    found, how = joiner.find(asked.text, one.task)
    if found is not None:
        plan.joined[how] += 1
        return plan.questions.setdefault(found.id, found)
    plan.unmatched[how] += 1
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


def _numbered(places: list[tuple[str, int | None]]) -> list[int]:
    """Attempts of a question count from 0 on, those with a number first. Raises UserError for two of one number."""
    of: defaultdict[str, list[tuple[int | None, int]]] = defaultdict(list)
    for at, (question, number) in enumerate(places):
        of[question].append((number, at))
    found = [0] * len(places)
    for question, attempts in of.items():
        counts = Counter(number for number, _ in attempts if number is not None)
        if counts and counts.most_common(1)[0][1] > 1:
            twice = counts.most_common(1)[0][0]
            raise UserError(f"Two records are attempt {twice} at {question!r}: remove one of them, or score them apart.")
        in_order = sorted(attempts, key=lambda one: (one[0] is None, one[0] or 0, one[1]))
        for rank, (_, at) in enumerate(in_order):
            found[at] = rank
    return found


def rewritten(records: Iterable[Found | Lost], plan: Plan) -> Iterator[Trajectory]:
    """The records as they are stored: those of the same reading, then those that were lost."""
    read = (one.trajectory for one in records if isinstance(one, Found))
    with_record = len(plan.places) - len(plan.lost)
    for at, ((question, recorded), attempt) in enumerate(zip(plan.places, plan.numbers, strict=True)):
        asked = plan.questions[question]
        if at < with_record:
            one = next(read)
            meta = {**one.meta, "recorded_as": one.id}
        else:
            why = plan.lost[at - with_record]
            one = Trajectory(id="", question=asked, nodes=(), leaf=None, ending=Ending.CANCELLED, detail=why)
            meta = {}
        meta |= {} if recorded is None else {NUMBER: recorded}
        changes = {"id": f"{question}-{attempt}", "question": asked, "seeds": Seeds(attempt=attempt), "meta": meta}
        yield one.model_copy(update=changes)


# What a reader of the figures has to know -----------------------------------------------------------------------------------


class PeerFacts(Frozen):
    """What a run of others' records rests on; fixed with the files."""

    sources_sha256: str
    layouts: tuple[str, ...]
    records: int
    """Attempts with a record."""
    lost: int = 0
    """Attempts that have none that could be read: begun and not ended, or cut off."""
    unread: int = 0
    """Entries and files of which not even the task is known."""
    copies: int = 0
    parts: int = 0
    """Of contexts: they stand in the whole record as well."""
    benchmark_questions: int | None = None
    """That the benchmark's file holds; None: none was given, and the records' own accepted answers are used."""
    without_record: int = 0
    without_answer: int = 0
    """Records whose question has no accepted answer: unscored."""
    joined: dict[str, int] = Field(default_factory=dict[str, int])
    """How records found their question."""
    unmatched: dict[str, int] = Field(default_factory=dict[str, int])
    """Records that found none, and why: unscored."""
    published: int = 0
    """Attempts with a verdict of those who made them."""
    hidden: str = ""
    """Why texts are left out of reports and logs, where no file of the benchmark says so; a sentence."""


def notes_of(facts: PeerFacts, result: EvalResult) -> list[str]:
    """What a reader has to know before believing a figure, a sentence each."""
    notes = [f"It is no estimate of a system: {why}." for layout, why in SELECTED.items() if layout in facts.layouts]
    if facts.benchmark_questions is None:
        notes.append("Its accepted answers are the records' own: no file of the benchmark was given.")
    if facts.hidden:
        notes.append(facts.hidden)
    if facts.without_answer:
        notes.append(f"{facts.without_answer:,} of its records are at questions without an accepted answer: unscored.")
    if facts.unmatched:
        counts = ", ".join(f"{count:,} {why}" for why, count in facts.unmatched.items())
        notes.append(f"Its records without a question of the benchmark are unscored: {counts}.")
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
    return notes
