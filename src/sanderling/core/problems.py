"""What can be odd about a turn, as codes for records and sentences for the model."""

from collections.abc import Collection
from enum import StrEnum


class ParseProblem(StrEnum):
    """What was odd about a turn. Most codes are harmless: what could be read was read."""

    MISSING_THINK = "missing_think"
    MISSING_THINK_OPEN = "missing_think_open"
    """``</think>`` without ``<think>``."""
    UNCLOSED_THINK = "unclosed_think"
    DOUBLED_THINK = "doubled_think"
    """A further reasoning tag, or a further block of reasoning."""
    STRAY_TEXT = "stray_text"
    """Text outside reasoning, before the first action."""
    TRAILING_TEXT = "trailing_text"
    """Text after the first action."""
    CUT_AT_RESPONSE = "cut_at_response"
    """The model wrote ``<tool_response>`` itself; nothing from there on was read."""
    CALL_IN_THINK = "call_in_think"
    """Reasoning never ended, and the call in it was taken."""
    ANSWER_IN_THINK = "answer_in_think"
    """Reasoning never ended and holds an answer tag; no answer was read from it."""
    UNCLOSED_CALL = "unclosed_call"
    UNREADABLE_CALL = "unreadable_call"
    """A call that is no JSON object with a name, however leniently read; it was left out."""
    LENIENT_CALL = "lenient_call"
    """Readable, but not as one strict JSON object with a name and arguments."""
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments are no object; the call was kept with none."""
    SEVERAL_CALLS = "several_calls"
    TOO_MANY_CALLS = "too_many_calls"
    """More calls than are ever read from one turn; the rest was left out."""
    UNCLOSED_ANSWER = "unclosed_answer"
    EMPTY_ANSWER = "empty_answer"
    SEVERAL_ANSWERS = "several_answers"
    BOTH = "both"
    """A call and an answer."""
    NO_ACTION = "no_action"
    """Neither a call nor an answer."""


_SENTENCES = {
    ParseProblem.UNREADABLE_CALL: "The tool call is not a JSON object with a name and arguments.",
    ParseProblem.ANSWER_IN_THINK: "The answer stands inside the reasoning, which was not closed with </think>.",
    ParseProblem.EMPTY_ANSWER: "The answer is empty.",
    ParseProblem.UNCLOSED_THINK: "The reasoning was not closed with </think>, and no tool call or answer follows it.",
    ParseProblem.BOTH: "A tool call and an answer stand in one turn.",
    ParseProblem.NO_ACTION: "There is neither a tool call nor an answer.",
}


def explain(problems: Collection[ParseProblem]) -> str:
    """One sentence on why a turn could not be used, for the malformed hint; the most telling code speaks."""
    for problem, sentence in _SENTENCES.items():
        if problem in problems:
            return sentence
    return "The turn does not have the required form."
