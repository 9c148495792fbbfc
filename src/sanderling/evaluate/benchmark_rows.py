"""How a row of a benchmark's file becomes a question: decrypted, read by its columns, or left out with the reason.

The ciphers under which benchmarks are published, so that no crawler reads them, are base64 over XOR with a row's canary: its
SHA-256, or its own bytes, repeated. A wrong canary mostly gives what is no UTF-8 or is full of control characters, and is
refused. Nothing is decrypted on trial: that a file is decrypted already shows in its having no canary.
"""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from sanderling.core.record import FILES, Question
from sanderling.data import questions
from sanderling.data.questions import Fields, MissingColumnError, answer_list, text_list
from sanderling.evaluate.benchmarks import Benchmark, Cipher, Role


class UnreadWhy(StrEnum):
    """Why a row is no question of this run; in words for people."""

    BAD_ROW = "not readable as a row"
    NO_QUESTION = "without a question"
    UNDECODABLE = "not to be decrypted"
    NEEDS_FILE = "about an attached file"
    NEEDS_IMAGE = "about an image"
    UNANSWERABLE = "marked as unanswerable"
    REPEATED_ID = "with an id that came before"


class RowError(ValueError):
    """A row cannot be a question; a reader raises it, and it is counted."""

    def __init__(self, why: UnreadWhy) -> None:
        super().__init__(why.value)
        self.why = why


@dataclass(frozen=True)
class Options:
    """What a person says about a file beside its place."""

    split: str = ""  # empty: the one that the file's name says, or the benchmark's first
    columns: Mapping[str, str] = field(default_factory=dict)
    canary: str = ""  # decrypts a file that does not carry its own; where given, it is used for every row
    files: Path | None = None  # where attached files lie; None: questions about them are left out


@dataclass(frozen=True)
class Row:
    """One question as the file has it, decrypted."""

    text: str
    native_id: str = ""  # as the publisher counts; empty: the file has none, and the text's hash takes its place
    answers: tuple[str, ...] = ()  # accepted ones; empty: the publisher keeps them, or there are none
    level: str = ""
    topics: tuple[str, ...] = ()
    canary: str = ""
    masked_urls: tuple[str, ...] = ()
    hops: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)  # more for `Question.meta`, JSON values only


# Ciphers --------------------------------------------------------------------------------------------------------------------

_MOST_CONTROLS = 0.1
_BASE64 = re.compile(r"[A-Za-z0-9+/]{22,}={0,2}")


def decrypted(text: str, canary: str, cipher: Cipher) -> str:
    """What a text hides. Raises RowError where the canary does not open it."""
    if not canary:
        raise RowError(UnreadWhy.UNDECODABLE)
    key = canary.encode("utf-8", "surrogatepass")
    key = key if cipher == "bxor" else hashlib.sha256(key).digest()
    try:
        secret = base64.b64decode(text.encode("ascii"), validate=True)
        plain = bytes(byte ^ key[at % len(key)] for at, byte in enumerate(secret)).decode("utf-8")
    except ValueError as error:
        raise RowError(UnreadWhy.UNDECODABLE) from error
    controls = sum(unicodedata.category(char) == "Cc" and char not in "\t\r\n" for char in plain)
    if controls > _MOST_CONTROLS * len(plain):
        raise RowError(UnreadWhy.UNDECODABLE)
    return plain


def looks_encrypted(text: str) -> bool:
    """Whether a text is 24 letters or more of base64 and nothing else, as no question is: it has blanks, or other letters."""
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


# Readers --------------------------------------------------------------------------------------------------------------------

_WITHHELD = ("?",)  # what GAIA's test split has in place of accepted answers
_HOPS = re.compile(r"(\d)hop\d?__")  # MuSiQue's ids say how many steps a question takes


