"""A model's own answer to a question, and a judge's word on it: what the checks with models share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.core.asking import Asker, first_readable
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.verdict import Judge, Ruling, rule_on
from sanderling.synth.prompt import Prompt

UNKNOWN = "unknown"
_LONGEST = 400
_ANSWER_TOKENS = 2_048
"""Room for the reasoning of a model that cannot leave it."""


@dataclass(frozen=True)
class Answered:
    """What a model said."""

    answer: str | None
    """Empty: it does not know. None: no reply could be read."""
    provenance: dict[str, Any]


async def answered_by(askers: Sequence[Asker], prompt: Prompt, material: str, *, temperature: float = 0.0) -> Answered:
    """The answer of the first model that can be reached. Raises AskingOutageError when none can."""
    read = await first_readable(
        askers, prompt.messages(material), read_answer, max_tokens=_ANSWER_TOKENS, temperature=temperature
    )
    return Answered(read.value, prompt.provenance(read.replies))


def read_answer(reply: str) -> str | None:
    """The answer in a reply; empty where the model says that it does not know, None where it says nothing at all."""
    said = " ".join(reply.rpartition("</think>")[2].split()).strip(" *\"'`")
    if not said:
        return None
    return "" if said.casefold().rstrip(".!") == UNKNOWN else said[:_LONGEST]


async def ruling_on(question: Question, answer: str | None, judge: Judge) -> Ruling:
    """Whether an answer is right. A model that does not know is not right; of one that said nothing it cannot be told."""
    if answer is None:
        return Ruling.UNSCORED
    said = Trajectory(id=question.id, question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer)
    return (await rule_on(said, judge)).ruling
