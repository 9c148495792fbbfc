"""Judge prompts: how a model is asked whether an answer is right, in the shape of a benchmark's publisher, and its reply read.

They are data, in ``prompts.toml``; a prompt's version, under which verdicts are kept, changes with every letter that a model
reads. Readers are strict: what cannot be read for certain is None, never "wrong". A verdict counts where it stands alone: a
whole reply, the value of a label at the beginning of a line, the value of a key; never within a sentence, a quotation (``>``)
or the answer that a judge repeats. Two verdicts that differ are none. Reading takes time linear in the reply's length.
"""

import hashlib
import itertools
import json
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from sanderling.core.plugins import resolve
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import (
    AskingOutageError,
    AskingRefusedError,
    BudgetSpentError,
    Message,
    ModelClient,
    Role,
    first_readable,
)
from sanderling.judge.rules import answer_tokens
from sanderling.judge.verdict import Code, Verdict, agreed, decided, unscored

T = TypeVar("T")

_CASE = (
    "<question>\n{question}\n</question>\n\n<right_answers>\n{accepted}\n</right_answers>\n\n"
    "<final_answer>\n{answer}\n</final_answer>"
)
_TAG = re.compile(r"<(?=\s*/?\s*(?:question|right_answers|final_answer)\b)", re.IGNORECASE)


@dataclass(frozen=True)
class JudgePrompt:
    """How a judging model is asked, and its reply read."""

    key: str
    about: str  # for people: which shape a reply has, and whose
    name: str  # with the version, for provenance and wherever verdicts are kept
    system: str
    reader: Callable[[str, Question, "JudgePrompt"], Verdict | None]
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of a reply's lines or keys, and what each holds: extracted, reasoning, verdict, others."""
    words: Mapping[str, bool] = field(default_factory=dict[str, bool])  # a verdict in a field, in lower case
    reminder: str = ""  # added when a reply could not be read; without one the same is asked again
    max_tokens: int = 2_048  # of a reply: far more than its shape needs, since a cut reply is never read
    same_text_is_right: bool = False  # letter by letter an accepted answer needs no judge: where the publisher has it so

    def messages(self, question: Question, answer: str, *, again: bool = False) -> tuple[Message, ...]:
        """Ask about one answer, each text between tags that it cannot close; ``again``: after an unreadable reply."""
        accepted = "\n".join(f"- {' '.join(one.split())}" for one in question.answers)
        fenced = {"question": question.text, "accepted": accepted, "answer": answer}
        case = _CASE.format(**{name: _TAG.sub("‹", text) for name, text in fenced.items()})
        user = f"{case}\n\n{self.reminder}" if again and self.reminder else case
        return Message(role=Role.SYSTEM, content=self.system), Message(role=Role.USER, content=user)

    def read(self, reply: str, question: Question) -> Verdict | None:
        """The verdict in a reply, with a reason in the judge's own words, or none for the whole reply; None: unreadable."""
        return self.reader(reply, question, self)


_WIDE_SIGNS = str.maketrans("：｛｝［］，；！（）＂＇“”‘’％＝", ":{}[],;!()\"'\"\"''%=")
_MARKUP = " \t\r\n\u3000*_`#\"'"
_AROUND = _MARKUP + "[](){}<>.。,;!-"
_BULLET = re.compile(r"^(?:[-*+•]\s+|\d{1,2}[.)]\s*)?")
_AFTER_WORD = re.compile(r"[\s*_`\"']*[.。,;:!(–—-]")
_MOST_OPENINGS = 1_000  # braces at which an object is looked for: formulas in the reasoning have many
_LONGEST_LABEL = 60


def spoken(reply: str) -> str:
    """The reply without its reasoning, and full-width signs as plain ones. Reasoning that never ended hides all after it."""
    _, closed, after = reply.rpartition("</think>")
    return (after if closed else reply).partition("<think>")[0].translate(_WIDE_SIGNS).strip()


def _whole(reply: str, words: Mapping[str, T]) -> T | None:
    """The value of a reply that is one of these words (in lower case) and nothing else."""
    return words.get(unicodedata.normalize("NFKC", spoken(reply)).strip(_AROUND).casefold())


def _label_of(text: str) -> str:
    """A label as it is compared: ``**Extracted final answer`` is ``extracted_final_answer``."""
    return "_".join(_BULLET.sub("", text.strip(), count=1).strip(_MARKUP + "[]").casefold().split())


def _first_word(value: str, words: Mapping[str, bool]) -> bool | None:
    """The word at the beginning of a label's value; None when more follows than a remark, or another word of these."""
    first = next((found for line in value.splitlines() if (found := line.strip(_AROUND))), "")
    for word in sorted(words, key=len, reverse=True):
        rest = first[len(word) :]
        if first[: len(word)].casefold() == word:
            others = any(re.search(rf"(?<![a-z]){other}(?![a-z])", rest, re.IGNORECASE) for other in words)
            return words[word] if not rest or (_AFTER_WORD.match(rest) and not others) else None
    return None