def by_columns(benchmark: Benchmark, found: Fields, options: Options) -> Row:
    """The columns that the benchmark names, decrypted where they are encrypted."""
    columns = benchmark.columns
    found.need("question", *columns.question)
    found.need("answer", *columns.answer)
    if benchmark.image and found.get(benchmark.image):
        raise RowError(UnreadWhy.NEEDS_IMAGE)
    name = PurePath(found.text("file", benchmark.attachment)).name if benchmark.attachment else ""
    if name and not (options.files is not None and (options.files / name).is_file()):
        raise RowError(UnreadWhy.NEEDS_FILE)
    canary = (options.canary if benchmark.cipher else "") or found.text("canary", "canary")
    if benchmark.cipher and not canary and found.has("canary"):
        raise RowError(UnreadWhy.UNDECODABLE)

    def plain(role: Role, names: Sequence[str]) -> tuple[str, ...]:
        texts = found.texts(role, *names)
        if canary and role in benchmark.encrypted:
            texts = tuple(decrypted(text, canary, benchmark.cipher).strip() for text in texts)
        return tuple(filter(None, texts))

    answers, topics = plain("answer", columns.answer), plain("topic", columns.topic)
    if separator := benchmark.topic_separator:
        topics = tuple(topic for text in topics for topic in map(str.strip, text.split(separator)) if topic)
    return Row(
        native_id=found.text("id", *columns.id),
        text=" ".join(plain("question", columns.question)) + (f"\n\n(The attached file is {name}.)" if name else ""),
        extra={FILES: [name]} if name else {},
        answers=() if answers == _WITHHELD else answers,
        level=found.text("level", *columns.level),
        topics=topics,
        canary=canary,
    )


def open_qa(benchmark: Benchmark, found: Fields, options: Options) -> Row:
    """Open-domain question sets: FlashRAG's ``golden_answers``, lists of ARPO and R1-Searcher, and the originals."""
    if str(found.get("answerable")).casefold() == "false":
        raise RowError(UnreadWhy.UNANSWERABLE)
    columns = benchmark.columns
    found.need("question", *columns.question)
    native = found.text("id", *columns.id)
    hops = _HOPS.match(native)
    return Row(
        native_id=native,
        text=found.text("question", *columns.question),
        answers=_answers(found, columns.answer),
        level=found.text("level", *columns.level) or (f"{hops[1]} hops" if hops else ""),
        topics=found.texts("topic", *columns.topic),
        hops=int(hops[1]) if hops else None,
    )


def _answers(found: Fields, lists: tuple[str, ...]) -> tuple[str, ...]:
    """Of the first column of lists that is there, else of ``answer``, which may be TriviaQA's dict of value and aliases."""
    for name in lists:
        if found.role("answer", name) is not None:
            return answer_list(found.role("answer", name))
    try:
        answer: Any = questions.opened(found.need("answer", "answer", "answers"), "{")
    except MissingColumnError as error:
        raise MissingColumnError("answer", ["golden_answers", *error.names]) from error
    if isinstance(answer, Mapping):
        inner = Fields(found.line, answer)
        return text_list([*inner.texts("value", "Value"), *inner.texts("aliases", "Aliases")])
    return text_list([*answer_list(answer), *answer_list(found.get("answer_aliases"))])


def any_columns(benchmark: Benchmark, found: Fields, options: Options) -> Row:
    """Any file of questions and answers, by the columns that a person names or the names that published files use."""
    if not options.columns and {"id", "text", "answers"} <= set(found.values):
        return own_questions(benchmark, found, options)
    columns = benchmark.columns
    names = (*questions.QUESTION_KEYS, "text")
    asked = found.need("question", *names)
    if isinstance(asked, list) and asked and isinstance(asked[-1], dict):  # RL files hold it as a list of messages
        text = str(asked[-1].get("content") or "")
    else:
        text = found.text("question", *names)
    return Row(
        native_id=found.text("id", *columns.id),
        text=text,
        answers=answer_list(found.need("answer", *questions.ANSWER_KEYS)),
        level=found.text("level", *columns.level),
        topics=found.texts("topic", *columns.topic),
        masked_urls=questions.masked_urls(found.values),
    )


def own_questions(benchmark: Benchmark, found: Fields, options: Options) -> Row:
    """Our own files of questions, whose ids, masks and hops are kept."""
    if not {"id", "text"} <= set(found.values):
        raise MissingColumnError("question", ["text"])
    try:
        question = Question.model_validate(dict(found.values))
    except ValidationError as error:
        raise RowError(UnreadWhy.BAD_ROW) from error
    if question.meta.get(FILES) and options.files is None:
        raise RowError(UnreadWhy.NEEDS_FILE)
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


READERS = {"columns": by_columns, "open-qa": open_qa, "any-columns": any_columns, "world": own_questions}
