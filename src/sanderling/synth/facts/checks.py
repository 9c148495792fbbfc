"""What can be told about a candidate by rule, before anybody is paid to judge it. Pure; knows the page and no model.

A question must stand alone and keep its answer to itself; the answer must be short and stand in the page, within a quote that
stands there too.
"""

import re
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from sanderling.core.text import MINUS, SUFFIX, WIDE, folded
from sanderling.synth.facts.candidates import Candidate
from sanderling.tools.quotes import PageText

_THINGS = "page|article|text|passage|document|chapter|section|table|figure|list|example|excerpt|website|site|author"
_OF_THE_PAGE = re.compile(
    rf"\b(?:(?:this|the (?:above|following|given|provided|preceding|present)) (?:{_THINGS})s?"
    rf"|according to the (?:{_THINGS})"
    rf"|(?:mentioned|described|listed|shown|discussed|given|stated) (?:above|below|here|in the (?:{_THINGS})))\b"
    r"|(?:本|该|此)(?:页|文|文章|网页|章|节|表)|上文|下文|文中|根据(?:文章|本文|该页)|この(?:ページ|記事|文章|表)",
    re.IGNORECASE,
)
_WORD = re.compile(rf"[{WIDE}]|{MINUS}?\d+(?:\.\d+)*|[^\W\d_{WIDE}]+{SUFFIX}")
_ARTICLES = frozenset(("a", "an", "the"))
_YES_NO = frozenset(("yes", "no", "true", "false", "是", "否", "はい", "いいえ"))
_OPTIONS = re.compile(
    r"(?:^|[\s(])(?:A|a)[).:]\s.*(?:^|[\s(])(?:B|b)[).:]\s|which of the following|下列哪|以下哪", re.IGNORECASE
)
_PRONOUN = re.compile(r"\b(?:he|she|it|they|his|her|its|their|him|them)\b", re.IGNORECASE)
_NAMED = re.compile(r"(?<!^)\b[A-Z\d][\w.'’-]+|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]|[\"“'‘`«]")


class Problem(StrEnum):
    """Why a candidate is no question."""

    QUESTION_TOO_LONG = "question_too_long"
    QUESTION_TOO_SHORT = "question_too_short"
    ANSWER_TOO_LONG = "answer_too_long"
    ANSWER_NOT_IN_PAGE = "answer_not_in_page"
    QUOTE_NOT_IN_PAGE = "quote_not_in_page"
    ANSWER_NOT_IN_QUOTE = "answer_not_in_quote"
    NAMES_ITS_ANSWER = "names_its_answer"
    LEANS_ON_THE_PAGE = "leans_on_the_page"
    """It speaks of "this page", "the text above", or somebody named before."""
    NAMES_NOTHING = "names_nothing"
    """No name, number or quotation says what it is about."""
    YES_OR_NO = "yes_or_no"
    MULTIPLE_CHOICE = "multiple_choice"


class Bounds(BaseModel):
    """How long things may be; wide scripts count a character as a word."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least_question_words: int = 4
    most_question_words: int = 80
    most_answer_words: int = 8


def problem_of(candidate: Candidate, text: PageText, bounds: Bounds) -> Problem | None:
    """The first thing that is wrong with a candidate from a page of this text; None: nothing that a rule could tell."""
    asked = len(words(candidate.question))
    said = words(candidate.answer)
    lead = [
        (asked < bounds.least_question_words, Problem.QUESTION_TOO_SHORT),
        (asked > bounds.most_question_words, Problem.QUESTION_TOO_LONG),
        (len(said) > bounds.most_answer_words, Problem.ANSWER_TOO_LONG),
        (" ".join(said) in _YES_NO, Problem.YES_OR_NO),
        (_OPTIONS.search(candidate.question) is not None, Problem.MULTIPLE_CHOICE),
        (any(holds(candidate.question, answer) for answer in (candidate.answer, *candidate.others)), Problem.NAMES_ITS_ANSWER),
        (leans_on_the_page(candidate.question), Problem.LEANS_ON_THE_PAGE),
        (_NAMED.search(candidate.question) is None, Problem.NAMES_NOTHING),
    ]
    for is_wrong, problem in lead:
        if is_wrong:
            return problem
    if not _stands(text, candidate.answer):
        return Problem.ANSWER_NOT_IN_PAGE
    if not _stands(text, candidate.quote):
        return Problem.QUOTE_NOT_IN_PAGE
    return None if holds(candidate.quote, candidate.answer) else Problem.ANSWER_NOT_IN_QUOTE


def leans_on_the_page(question: str) -> bool:
    """Whether a question speaks of its page, or says "he" or "it" before anything is named."""
    pronoun, named = _PRONOUN.search(question), _NAMED.search(question)
    is_open = pronoun is not None and (named is None or pronoun.start() < named.start())
    return is_open or _OF_THE_PAGE.search(question) is not None


def holds(text: str, answer: str) -> bool:
    """Whether a text holds an answer, word for word: case, punctuation, articles and thousands' commas do not matter."""
    wanted, found = words(answer), words(text)
    if not wanted or len(wanted) > len(found):
        return False
    first = wanted[0]
    return any(found[at] == first and found[at : at + len(wanted)] == wanted for at in range(len(found) - len(wanted) + 1))


def words(text: str) -> list[str]:
    """Words to compare: numbers whole and with their sign, C++ and C# with theirs, wide characters one by one.

    Example: ``words("The Brandts' 1,412.5 m") == ["brandts", "1412.5", "m"]``
    """
    found = _WORD.findall(folded(text))
    return [word for word in found if word not in _ARTICLES] or found


def _stands(text: PageText, quote: str) -> bool:
    stretches, missed = text.stretches(quote) if quote else ([], 1)
    return bool(stretches) and not missed
