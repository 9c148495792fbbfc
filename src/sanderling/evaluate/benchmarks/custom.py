"""Any file of questions and answers: by the columns that a person names, or by the names that published files use.

Also our own files of questions (`world`), whose ids, masks and hops are kept.
"""

from typing import Any

from pydantic import ValidationError

from sanderling.core.record import Question
from sanderling.data.fields import ANSWER_KEYS, QUESTION_KEYS, Fields, MissingColumnError, answer_list, masked_urls
from sanderling.evaluate.benchmarks.benchmark import Benchmark
from sanderling.evaluate.benchmarks.contract import Options, Row, Split
from sanderling.evaluate.benchmarks.unread import RowError, UnreadWhy

_QUESTIONS = (*QUESTION_KEYS, "text")
_IDS = ("id", "_id", "task_id", "question_id", "query_id", "qid")
_LEVELS = ("level", "difficulty")
_TOPICS = ("topic", "topics", "category", "domain")


def _any(found: Fields, options: Options) -> Row:
    if not options.columns and {"id", "text", "answers"} <= set(found.values):
        return _own(found, options)
    return Row(
        native_id=found.text("id", *_IDS),
        text=_as_text(found.need("question", *_QUESTIONS), found),
        answers=answer_list(found.need("answer", *ANSWER_KEYS)),
        level=found.text("level", *_LEVELS),
        topics=found.texts("topic", *_TOPICS),
        masked_urls=masked_urls(found.values),
    )


def _as_text(value: Any, found: Fields) -> str:
    """The question, which RL files hold as a list of messages."""
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        return str(value[-1].get("content") or "")
    return found.text("question", *_QUESTIONS)


def _own(found: Fields, options: Options) -> Row:
    if not {"id", "text"} <= set(found.values):
        raise MissingColumnError("question", ["text"])
    try:
        question = Question.model_validate(dict(found.values))
    except ValidationError as error:
        first = error.errors()[0]
        raise RowError(UnreadWhy.BAD_ROW, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    kind = question.meta.get("capability") or question.meta.get("kind")
    return Row(
        native_id=question.id,
        text=question.text,
        answers=question.answers,
        level="" if question.hops is None else str(question.hops),
        topics=(kind,) if isinstance(kind, str) else (),
        masked_urls=question.masked_urls,
        hops=question.hops,
        canary=str(question.meta.get("canary") or ""),
        extra=question.meta,
    )


CUSTOM = Benchmark(
    key="jsonl",
    title="a file of one's own",
    about="Questions and answers in JSON lines, CSV, TSV, Parquet or xlsx, with --columns where names are unusual.",
    obtain="it is the user's own",
    licence="the user's own",
    source="the user",
    row=_any,
    form="ours",
    rules=("exact", "numeric", "contains", "f1"),
    published_judge="the user's choice",
    verbatim=True,
)

WORLD = Benchmark(
    key="world",
    title="questions of a world",
    about="What sanderling synth made from a world: the file of questions, or a folder that holds it as questions.jsonl.",
    obtain="sanderling synth makes it",
    licence="that of the world's pages",
    source="our own questions",
    row=_own,
    splits=(Split("questions", None, "", ("questions.jsonl", "*/questions.jsonl")),),
    rules=("exact", "numeric", "contains", "f1"),
    published_judge="none: exact match with the accepted answers",
    verbatim=False,
)
