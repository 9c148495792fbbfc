"""A model's own answer to a question, and a judge's word on it: what the checks with models share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.protocol.asking import Asker, first_readable
from sanderling.protocol.endings import Ending
from sanderling.reward.judge import Judge, Ruling
from sanderling.synth.prompt import Prompt
from sanderling.trajectory.record import Question, Trajectory

UNKNOWN = "unknown"
_LONGEST = 400
_ANSWER_TOKENS = 512


@dataclass(frozen=True)
class Answered:
    """What a model said."""

    answer: str
    """Empty: it does not know."""
    provenance: dict[str, Any]


async def answered_by(askers: Sequence[Asker], prompt: Prompt, material: str, *, temperature: float = 0.0) -> Answered:
    """The answer of the first model that can be reached. Raises AskingOutageError when none can."""
    read = await first_readable(
        askers, prompt.messages(material), read_answer, max_tokens=_ANSWER_TOKENS, temperature=temperature
    )
    return Answered(read.value or "", prompt.provenance(read.replies))


def read_answer(reply: str) -> str:
    """The answer in a reply; empty where the model says that it does not know."""
    said = " ".join(reply.rpartition("</think>")[2].split()).strip(" *\"'`")
    return "" if said.casefold().rstrip(".!") in (UNKNOWN, "") else said[:_LONGEST]


async def ruling_on(question: Question, answer: str, judge: Judge) -> Ruling:
    """Whether an answer is right; one that is not given is not."""
    if not answer:
        return Ruling.INCORRECT
    said = Trajectory(id=question.id, question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer)
    return (await judge(said)).ruling
