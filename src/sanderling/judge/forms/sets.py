"""DeepSearchQA: an answer that is a set; each item is found or not, and what was given beyond them is counted.

The score is F1; right is only the whole set without anything more. The reply's items have to be the accepted ones, word for
word: a judge that renames, merges or forgets one is not believed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sanderling.core.record import Question
from sanderling.judge.forms.contract import Form, Grade, Reading, material, version_of
from sanderling.judge.forms.words import MATERIAL, REMINDER
from sanderling.judge.outcome import answer_tokens
from sanderling.judge.reading_verdicts import bare, json_objects, label_of, spoken

_SYSTEM = (
    "You are given a question, its right answer and one final answer. The right answer may be a single thing or a set of "
    "things, on several lines or in one text. Say for each of its items whether the final answer gives it, and what the final "
    "answer gives beyond them.\n"
    "Go by the right answer alone: do not solve the question, and do not doubt it. An item is given if the final answer names "
    "it as (part of) its answer, in whatever wording, spelling, script or unit; merely mentioned, ruled out or left open it is "
    "not. Excessive is each thing that is given as part of the answer and is none of the items; explanations, sources and "
    f"other names of an item are not.\n{MATERIAL}\n"
    "Reply with one JSON object and nothing else, of this shape:\n"
    '{"Answer Correctness": {"Explanation": "one or two sentences", "Correctness Details": {"ITEM": true}, '
    '"Excessive Answers": []}}\n'
    "with one key for each item of the right answer, copied word for word from it, true if it is given and false if not; and "
    "with the excessive ones as strings."
)
_READER = "sets 1"
_AND = frozenset({"and", "&", "和", "与"})


class SetScores(NamedTuple):
    """How good an answer is that is a set."""

    precision: float
    recall: float
    f1: float


def set_scores(parts: Mapping[str, bool], excessive: Sequence[str]) -> SetScores:
    """From what was found, missed and given beyond; nothing found is 0 in all three."""
    found = sum(parts.values())
    if not found:
        return SetScores(0.0, 0.0, 0.0)
    precision, recall = found / (found + len(excessive)), found / len(parts)
    return SetScores(precision, recall, 2 * precision * recall / (precision + recall))


def grade_of(parts: Mapping[str, bool], excessive: Sequence[str]) -> Grade:
    """Which of the publisher's four classes."""
    if not any(parts.values()):
        return Grade.INCORRECT
    if not all(parts.values()):
        return Grade.PARTLY
    return Grade.CORRECT_WITH_EXTRA if excessive else Grade.CORRECT


def _read(reply: str, question: Question) -> Reading | None:
    objects = json_objects(spoken(reply))
    found = [one for one in map(_unwrapped, objects or ()) if one is not None]
    readings = [_reading(one, question.answers) for one in found]
    if not readings or any(one != readings[0] for one in readings):
        return None
    return readings[0]


def _unwrapped(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object that has the details; None for one that is about something else."""
    named = {label_of(key): value for key, value in found.items()}
    inner = named.get("answer_correctness")
    if isinstance(inner, dict):
        named = {label_of(str(key)): value for key, value in inner.items()}
    return named if "correctness_details" in named else None


def _reading(named: Mapping[str, Any], accepted: Sequence[str]) -> Reading | None:
    details, excessive = named["correctness_details"], named.get("excessive_answers")
    if not isinstance(details, dict) or not isinstance(excessive, list):
        return None
    parts = {str(item): _truth(value) for item, value in details.items()}
    extra = tuple(one.strip() for one in excessive if isinstance(one, str) and one.strip())
    if None in parts.values() or len(extra) != len(excessive) or not are_the_items(list(parts), accepted):
        return None
    known = {item: value is True for item, value in parts.items()}
    grade = grade_of(known, extra)
    return Reading(
        grade is Grade.CORRECT,
        set_scores(known, extra).f1,
        grade=grade.value,
        parts=known,
        excessive=extra,
        reason=str(named.get("explanation", "")),
    )


def are_the_items(items: Sequence[str], accepted: Sequence[str]) -> bool:
    """Whether items are the accepted ones: one for each text, or the pieces of the only one."""
    if not items:
        return False
    if len(accepted) > 1:
        return Counter(map(_words, items)) == Counter(map(_words, accepted))
    pieces = Counter(word for item in items for word in _words(item))
    return pieces == Counter(word for one in accepted for word in _words(one)) and all(map(_words, items))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in answer_tokens(text) if word not in _AND)


def _truth(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(bare(value).casefold()) if isinstance(value, str) else None


SETS = Form(
    key="sets",
    about="one JSON object: each item of the right answer found or not, and what was given beyond; scored by F1",
    system=_SYSTEM,
    read=_read,
    version=version_of(_SYSTEM, REMINDER, _READER),
    layout=material,
    reminder=REMINDER,
    max_tokens=4_096,
)
