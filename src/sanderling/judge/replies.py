"""Strict readers of judges' replies: one word, a letter, labelled lines, JSON objects.

What cannot be read for certain is None: it is asked for once more and then left unscored, never taken for "wrong". A verdict
counts where it stands alone: a whole reply, the value of a label at the beginning of a line, the value of a key. It never
counts within a sentence, a quotation (``>``) or the answer that a judge repeats. Two verdicts that differ are none. Reading
takes time linear in the reply's length.
"""

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sanderling.core.record import Question
from sanderling.judge.rules import answer_tokens
from sanderling.judge.verdict import Grade, Verdict, decided

T = TypeVar("T")


@dataclass(frozen=True)
class Labels:
    """How a judge prompt names the fields of a reply (extracted, reasoning, verdict, confidence, others), and its verdicts."""

    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    words: Mapping[str, bool] = field(default_factory=dict[str, bool])  # in lower case


Reader = Callable[[str, Question, Labels], Verdict | None]
"""The verdict in a reply, with a reason of the judge's own words, or an empty one for the whole reply; None: unreadable."""

# Pieces of a reply --------------------------------------------------------------------------------------------------------

_WIDE_SIGNS = str.maketrans("：｛｝［］，；！（）＂＇“”‘’％＝", ":{}[],;!()\"'\"\"''%=")
_MARKUP = " \t\r\n\u3000*_`#\"'"
_AROUND = _MARKUP + "[](){}<>.。,;!-"
_BULLET = re.compile(r"^(?:[-*+•]\s+|\d{1,2}[.)]\s*)?")
_AFTER_WORD = re.compile(r"[\s*_`\"']*[.。,;:!(–—-]")
_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)\s*%?", re.ASCII)
_MOST_OPENINGS = 1_000
"""Braces at which an object is looked for: formulas in the reasoning have many."""
_LONGEST_EXTRACT = 500
_LONGEST_LABEL = 60


def spoken(reply: str) -> str:
    """The reply without its reasoning, and full-width signs as plain ones. Reasoning that never ended hides all after it."""
    _, closed, after = reply.rpartition("</think>")
    return (after if closed else reply).partition("<think>")[0].translate(_WIDE_SIGNS).strip()


def _bare(text: str) -> str:
    """Without markup, quotation marks, brackets and stops around it."""
    return text.strip(_AROUND)


def _whole(reply: str, words: Mapping[str, T]) -> T | None:
    """The value of a reply that is one of these words (in lower case) and nothing else."""
    return words.get(_bare(unicodedata.normalize("NFKC", spoken(reply))).casefold())


def _agreed(values: Iterable[T | None]) -> T | None:
    """The one value that all are; None where there is none, two differ, or one of them could not be read."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _label_of(text: str) -> str:
    """A label as it is compared: ``**Extracted final answer`` is ``extracted_final_answer``."""
    return "_".join(_BULLET.sub("", text.strip(), count=1).strip(_MARKUP + "[]").casefold().split())


def _first_word(value: str, words: Mapping[str, bool]) -> bool | None:
    """The word at the beginning of a label's value; None when more follows than a remark, or another word of these."""
    first = next((found for line in value.splitlines() if (found := _bare(line))), "")
    for word in sorted(words, key=len, reverse=True):
        rest = first[len(word) :]
        if first[: len(word)].casefold() == word:
            others = any(re.search(rf"(?<![a-z]){other}(?![a-z])", rest, re.IGNORECASE) for other in words)
            return words[word] if not rest or (_AFTER_WORD.match(rest) and not others) else None
    return None


def _percent(value: str) -> float | None:
    """A share in percent, as written; None for anything else, and beyond 0 to 100."""
    first = next((line for line in unicodedata.normalize("NFKC", value).splitlines() if _bare(line)), "")
    found = _PERCENT.fullmatch(first.strip(_AROUND.replace("-", "")))
    return float(found[1]) if found and float(found[1]) <= 100.0 else None


def _truth(value: object, words: Mapping[str, bool]) -> bool | None:
    """What the value of a key says: itself, or one of these words."""
    if isinstance(value, bool):
        return value
    return words.get(_bare(value).casefold()) if isinstance(value, str) else None


