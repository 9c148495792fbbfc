"""One word, CORRECT or INCORRECT: the shape that harnesses use for WebWalkerQA, FRAMES and others.

WebWalkerQA's own judge ends in ``GRADE: CORRECT``, which is read too.
"""

from sanderling.core.record import Question
from sanderling.judge.forms.contract import Form, Reading, material, plain_reading, version_of
from sanderling.judge.forms.words import MATERIAL, REMINDER, SAME
from sanderling.judge.reading_verdicts import agreed, bare, label_of, said, spoken

_SYSTEM = (
    "You are given a question, its right answers and one final answer, and say whether the final answer is right.\n"
    f"{SAME}\n{MATERIAL}\n"
    "Reply with a single word and nothing else: CORRECT if it is right, INCORRECT if it is not."
)
_READER = "word 1"
_WORDS = {"correct": True, "incorrect": False}
_LABELS = frozenset({"grade", "verdict", "judgement", "judgment"})


def read_word(reply: str) -> bool | None:
    """Lines that are nothing but the word, or the word behind ``GRADE:``; all of them have to agree."""
    found: list[bool | None] = []
    for line in spoken(reply).splitlines():
        head, colon, rest = line.partition(":")
        if bare(line).casefold() in _WORDS and not line.lstrip().startswith(">"):
            found.append(_WORDS[bare(line).casefold()])
        elif colon and label_of(head) in _LABELS:
            found.append(said(rest, _WORDS))
    return agreed(found)


def _read(reply: str, question: Question) -> Reading | None:
    return plain_reading(read_word(reply))


WORD = Form(
    key="word",
    about="one word, CORRECT or INCORRECT",
    system=_SYSTEM,
    read=_read,
    version=version_of(_SYSTEM, REMINDER, _READER),
    layout=material,
    reminder=REMINDER,
)
