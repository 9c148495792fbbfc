"""Files of questions and answers: REDSearcher's RL rows, evaluation sets, plain JSON lines; and our own questions.

The id is made of the text, so equal texts have equal ids; an id in the file stays in ``meta``, like every other field.
"""

from typing import Any

from pydantic import ValidationError

from sanderling.core.record import Question, question_id
from sanderling.data.importers.fields import (
    ANSWER_KEYS,
    QUESTION_KEYS,
    SURE_QUESTION_KEYS,
    accepted,
    asked,
    masked_urls,
    record_of,
    rest,
)
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes


def _is_question(entry: dict[str, Any]) -> bool:
    if "messages" in entry or "conversations" in entry:
        return False
    answered = any(key in entry for key in ANSWER_KEYS)
    inner = asked(entry, QUESTION_KEYS if answered else SURE_QUESTION_KEYS)
    return inner is not None or asked(record_of(entry, "meta"), SURE_QUESTION_KEYS) is not None


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Question:
    meta = record_of(entry, "meta")
    text = asked(entry) or asked(meta) or ""
    answers = accepted(entry) or accepted(meta)
    if not answers:
        notes.add("no_answer", id, text)
    held = [key for key in QUESTION_KEYS if isinstance(entry.get(key), str) and entry[key].strip()][:1]
    held += [key for key in ANSWER_KEYS if isinstance(entry.get(key), (str, int, float, list)) and accepted(entry, [key])]
    return Question(id=question_id(text), text=text, answers=answers, masked_urls=masked_urls(entry), meta=rest(entry, held))


def _is_own(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("id"), str) and isinstance(entry.get("text"), str) and set(entry) <= set(Question.model_fields)


def _read_own(entry: dict[str, Any], id: str, notes: Notes) -> Question | None:
    try:
        return Question.model_validate(entry)
    except ValidationError as error:
        notes.add("odd_question", id, error.errors()[0]["msg"])
        return None


QUESTIONS = LayoutReader(Layout.QUESTIONS, _is_question, _read)
OWN_QUESTION = LayoutReader(Layout.SANDERLING_QUESTION, _is_own, _read_own)