def _json_objects(text: str) -> list[dict[str, Any]] | None:
    """The JSON objects in a text, the outermost ones; None for one with two values of a key, and for too many braces."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if found.setdefault(key, value) != value:
                raise KeyError(key)
        return found

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_constant=str, strict=False)
    found: list[dict[str, Any]] = []
    at = text.find("{")
    for _ in range(_MOST_OPENINGS):
        if at < 0:
            return found
        try:
            value, end = decoder.raw_decode(text, at)
            found.append(value)
        except KeyError:
            return None
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("{", end)
    return None


# A line, a word, a letter -------------------------------------------------------------------------------------------------

_LINE = re.compile(
    r"^[ \t*_#`•+\-]*[\"']?correct[\"']?[ \t*_`]*[:=][ \t*_`]*[\"']?(yes|no|true|false)[ \t\r\"'*_`.,!。]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""What goes on, as in ``correct: no wait, yes``, is no verdict."""
_KEYS = frozenset({"correct", "is_correct", "verdict", "judgement", "judgment", "result"})
_WORDS = {"correct": True, "incorrect": False}
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False, "wrong": False, **_WORDS}
_WORD_LABELS = frozenset({"grade", "verdict", "judgement", "judgment"})
_LETTERS = {"a": Grade.CORRECT, "b": Grade.INCORRECT, "c": Grade.NOT_ATTEMPTED}
_GRADES = _LETTERS | {
    f"{begun}{word}": grade
    for letter, grade in _LETTERS.items()
    for word in (grade.value, grade.value.replace("_", " "))
    for begun in ("", f"{letter}: ", f"{letter}, ", f"{letter}) ", f"{letter} (")
}


def read_lines(reply: str, question: Question, labels: Labels) -> Verdict | None:
    """Reasoning, then ``correct: yes``; also a JSON object with such a key, and a reply that is the one word."""
    text = spoken(reply)
    objects = _json_objects(text)
    if objects is None:
        return None
    found = {_TRUTHS[line[1].casefold()] for line in _LINE.finditer(text)}
    values = [value for one in objects for key, value in one.items() if str(key).casefold() in _KEYS]
    found |= {_TRUTHS.get(str(value).strip().casefold()) for value in values if isinstance(value, bool | str)}
    found.add(_whole(reply, _WORDS))
    correct = _agreed(found - {None})
    return None if correct is None else decided(correct, _LINE.sub("", text))


def read_word(reply: str, question: Question, labels: Labels) -> Verdict | None:
    """Lines that are nothing but CORRECT or INCORRECT, or the word behind ``GRADE:``; all of them have to agree."""
    found: list[bool | None] = []
    for line in spoken(reply).splitlines():
        head, colon, rest = line.partition(":")
        if _bare(line).casefold() in _WORDS and not line.lstrip().startswith(">"):
            found.append(_WORDS[_bare(line).casefold()])
        elif colon and _label_of(head) in _WORD_LABELS:
            found.append(_first_word(rest, _WORDS))
    correct = _agreed(found)
    return None if correct is None else decided(correct, "")


def read_letter(reply: str, question: Question, labels: Labels) -> Verdict | None:
    """SimpleQA's grades: a reply that is one letter (A right, B wrong, C not attempted), its word, or both in agreement."""
    grade = _whole(reply, _GRADES)
    return None if grade is None else decided(grade is Grade.CORRECT, "", grade=grade.value)


# Fields -------------------------------------------------------------------------------------------------------------------


def read_fields(reply: str, question: Question, labels: Labels) -> Verdict | None:
    """Labelled lines, one JSON object with these keys, or several of both that agree."""
    text = spoken(reply)
    objects = _json_objects(text)
    if objects is None:
        return None
    values = _labelled(text, labels.fields)
    verdicts = [_first_word(value, labels.words) for name, value in values if name == "verdict"]
    for key, value in (pair for one in objects for pair in one.items()):
        name = labels.fields.get(_label_of(key), "")
        if name == "verdict":
            verdicts.append(_truth(value, labels.words))
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            values.append((name, str(value)))
    correct = _agreed(verdicts)
    if correct is None:
        return None
    last = dict(values)
    extracted = " ".join(last["extracted"].split()).strip("*_` ") if "extracted" in last else None
    if extracted and len(extracted) > _LONGEST_EXTRACT:
        extracted = extracted[: _LONGEST_EXTRACT - 1] + "…"
    sure = _agreed(_percent(value) for name, value in values if name == "confidence")
    return decided(correct, last.get("reasoning", ""), extracted=extracted, confidence=sure)


