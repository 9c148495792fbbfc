"""Humanity's Last Exam: the fields of BrowseComp in one JSON object."""

from sanderling.judge.forms.browsecomp import READER, read_five
from sanderling.judge.forms.contract import Form, material, version_of
from sanderling.judge.forms.words import MATERIAL, REMINDER, SAME

_SYSTEM = (
    "You are given an exam question, its right answers and one final answer. Say what the final answer comes down to, and "
    "whether it is right.\n"
    f"{SAME} Of a question with choices the letter is the answer, or what stands behind it. A small error of a measured or "
    f"computed number is no difference.\n{MATERIAL}\n"
    "Reply with one JSON object and nothing else, with these keys in this order:\n"
    '"extracted_final_answer": a string, the exact answer that is given in the end; "None" if there is none\n'
    '"reasoning": a string, in one or two sentences what tells the two apart, or that nothing does\n'
    '"correct": "yes" if they are the same, else "no"\n'
    '"confidence": an integer from 0 to 100, the percentage with which the final answer says it is sure; null if it says none\n'
    '"strict": true'
)

HLE = Form(
    key="hle",
    about="one JSON object: extracted_final_answer, reasoning, correct: yes or no, confidence",
    system=_SYSTEM,
    read=read_five,
    version=version_of(_SYSTEM, REMINDER, READER),
    layout=material,
    reminder=REMINDER,
)