def _truth(value: object, words: Mapping[str, bool]) -> bool | None:
    """What the value of a key says: itself, or one of these words."""
    if isinstance(value, bool):
        return value
    return words.get(value.strip(_AROUND).casefold()) if isinstance(value, str) else None


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


_LINE = re.compile(
    r"^[ \t*_#`•+\-]*[\"']?correct[\"']?[ \t*_`]*[:=][ \t*_`]*[\"']?(yes|no|true|false)[ \t\r\"'*_`.,!。]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""What goes on, as in ``correct: no wait, yes``, is no verdict."""
_KEYS = frozenset({"correct", "is_correct", "verdict", "judgement", "judgment", "result"})
_WORDS = {"correct": True, "incorrect": False}
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False, "wrong": False, **_WORDS}
_WORD_LABELS = frozenset({"grade", "verdict", "judgement", "judgment"})
_GRADES = {
    f"{begun}{word}": letter == "a"
    for letter, grade in (("a", "correct"), ("b", "incorrect"), ("c", "not_attempted"))
    for word in (letter, grade, grade.replace("_", " "))
    for begun in (("",) if word == letter else ("", f"{letter}: ", f"{letter}, ", f"{letter}) ", f"{letter} ("))
}


def read_lines(reply: str, question: Question, prompt: JudgePrompt) -> Verdict | None:
    """Reasoning, then ``correct: yes``; also a JSON object with such a key, and a reply that is the one word."""
    text = spoken(reply)
    objects = _json_objects(text)
    if objects is None:
        return None
    found = {_TRUTHS[line[1].casefold()] for line in _LINE.finditer(text)}
    values = [value for one in objects for key, value in one.items() if str(key).casefold() in _KEYS]
    found |= {_TRUTHS.get(str(value).strip().casefold()) for value in values if isinstance(value, bool | str)}
    found.add(_whole(reply, _WORDS))
    correct = agreed(found - {None})
    return None if correct is None else decided(correct, _LINE.sub("", text))


def read_word(reply: str, question: Question, prompt: JudgePrompt) -> Verdict | None:
    """Lines that are nothing but CORRECT or INCORRECT, or the word behind ``GRADE:``; all of them have to agree."""
    found: list[bool | None] = []
    for line in spoken(reply).splitlines():
        head, colon, rest = line.partition(":")
        word = line.strip(_AROUND).casefold()
        if word in _WORDS and not line.lstrip().startswith(">"):
            found.append(_WORDS[word])
        elif colon and _label_of(head) in _WORD_LABELS:
            found.append(_first_word(rest, _WORDS))
    correct = agreed(found)
    return None if correct is None else decided(correct, "")


def read_letter(reply: str, question: Question, prompt: JudgePrompt) -> Verdict | None:
    """SimpleQA's grades: a reply that is one letter (A right, B wrong, C not attempted), its word, or both in agreement."""
    correct = _whole(reply, _GRADES)
    return None if correct is None else decided(correct, "")


def read_fields(reply: str, question: Question, prompt: JudgePrompt) -> Verdict | None:
    """Labelled lines, one JSON object with these keys, or several of both that agree."""
    text = spoken(reply)
    objects = _json_objects(text)
    if objects is None:
        return None
    values = _labelled(text, prompt.fields)
    verdicts = [_first_word(value, prompt.words) for name, value in values if name == "verdict"]
    for key, value in (pair for one in objects for pair in one.items()):
        name = prompt.fields.get(_label_of(key), "")
        if name == "verdict":
            verdicts.append(_truth(value, prompt.words))
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            values.append((name, str(value)))
    correct = agreed(verdicts)
    return None if correct is None else decided(correct, dict(values).get("reasoning", ""))


def _labelled(text: str, fields: Mapping[str, str]) -> list[tuple[str, str]]:
    """Fields in order, each with what stands up to the next label; none counts between a repeated answer and reasoning."""
    lines = text.splitlines()
    heads = [re.match(rf"([^:=]{{0,{_LONGEST_LABEL}}})[:=]", line) for line in lines]
    names = [fields.get(_label_of(head[1]), "") if head else "" for head in heads]
    begun = max((at for at, name in enumerate(names) if name == "extracted"), default=len(names))
    end = next((at for at in range(begun, len(names)) if names[at] == "reasoning"), begun)
    blocks: list[tuple[str, list[str]]] = []
    for at, (line, head, name) in enumerate(zip(lines, heads, names, strict=True)):
        if head and name and not (begun < at < end and name == "verdict"):
            blocks.append((name, [line[head.end() :]]))
        elif blocks:
            blocks[-1][1].append(line)
    return [(name, "\n".join(value)) for name, value in blocks]


_AND = frozenset({"and", "&", "和", "与"})


def read_sets(reply: str, question: Question, prompt: JudgePrompt) -> Verdict | None:
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
    return agreed(found)


