"""SimpleQA's three grades, as letters: A right, B wrong, C not attempted."""

from sanderling.core.record import Question
from sanderling.judge.forms.contract import Form, Grade, Reading, material, version_of
from sanderling.judge.forms.words import MATERIAL, REMINDER
from sanderling.judge.reading_verdicts import whole

_SYSTEM = (
    "You are given a question, its right answers and one final answer. Grade the final answer with one letter.\n"
    "A, correct: it holds all that a right answer says of what is asked, and contradicts none of it. Wording, order, language, "
    "hedging and small slips in a name's spelling make no difference, nor does the lack of what the question already says. A "
    "number has to agree to the last digit that the right answer gives.\n"
    "B, incorrect: something in it contradicts the right answers, also if it is said with doubt, or taken back and forth.\n"
    "C, not attempted: it leaves out what matters and contradicts nothing, for example since it says that it does not know.\n"
    "Go by the right answers alone: do not solve the question, and do not doubt them.\n"
    f"{MATERIAL}\n"
    "Reply with the single letter A, B or C and nothing else."
)
_READER = "letter 1"
_GRADES = {
    "a": Grade.CORRECT,
    "b": Grade.INCORRECT,
    "c": Grade.NOT_ATTEMPTED,
    **{grade.value: grade for grade in (Grade.CORRECT, Grade.INCORRECT, Grade.NOT_ATTEMPTED)},
    "not attempted": Grade.NOT_ATTEMPTED,
}
_WORDS = {
    **_GRADES,
    **{f"{letter}{between}{word}": grade for letter in "abc" for between in (": ", ", ", ") ", " (")
       for word, grade in _GRADES.items() if len(word) > 1 and _GRADES[letter] is grade},
}  # fmt: skip


def read_letter(reply: str) -> Grade | None:
    """A reply that is one letter, its word, or both in agreement."""
    return whole(reply, _WORDS)


def _read(reply: str, question: Question) -> Reading | None:
    grade = read_letter(reply)
    if grade is None:
        return None
    return Reading(grade is Grade.CORRECT, float(grade is Grade.CORRECT), grade=grade.value)


SIMPLEQA = Form(
    key="simpleqa",
    about="one letter: A correct, B incorrect, C not attempted",
    system=_SYSTEM,
    read=_read,
    version=version_of(_SYSTEM, REMINDER, _READER),
    layout=material,
    reminder=REMINDER,
)
