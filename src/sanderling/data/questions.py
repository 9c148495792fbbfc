"""Questions: the fields that published files have for them, and files of questions, read in any layout.

`asked`, `accepted` and `masked_urls` know the names and take what they find; `Fields` looks for the columns of one benchmark,
in any case and depth, and lets a person name others. Values stay what they are: "nan" and "[1, 5]" are texts, and only a real
missing value (None, the float NaN) is nothing.
"""

import ast
import codecs
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Question, decode_record, encode_record
from sanderling.runs.files import or_cannot, replace_file

NAMES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
QUESTION_KEYS, SURE_QUESTION_KEYS, ANSWER_KEYS = (
    tuple(NAMES["columns"][name]) for name in ("question", "sure_question", "answer")
)
ROLES = ("question", "answer", "id", "level", "topic")
_SPLIT = "<|answer_split|>"
_TEXTS = re.compile(r"\s*\[\s*['\"]")
_NEIGHBOURS = re.compile(r"['\"]\s+['\"]")  # texts side by side, as numpy prints a list; Python would join them


def finite(number: str | float) -> float | None:
    """A number as JSON has it: what is none, or infinite, is null."""
    value = float(number)
    return value if math.isfinite(value) else None


def opened(value: Any, marks: str = "{[") -> Any:
    """A value that some files hold as JSON text beginning with one of ``marks``, as the value it spells; others as they are."""
    if not isinstance(value, str) or not value.lstrip()[:1] or value.lstrip()[0] not in marks:
        return value
    try:
        return json.loads(value, parse_float=finite, parse_constant=finite)
    except (ValueError, RecursionError):
        return value


def record_of(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A field that should be an object (or JSON text of one), or an empty one."""
    value = opened(entry.get(key))
    return value if isinstance(value, dict) else {}


def rest(entry: Mapping[str, Any], held: Iterable[str]) -> dict[str, Any]:
    """The fields of an entry but for those that stand elsewhere."""
    return {key: value for key, value in entry.items() if key not in held}


def asked(entry: Mapping[str, Any], keys: Iterable[str] = QUESTION_KEYS) -> str | None:
    """The question under the first of the known names that holds text."""
    return next((entry[key].strip() for key in keys if isinstance(entry.get(key), str) and entry[key].strip()), None)


def accepted(entry: Mapping[str, Any], keys: Iterable[str] = ANSWER_KEYS) -> tuple[str, ...]:
    """All accepted answers, in the order of the known names."""
    return tuple(dict.fromkeys(answer for key in keys if entry.get(key) is not None for answer in ground_truth(entry[key])))


def ground_truth(value: Any) -> tuple[str, ...]:
    """Accepted answers out of what RL files call ground truth: texts, lists, ``{"target": [...]}``, or JSON text of these."""
    inner = opened(value)
    if isinstance(inner, dict):
        named = [inner[key] for key in ("target", *ANSWER_KEYS) if key in inner]
        return answers_in(named or list(inner.values()))
    texts = isinstance(inner, list) and inner and all(isinstance(item, str) for item in inner)
    return answers_in(value if isinstance(value, str) and not texts else inner)  # [1, 5] may well be the answer


def answers_in(value: Any) -> tuple[str, ...]:
    """Accepted answers out of a text, a number, or any nesting of lists; blanks and repetitions are left out."""
    found: dict[str, None] = {}
    pending = [value]  # a stack of its own: nesting may be deeper than Python's
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        elif item is not None and not isinstance(item, dict):
            found.update((part.strip(), None) for part in str(item).split(_SPLIT) if part.strip())
    return tuple(found)


def masked_urls(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Addresses that the agent must not see: ``mask_url``, and what the tools are made with (``create_kwargs.url``)."""
    found: list[str] = []
    for place in (entry, record_of(entry, "extra_info"), record_of(entry, "metadata")):
        for key in NAMES["columns"]["masked"]:
            found += answers_in(opened(place.get(key)))
        for tool in record_of(place, "tools_kwargs").values():
            found += answers_in(record_of(tool, "create_kwargs").get("url")) if isinstance(tool, dict) else ()
    return tuple(dict.fromkeys(found))


def plain_text(value: Any) -> str:
    """A cell as text without blanks around it: 2 and 2.0 are "2", nothing is empty. Raises ValueError for nested values."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list | tuple | dict):
        raise ValueError("a nested value stands where a text is expected")
    return str(value).strip()


def text_list(value: Any) -> tuple[str, ...]:
    """One text or a list of them (a list of lists is flattened once), each once. Raises ValueError for deeper nesting."""
    items = value if isinstance(value, list | tuple) else [value]
    flat = [inner for item in items for inner in (item if isinstance(item, list | tuple) else [item])]
    return tuple(dict.fromkeys(text for text in map(plain_text, flat) if text))


def answer_list(value: Any) -> tuple[str, ...]:
    """`text_list` of what may be a list of texts written in JSON's or Python's notation; any other text is one answer.

    Raises ValueError for a list that is cut short, and for one without commas, as numpy prints it.
    """
    if not isinstance(value, str) or not _TEXTS.match(value):
        return text_list(value)
    with suppress(ValueError, RecursionError):  # else it may be Python's
        return text_list(json.loads(value))
    if _NEIGHBOURS.search(value):
        raise ValueError("a list without commas, as numpy prints it: its items cannot be told apart")
    try:
        return text_list(ast.literal_eval(value.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("a value is neither JSON nor Python's notation") from error


class MissingColumnError(KeyError):
    """A record has none of the names under which something is looked for."""

    def __init__(self, role: str, names: Sequence[str]) -> None:
        super().__init__(role)
        self.role, self.names = role, tuple(names)


def named_columns(text: str) -> dict[str, str]:
    """A person's word on which column plays which role: ``question=Prompt,answer=Gold,level=meta.level``. Raises UserError."""
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        role, _, name = (piece.strip() for piece in part.partition("="))
        if not name or role not in ROLES or role in found:
            roles = f"{', '.join(ROLES[:-1])} or {ROLES[-1]}"
            raise UserError(f"{part.strip()!r} names no column for {roles}, each once: write question=Prompt,answer=Gold.")
        found[role] = name
    return found


@dataclass(frozen=True)
class Fields:
    """One record of a file, looked up by roles: a name exactly, then in any case; one with dots goes into nested values."""

    line: int  # its number among the rows of the file
    values: Mapping[str, Any]
    columns: Mapping[str, str] = field(default_factory=dict)  # by role; overrule the names that a benchmark knows

    def has(self, name: str) -> bool:
        return bool(_looked_up(self.values, name))

    def get(self, *names: str) -> Any:
        """The value of the first name that the record has; None when it has none."""
        return next((value for name in names for value in _looked_up(self.values, name)), None)

    def role(self, role: str, *names: str) -> Any:
        """As `get`, under the name that a person gave to the role, or else the known names."""
        return self.get(self.columns[role]) if role in self.columns else self.get(*names)

    def need(self, role: str, *names: str) -> Any:
        """As `role`. Raises MissingColumnError when there is no such column at all."""
        known = (self.columns[role],) if role in self.columns else names
        if not any(map(self.has, known)):
            raise MissingColumnError(role, known)
        return self.get(*known)

    def text(self, role: str, *names: str) -> str:
        return plain_text(self.role(role, *names))

    def texts(self, role: str, *names: str) -> tuple[str, ...]:
        """A text, or a list of them, as a list without blanks. Raises ValueError for what is neither."""
        return text_list(self.role(role, *names))


def _looked_up(value: Any, name: str) -> tuple[Any, ...]:
    """The value of a name in a tuple; empty when there is none."""
    value = opened(value, "{")  # some files hold JSON as text
    first, _, more = name.partition(".")
    if isinstance(value, list | tuple):
        inside = first.isdecimal() and int(first) < len(value)
        return () if not inside else (_looked_up(value[int(first)], more) if more else (value[int(first)],))
    if not isinstance(value, Mapping):
        return ()
    if name in value:
        return (value[name],)
    folded = [key for key in value if isinstance(key, str) and key.strip().casefold() == name.casefold()]
    if len(folded) == 1:
        return (value[folded[0]],)
    return next((found for inner in _looked_up(value, first) if (found := _looked_up(inner, more))), ()) if more else ()


def check_questions(*places: Path) -> None:
    """Before long work: questions are written in place of nothing but questions. Raises UserError."""
    for place in places:
        line = b""
        with or_cannot(f"read {place}", "check the path"):
            if place.is_file():
                with place.open("rb") as file:
                    line = next((line for line in file if line.strip()), b"")
        try:
            held = decode_record(line.removeprefix(codecs.BOM_UTF8)) if line else None
            ours = held is None or "answers" in Question.model_validate(held).model_fields_set
        except ValueError:
            ours = False
        if not ours:
            raise UserError(f"{place} holds something else than questions: choose another place.")


def write_questions(path: Path, questions: Iterable[Question], *, private: bool = False) -> int:
    """Write a file anew, whole or not at all; returns how many there are. ``private``: for its owner only."""
    lines = [encode_record(question) for question in questions]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"".join(line + b"\n" for line in lines), private=private)
    return len(lines)


