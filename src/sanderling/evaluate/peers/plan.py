"""Which question and which attempt each of others' records is: settled before anything is written.

Attempts are numbered 0, 1, … within their question: in the order of the numbers that their places say, else as they are read.
Without a benchmark's file the records'
own questions are taken: by the task's name where it is known, else by their text; equal texts with other accepted answers are
another question. Knows no file and no judge.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.peers.contract import Found, Lost, Records
from sanderling.evaluate.peers.joining import Joiner, Why

UNMATCHED = "unmatched"
"""What ids of questions begin with that the benchmark does not ask."""
PLACE = "recorded_as"
"""In a record's meta: its id where it came from."""
NUMBER = "recorded_attempt"
"""In a record's meta: the attempt's number where it came from, if it had one."""
_EXAMPLES = 3


@dataclass(frozen=True)
class Place:
    """What a record becomes."""

    question: str
    attempt: int
    recorded: int | None = None
    """Its number where it came from."""


@dataclass
class Plan:
    """What a reading becomes."""

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


def planned(records: Records, joiner: Joiner | None) -> Plan:
    """Read all records once. ``joiner``: of the benchmark; None: the records' own questions. Raises UserError."""
    plan = Plan()
    taken: defaultdict[str, set[int]] = defaultdict(set)
    of_task: dict[str, Question] = {}
    lost: list[Lost] = []
    published: list[bool | None] = []
    for one in records:
        if isinstance(one, Lost):
            lost.append(one)
            continue
        question = _question(one, joiner, plan)
        if one.task:
            of_task.setdefault(one.task, question)
        plan.places.append(Place(question.id, _number(one.number, taken[question.id], question.id), one.number))
        published.append(one.published)
        _note(one, plan)
    for one in lost:
        known = of_task.get(one.task) or (joiner.of_task(one.task) if joiner else None)
        if known is None:
            plan.unplaced += 1
            continue
        plan.questions.setdefault(known.id, known)
        plan.lost.append((Place(known.id, _number(one.number, taken[known.id], known.id), one.number), one.why))
    _close_gaps(plan, taken)
    plan.published = {id_of(place): said for place, said in zip(plan.places, published, strict=True) if said is not None}
    return plan


def _close_gaps(plan: Plan, taken: Mapping[str, set[int]]) -> None:
    """Attempts of a question are numbered from 0 on: a number that nobody has would be an attempt that nobody made."""
    rank = {(question, number): n for question, numbers in taken.items() for n, number in enumerate(sorted(numbers))}

    def closed(place: Place) -> Place:
        return replace(place, attempt=rank[place.question, place.attempt])

    plan.places = [closed(place) for place in plan.places]
    plan.lost = [(closed(place), why) for place, why in plan.lost]


def id_of(place: Place) -> str:
    """The id of an attempt's record."""
    return f"{place.question}-{place.attempt}"


def rewritten(records: Iterable[Found | Lost], plan: Plan) -> Iterable[Trajectory]:
    """The records as they are stored: those of the same reading, then those that were lost."""
    places = iter(plan.places)
    for one in records:
        if isinstance(one, Found):
            yield _stored(one.trajectory, next(places), plan)
    for place, why in plan.lost:
        question, seeds = plan.questions[place.question], Seeds(attempt=place.attempt)
        yield Trajectory(
            id=id_of(place), question=question, nodes=(), leaf=None, ending=Ending.CANCELLED, seeds=seeds, detail=why,
            meta=_numbered(place),
        )  # fmt: skip


def _stored(one: Trajectory, place: Place, plan: Plan) -> Trajectory:
    changes = {
        "id": id_of(place),
        "question": plan.questions[place.question],
        "seeds": Seeds(attempt=place.attempt),
        "meta": {**one.meta, PLACE: one.id, **_numbered(place)},
    }
    return one.model_copy(update=changes)


def _numbered(place: Place) -> dict[str, int]:
    return {} if place.recorded is None else {NUMBER: place.recorded}


def _question(one: Found, joiner: Joiner | None, plan: Plan) -> Question:
    """The question of a record, which the plan then holds."""
    asked = one.trajectory.question
    if joiner is None:
        return _own(one, plan)
    found = joiner.find(asked.text, one.task)
    if not isinstance(found, Why):
        plan.joined[found.how.value] += 1
        return plan.questions.setdefault(found.question.id, found.question)
    plan.unmatched[found.value] += 1
    if len(plan.unmatched_examples) < _EXAMPLES:
        plan.unmatched_examples.append(one.trajectory.id)
    id = f"{UNMATCHED}/{one.task or asked.id}"
    # Its own answers may be another benchmark's, and another judge's affair.
    return plan.questions.setdefault(id, asked.model_copy(update={"id": id, "answers": (), "meta": {UNMATCHED: found.value}}))


def _own(one: Found, plan: Plan) -> Question:
    asked = one.trajectory.question
    name = one.task or asked.id
    id, number = name, 1
    while id in plan.questions and not _same(plan.questions[id], asked, by_task=bool(one.task)):
        number += 1
        id = f"{name}~{number}"
    meta = {**asked.meta, **({"set": one.named_set} if one.named_set else {})}
    return plan.questions.setdefault(id, asked.model_copy(update={"id": id, "meta": meta}))


def _same(one: Question, other: Question, *, by_task: bool) -> bool:
    return by_task or (one.text, one.answers) == (other.text, other.answers)


def _number(named: int | None, taken: set[int], question: str) -> int:
    """The attempt's number, which nobody else of the question has. Raises UserError for one that is named twice."""
    if named is not None and named in taken:
        raise UserError(f"Two records are attempt {named} at {question!r}: remove one of them, or score them apart.")
    number = named if named is not None else next(n for n in range(len(taken) + 1) if n not in taken)
    taken.add(number)
    return number


def _note(one: Found, plan: Plan) -> None:
    """What there is to be said of all records together."""
    plan.layouts[one.layout] = None
    plan.private |= one.trajectory.question.meta.get("private") is True
    if one.named_set:
        plan.sets[one.named_set] = None
    if one.chosen:
        plan.chosen[one.chosen] = one.chosen_if_right
