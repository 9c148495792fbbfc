"""Judge prompts: how a model is asked whether an answer is right, in the shape that a benchmark's publisher uses.

They are data, in ``prompts.toml``; how replies are read is in `replies`. A prompt's version changes with every letter that a
model reads, and with its reader, since verdicts are kept under it.

Example: ``get_prompt("hle").messages(question, "Oslo")``
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve
from sanderling.core.record import Question
from sanderling.core.types import Message, Role
from sanderling.judge.replies import READERS, Labels, Reader
from sanderling.judge.verdict import Verdict

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
    reader: Reader
    labels: Labels = field(default_factory=Labels)
    reminder: str = ""  # added when a reply could not be read; without one the same is asked again
    max_tokens: int = 2_048  # of a reply: far more than its shape needs, since a cut reply is never read
    same_text_is_right: bool = False
    """An answer that is letter by letter an accepted one needs no judge. Only where the publisher has it so."""

    def messages(self, question: Question, answer: str, *, again: bool = False) -> tuple[Message, ...]:
        """Ask about one answer; ``again``: after a reply that could not be read.

        Question, accepted answers and given answer stand each between tags that no text of theirs can close or open.
        """
        accepted = "\n".join(f"- {' '.join(one.split())}" for one in question.answers)
        fenced = {"question": question.text, "accepted": accepted, "answer": answer}
        case = _CASE.format(**{name: _TAG.sub("‹", text) for name, text in fenced.items()})
        user = f"{case}\n\n{self.reminder}" if again and self.reminder else case
        return Message(role=Role.SYSTEM, content=self.system), Message(role=Role.USER, content=user)

    def read(self, reply: str, question: Question) -> Verdict | None:
        """The verdict in a reply; None where it cannot be read for certain."""
        return self.reader(reply, question, self.labels)


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
        labels=Labels({label: name for name, written in labels.items() for label in written}, words),
        reminder=texts[1],
        **{name: entry[name] for name in ("max_tokens", "same_text_is_right") if name in entry},
    )


PROMPTS = {key: _prompt(key, entry) for key, entry in _TABLE.items()}
DEFAULT_PROMPT = "ours"


def get_prompt(name: str) -> JudgePrompt:
    """The judge prompt of that name, or one of a person's own as ``file.py:name``. Raises UserError for what is none."""
    found = resolve(name, PROMPTS, "judge's form")
    if not isinstance(found, JudgePrompt):
        raise UserError(f"{name} is no judge prompt: make it with sanderling.judge.prompts.JudgePrompt.")
    return found
