"""Strict readers of judges' replies, shared by forms: one word, labelled lines, JSON objects.

Contract: what cannot be read for certain is None. A verdict counts where it stands alone: a whole reply, the value of a label
at the beginning of a line, the value of a key. It never counts within a sentence, a quotation (``>``) or the answer that a
judge repeats. Two verdicts that differ are none. Linear in the reply's length. Knows no prompt.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_WIDE_SIGNS = str.maketrans("：｛｝［］，；！（）＂＇“”‘’％＝", ":{}[],;!()\"'\"\"''%=")
_MARKUP = " \t\r\n\u3000*_`#\"'"
_AROUND = _MARKUP + "[](){}<>.。,;!-"
_LABEL = re.compile(r"^(?:[-*+•]\s+|\d{1,2}[.)]\s*)?")
_AFTER_WORD = re.compile(r"[\s*_`\"']*[.。,;:!(–—-]")
_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)\s*%?", re.ASCII)
_OPEN, _CLOSE = "<think>", "</think>"
_MOST_OPENINGS = 1_000
"""Braces at which an object is looked for: formulas in the reasoning have many."""
_LONGEST_EXTRACT = 500
_LONGEST_LABEL = 60


@dataclass(frozen=True)
class Labels:
    """How a form names its fields, folded by :func:`label_of`."""

    extracted: frozenset[str]
    reasoning: frozenset[str]
    verdict: frozenset[str]
    confidence: frozenset[str]
    words: Mapping[str, bool]
    """What a verdict may be, in lower case."""
    others: frozenset[str] = frozenset()
    """Fields that nothing is read from."""

    @property
    def all(self) -> frozenset[str]:
        return self.extracted | self.reasoning | self.verdict | self.confidence | self.others


@dataclass(frozen=True)
class Fields:
    """What a reply with labels says."""

    correct: bool
    extracted: str | None
    confidence: float | None
    reasoning: str


class _RepeatedKeyError(ValueError):
    """One object says two different things under one key."""


def spoken(reply: str) -> str:
    """The reply without its reasoning, and full-width signs as plain ones. Reasoning that never ended hides all after it."""
    _, closed, after = reply.rpartition(_CLOSE)
    return (after if closed else reply).partition(_OPEN)[0].translate(_WIDE_SIGNS).strip()


def bare(text: str) -> str:
    """Without markup, quotation marks, brackets and stops around it."""
    return text.strip(_AROUND)


def whole(reply: str, words: Mapping[str, T]) -> T | None:
    """What a reply says that is one of these words (in lower case) and nothing else."""
    return words.get(bare(unicodedata.normalize("NFKC", spoken(reply))).casefold())


def agreed(values: Iterable[T | None]) -> T | None:
    """The one value that all are; None where there is none, two differ, or one of them could not be read."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def label_of(text: str) -> str:
    """A label as it is compared: ``**Extracted final answer`` is ``extracted_final_answer``."""
    return "_".join(_LABEL.sub("", text.strip(), count=1).strip(_MARKUP + "[]").casefold().split())


def read_fields(reply: str, labels: Labels) -> Fields | None:
    """A reply of labelled lines, of one JSON object with these keys, or of several that agree."""
    text = spoken(reply)
    objects = json_objects(text)
    if objects is None:
        return None
    lines = _blocks(text, labels)
    verdicts = [said(value, labels.words) for label, value in lines if label in labels.verdict]
    keyed = [(label_of(key), value) for one in objects for key, value in one.items()]
    verdicts += [_said_in_json(value, labels) for key, value in keyed if key in labels.verdict]
    correct = agreed(verdicts)
    if correct is None:
        return None
    values = [*lines, *((key, str(value)) for key, value in keyed if _is_scalar(value))]
    extracted = [value for key, value in values if key in labels.extracted]
    confidence = [percent(value) for key, value in values if key in labels.confidence]
    reasoning = [value for key, value in values if key in labels.reasoning]
    return Fields(correct, _short(extracted[-1]) if extracted else None, agreed(confidence), reasoning[-1] if reasoning else "")


def said(value: str, words: Mapping[str, T]) -> T | None:
    """The word at the beginning of a label's value; None when more follows than a remark, or another word of these."""
    first = next((found for line in value.splitlines() if (found := bare(line))), "")
    if first.casefold() in words:
        return words[first.casefold()]
    for word in sorted(words, key=len, reverse=True):
        if first[: len(word)].casefold() == word:
            rest = first[len(word) :]
            others = any(re.search(rf"(?<![a-z]){other}(?![a-z])", rest, re.IGNORECASE) for other in words)
            return words[word] if _AFTER_WORD.match(rest) and not others else None
    return None


def percent(value: str) -> float | None:
    """A share in percent, as said; None for anything else, and beyond 0 to 100."""
    first = next((line for line in unicodedata.normalize("NFKC", value).splitlines() if bare(line)), "")
    found = _PERCENT.fullmatch(first.strip(_AROUND.replace("-", "")))
    number = float(found[1]) if found else -1.0
    return number if 0.0 <= number <= 100.0 else None


def json_objects(text: str) -> list[dict[str, Any]] | None:
    """The JSON objects in a text, the outermost ones; None for one that says two things under one key, and too many braces."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=str, strict=False)
    found: list[dict[str, Any]] = []
    at = text.find("{")
    for _ in range(_MOST_OPENINGS):
        if at < 0:
            return found
        try:
            value, end = decoder.raw_decode(text, at)
        except _RepeatedKeyError:
            return None
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise _RepeatedKeyError(key)
        found[key] = value
    return found


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _said_in_json(value: object, labels: Labels) -> bool | None:
    if isinstance(value, bool):
        return value
    return labels.words.get(bare(value).casefold()) if isinstance(value, str) else None


def _blocks(text: str, labels: Labels) -> list[tuple[str, str]]:
    """Labels in their order, each with what stands after it up to the next one.

    What stands between the last repeated answer and the reasoning after it repeats, whatever verdicts it holds.
    """
    lines = text.splitlines()
    heads = [_head(line, labels.all) for line in lines]
    begun = max((at for at, (label, _) in enumerate(heads) if label in labels.extracted), default=None)
    if begun is not None:
        ends = (at for at, (label, _) in enumerate(heads) if at > begun and label in labels.reasoning)
        for at in range(begun + 1, next(ends, begun)):
            if heads[at][0] in labels.verdict | labels.confidence:
                heads[at] = ("", lines[at])
    blocks: list[tuple[str, list[str]]] = []
    for label, value in heads:
        if label:
            blocks.append((label, [value]))
        elif blocks:
            blocks[-1][1].append(value)
    return [(label, "\n".join(value)) for label, value in blocks]


def _head(line: str, known: frozenset[str]) -> tuple[str, str]:
    """The label that a line begins with, and the rest; without one, the whole line."""
    sign = min((at for at in (line.find(":"), line.find("=")) if at >= 0), default=-1)
    if not 0 <= sign <= _LONGEST_LABEL:
        return "", line
    label = label_of(line[:sign])
    return (label, line[sign + 1 :]) if label in known else ("", line)


def _short(text: str) -> str:
    words = " ".join(text.split()).strip("*_` ")
    return words if len(words) <= _LONGEST_EXTRACT else words[: _LONGEST_EXTRACT - 1] + "…"
