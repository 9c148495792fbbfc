"""BrowseComp's five fields on lines of their own; the verdict is ``correct: yes`` or ``no``.

Unlike the publisher's, a confidence that the answer does not claim is none, not 100: only claimed ones tell of calibration.
"""

from sanderling.core.record import Question
from sanderling.judge.forms.contract import Form, Reading, material, version_of
from sanderling.judge.forms.words import MATERIAL, REMINDER, SAME
from sanderling.judge.reading_verdicts import Labels, read_fields

_SYSTEM = (
    "You are given a question, its right answers and one final answer. Say what the final answer comes down to, and whether it "
    "is right.\n"
    f"{SAME} A small error of a measured quantity is no difference either.\n{MATERIAL}\n"
    "Reply with these five lines, in this order:\n"
    "extracted_final_answer: the exact answer that is given in the end; None if there is none\n"
    "correct_answer: the right answer\n"
    "reasoning: what tells the two apart, or that nothing does, in one or two sentences\n"
    "correct: yes if they are the same, else no\n"
    "confidence: the percentage from 0% to 100% with which the final answer says it is sure; None if it says none"
)
READER = "fields 1"
FIVE = Labels(
    extracted=frozenset({"extracted_final_answer", "extracted_answer"}),
    reasoning=frozenset({"reasoning", "explanation"}),
    verdict=frozenset({"correct", "is_correct"}),
    confidence=frozenset({"confidence"}),
    others=frozenset({"correct_answer"}),
    words={"yes": True, "no": False, "true": True, "false": False},
)


def read_five(reply: str, question: Question) -> Reading | None:
    """The five fields, as lines or as one JSON object."""
    found = read_fields(reply, FIVE)
    if found is None:
        return None
    correct, extracted = found.correct, found.extracted
    return Reading(correct, float(correct), extracted=extracted, confidence=found.confidence, reason=found.reasoning)


BROWSECOMP = Form(
    key="browsecomp",
    about="BrowseComp's five lines: extracted answer, right answer, reasoning, correct: yes or no, confidence",
    system=_SYSTEM,
    read=read_five,
    version=version_of(_SYSTEM, REMINDER, READER),
    layout=material,
    reminder=REMINDER,
)