def require_distinct(questions: Iterable[Question]) -> None:
    """Raise UserError where two questions have one id."""
    for id, count in Counter(question.id for question in questions).items():
        if count > 1:
            raise UserError(f"{count} questions have the id {id!r}: give each its own, or remove the copies.")


def read_questions(path: Path, *, whole: bool = False) -> list[Question]:
    """The questions of a file or folder, in order; of trajectories, what they were asked, each once.

    In a file of our own every line must be a question; of other layouts what cannot be read is left out with a warning, and
    with ``whole`` refused. Raises UserError for that, and when there is no question.
    """
    own = None if path.is_dir() else _own(path)
    if own:
        return own
    none = f"{path} holds no question: give a file of questions."
    if own is not None:
        raise UserError(none)
    from sanderling.data.importing import Import, warn_of_left_out  # thousands of lines that our own files do not need

    asked: list[Question] = []
    of_trajectories: dict[str, Question] = {}
    unread: list[str] = []
    reading = Import(path, on_unread=lambda id, value, code, entries: unread.append(id))
    for found in reading:
        if isinstance(found, Question):
            asked.append(found)
        elif found.question.text:
            of_trajectories.setdefault(found.question.id, found.question)
    if not asked and not of_trajectories:
        raise UserError(none)
    if whole and reading.report.unread:
        name, _, index = unread[0].rpartition("#")
        raise UserError(
            f"{reading.report.unread:,} of the {reading.report.entries:,} entries of {path} cannot be read as questions, first "
            f"entry {int(index) + 1:,} of {name}: mend or remove them; sanderling data import {path} --questions FILE says why "
            "of each."
        )
    warn_of_left_out(path, reading.report)
    return asked or list(of_trajectories.values())


def _own(path: Path) -> list[Question] | None:
    """The questions of a file of our own; None where its first line is none of them. Raises UserError for a broken line."""
    found: list[Question] = []
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                found += [Question.model_validate(decode_record(line))] if line.strip() else []
            except ValueError as error:
                if not found:
                    return None
                every = error.errors() if isinstance(error, ValidationError) else [{"loc": (), "msg": str(error)}]
                what = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}".lstrip(": ") for one in every)
                raise UserError(f"Line {number} of {path} is no question ({what}): mend or remove it.") from error
    return found
