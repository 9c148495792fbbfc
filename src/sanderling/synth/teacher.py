"""The scripted teacher of questions about a generated encyclopedia: a text-level policy for the one agent loop."""

import asyncio
import copy
import random
from collections.abc import Mapping, Sequence

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Sampling
from sanderling.policy.contract import Completion, Delta, Finish, OnText, SampleKey
from sanderling.synth.chains import ChainHead
from sanderling.synth.elimination import EliminationHead, is_elimination
from sanderling.synth.head import Head, ModeShares
from sanderling.world.encyclopedia import Encyclopedia, generate_encyclopedia
from sanderling.world.sources.kinds import EncyclopediaSource


class TeacherSession:
    """The teacher on one episode; a mark is a copy of its head."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._marks: list[Head] = []

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        await asyncio.sleep(0)
        if key.retry:  # a rejected attempt put the generator back: draw anew, or the same fault would come again
            self._head.rng = random.Random(f"teacher:{key.seed}:{key.question}:{key.attempt}:{key.turn}:{key.retry}")
        text = self._head.next_turn(delta.messages[-1].content if delta.messages else "")
        if on_text is not None:
            on_text(text)
        return Completion(text=text, finish=Finish.END)

    def mark(self) -> int:
        self._marks.append(_copy(self._head))
        return len(self._marks) - 1

    def rewind(self, mark: int) -> None:
        self._head = _copy(self._marks[mark])

    def close(self) -> None:
        self._marks.clear()


def _copy(head: Head) -> Head:
    copied = copy.copy(head)
    copied.rng = copy.copy(head.rng)
    return copied


def scripted(size_and_seed: str, questions: Sequence[Question]) -> "TeacherPolicy":
    """The teacher of questions about ``encyclopedia:SIZE/SEED``. Raises UserError."""
    source = EncyclopediaSource(size_and_seed)
    world = generate_encyclopedia(source.size, source.seed, registers=source.registers)
    return TeacherPolicy(world, {question.id: question for question in questions}, ModeShares())


class TeacherPolicy:
    """The teacher for one world and its questions by id: text-level, without a tokenizer."""

    name, tokenizer, context_length, version = "scripted-teacher", None, None, 0

    def __init__(self, world: Encyclopedia, questions: Mapping[str, Question], shares: ModeShares) -> None:
        self._world = world
        self._questions = questions
        self._shares = shares

    def open(self, key: SampleKey) -> TeacherSession:
        """A fresh head for one attempt at one question. Raises UserError for a question that is not of this world."""
        question = self._questions.get(key.question)
        rng = random.Random(f"teacher:{key.seed}:{key.question}:{key.attempt}")
        of = EliminationHead.of if question is not None and is_elimination(question) else ChainHead.of
        head = None if question is None else of(question, self._world, self._shares, rng)
        if head is None:
            raise UserError(f"Question {key.question} is not of world {self._world.name}: give the teacher its own questions.")
        return TeacherSession(head)