def _read_set(named: Mapping[str, Any], accepted: Sequence[str]) -> Verdict | None:
    items, excessive = named["correctness_details"], named.get("excessive_answers")
    if not isinstance(items, dict) or not isinstance(excessive, list):
        return None
    given = {str(item): _truth(value, {"true": True, "false": False}) for item, value in items.items()}
    extra = tuple(one.strip() for one in excessive if isinstance(one, str) and one.strip())
    words, wanted = (
        [tuple(word for word in answer_tokens(text) if word not in _AND) for text in texts] for texts in (given, accepted)
    )
    # One item for each accepted text, or the pieces of the only one.
    if len(accepted) > 1:
        are_the_items = Counter(words) == Counter(wanted)
    else:
        are_the_items = words and all(words) and Counter(itertools.chain(*words)) == Counter(itertools.chain(*wanted))
    if None in given.values() or len(extra) != len(excessive) or not are_the_items:
        return None
    right, total = sum(value is True for value in given.values()), len(given)
    f1 = 2 * right / (right + len(extra) + total) if right else 0.0
    return decided(right == total and not extra, str(named.get("explanation", "")), score=f1)


READERS = {"lines": read_lines, "word": read_word, "letter": read_letter, "fields": read_fields, "sets": read_sets}


_TABLE = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
_SHARED = _TABLE.pop("shared")


def _prompt(key: str, entry: Mapping[str, Any]) -> JudgePrompt:
    texts = [entry["system"], entry.get("reminder", "")]
    for name, value in _SHARED.items():
        texts = [text.replace(f"{{{name}}}", value) for text in texts]
    version = hashlib.sha256("\x1e".join([_CASE, *filter(None, texts), entry["reader"]]).encode()).hexdigest()[:12]
    labels = entry.get("labels", {})
    labels = dict(_TABLE[labels]["labels"] if isinstance(labels, str) else labels)
    words = dict.fromkeys(labels.pop("yes", ()), True) | dict.fromkeys(labels.pop("no", ()), False)
    return JudgePrompt(
        key=key,
        about=entry["about"],
        name=f"{entry.get('name', key)} {version}",
        system=texts[0],
        reader=READERS[entry["reader"].split()[0]],
        fields={label: name for name, written in labels.items() for label in written},
        words=words,
        reminder=texts[1],
        **{name: entry[name] for name in ("max_tokens", "same_text_is_right") if name in entry},
    )


PROMPTS = {key: _prompt(key, entry) for key, entry in _TABLE.items()}
DEFAULT_PROMPT = "ours"


def get_prompt(name: str) -> JudgePrompt:
    """The judge prompt of that name, or one of a person's own as ``file.py:name``. Raises UserError for what is none."""
    return resolve(name, PROMPTS, "judge's form", JudgePrompt)


_LONGEST_REASON = 300


class ModelJudge:
    """Judges by the word of models, at temperature 0, such as ``ModelJudge([client], get_prompt("hle"))``."""

    def __init__(self, clients: Sequence[ModelClient], prompt: JudgePrompt = PROMPTS[DEFAULT_PROMPT]) -> None:
        self._clients, self._prompt = tuple(clients), prompt
        self.name = f"model {' or '.join(client.name for client in clients)} ({prompt.name})"
        self.places = tuple(client.place for client in clients)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict with its reason in short, the model that gave it, and what all replies took."""
        question, answer, prompt = trajectory.question, trajectory.answer or "", self._prompt
        if prompt.same_text_is_right and answer.strip() in {accepted.strip() for accepted in question.answers}:
            return decided(True, "letter by letter an accepted answer", Code.SAME_TEXT)
        try:
            found, replies = await first_readable(
                self._clients,
                prompt.messages(question, answer),
                lambda reply: prompt.read(reply, question),
                tries=2,  # of each model, while its replies cannot be read
                max_tokens=prompt.max_tokens,
                again=prompt.messages(question, answer, again=True),
            )
        except BudgetSpentError as error:
            return unscored(Code.BUDGET, str(error))
        except AskingRefusedError as error:
            return unscored(Code.REFUSED, str(error))
        except AskingOutageError as error:
            return unscored(Code.OUTAGE, str(error))
        usages, last = [reply.usage for reply in replies], replies[-1].text
        if found is None:
            found, reason = unscored(Code.UNREADABLE, ""), f"no verdict in {len(usages)} replies: {_short(last)!r}"
        else:
            reason = _short(found.reason or last)
        return replace(
            found,
            reason=reason,
            model=usages[-1].model,
            prompt=prompt.name,
            tokens=sum(usage.prompt_tokens + usage.sampled_tokens for usage in usages),
            cost=sum(usage.cost for usage in usages),
            remembered=all(usage.remembered for usage in usages),
        )


def _short(reply: str) -> str:
    words = " ".join(reply.split()).removeprefix("reasoning:").strip()
    return words if len(words) <= _LONGEST_REASON else words[: _LONGEST_REASON - 1] + "…"