def _labelled(text: str, fields: Mapping[str, str]) -> list[tuple[str, str]]:
    """Fields in their order, each with what stands after its label up to the next one.

    What stands between the last repeated answer and the reasoning after it repeats, whatever verdicts it holds.
    """
    lines = text.splitlines()
    heads = [re.match(rf"([^:=]{{0,{_LONGEST_LABEL}}})[:=]", line) for line in lines]
    names = [fields.get(_label_of(head[1]), "") if head else "" for head in heads]
    begun = max((at for at, name in enumerate(names) if name == "extracted"), default=len(names))
    end = next((at for at in range(begun, len(names)) if names[at] == "reasoning"), begun)
    blocks: list[tuple[str, list[str]]] = []
    for at, (line, head, name) in enumerate(zip(lines, heads, names, strict=True)):
        if head and name and not (begun < at < end and name in ("verdict", "confidence")):
            blocks.append((name, [line[head.end() :]]))
        elif blocks:
            blocks[-1][1].append(line)
    return [(name, "\n".join(value)) for name, value in blocks]


# Sets ---------------------------------------------------------------------------------------------------------------------

_AND = frozenset({"and", "&", "和", "与"})


def read_sets(reply: str, question: Question, labels: Labels) -> Verdict | None:
    """DeepSearchQA: each item of a set found or not, and what was given beyond them; scored by F1, right is only the whole set.

    The reply's items have to be the accepted ones, word for word: a judge that renames, merges or forgets one is not believed.
    """
    found: list[Verdict | None] = []
    for one in _json_objects(spoken(reply)) or ():
        named = {_label_of(key): value for key, value in one.items()}
        inner = named.get("answer_correctness")
        if isinstance(inner, dict):
            named = {_label_of(str(key)): value for key, value in inner.items()}
        if "correctness_details" in named:
            found.append(_read_set(named, question.answers))
    return found[0] if found and all(one == found[0] for one in found) else None


def _read_set(named: Mapping[str, Any], accepted: Sequence[str]) -> Verdict | None:
    items, excessive = named["correctness_details"], named.get("excessive_answers")
    if not isinstance(items, dict) or not isinstance(excessive, list):
        return None
    given = {str(item): _truth(value, {"true": True, "false": False}) for item, value in items.items()}
    extra = tuple(one.strip() for one in excessive if isinstance(one, str) and one.strip())
    if None in given.values() or len(extra) != len(excessive) or not _are_the_items(list(given), accepted):
        return None
    parts = {item: value is True for item, value in given.items()}
    grade = Grade.PARTLY if any(parts.values()) else Grade.INCORRECT
    if all(parts.values()):
        grade = Grade.CORRECT_WITH_EXTRA if extra else Grade.CORRECT
    score, reason = set_scores(parts, extra)[2], str(named.get("explanation", ""))
    return decided(grade is Grade.CORRECT, reason, score=score, grade=grade.value, parts=parts, excessive=extra)


def _are_the_items(items: Sequence[str], accepted: Sequence[str]) -> bool:
    """Whether items are the accepted ones: one for each text, or the pieces of the only one."""
    given, wanted = (
        [tuple(word for word in answer_tokens(text) if word not in _AND) for text in texts] for texts in (items, accepted)
    )
    if len(accepted) > 1:
        return Counter(given) == Counter(wanted)
    return bool(items) and all(given) and Counter(itertools.chain(*given)) == Counter(itertools.chain(*wanted))


def set_scores(parts: Mapping[str, bool], excessive: Sequence[str]) -> tuple[float, float, float]:
    """Precision, recall and F1 of an answer that is a set; nothing found is 0 in all three."""
    found = sum(parts.values())
    if not found:
        return 0.0, 0.0, 0.0
    precision, recall = found / (found + len(excessive)), found / len(parts)
    return precision, recall, 2 * precision * recall / (precision + recall)


READERS: dict[str, Reader] = {
    "lines": read_lines,
    "word": read_word,
    "letter": read_letter,
    "fields": read_fields,
    "sets": read_sets,
}
