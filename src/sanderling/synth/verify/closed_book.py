"""Closed book: whether a model knows the answer without looking anything up, in any of several tries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.core.asking import Asker, placed
from sanderling.core.record import Question
from sanderling.judge.verdict import Judge, Ruling
from sanderling.runs.settings import all_placed
from sanderling.synth.prompt import Prompt
from sanderling.synth.verify.answering import answered_by, ruling_on
from sanderling.synth.verify.contract import Check, Finding, Result

FROM_MEMORY = Prompt(
    "answer-from-memory",
    "Answer the question from what you know; nothing can be looked up. Reply with the answer alone, as short as can be; if you "
    "have no idea, reply with: unknown.",
)


@dataclass(frozen=True)
class ClosedBook:
    """See the module. Each model is asked; the first right answer settles it."""

    askers: Sequence[Asker]
    judge: Judge
    samples: int = 3
    """Tries of each model: the first at temperature 0, the others at ``temperature``."""
    temperature: float = 0.7
    check: Check = Check.CLOSED_BOOK

    @property
    def made_with(self) -> dict[str, Any]:
        settings = {"samples": self.samples, "temperature": self.temperature, "prompt": FROM_MEMORY.version}
        return {"models": all_placed(self.askers), "judge": placed(self.judge.name, self.judge.places), **settings}

    async def __call__(self, question: Question) -> Result:
        """Raises AskingOutageError when a model could not be reached: who was not asked may have known."""
        said: list[str | None] = []
        steps: list[dict[str, Any]] = []
        rulings: list[Ruling] = []
        for asker in self.askers:
            for sample in range(self.samples):
                warm = self.temperature if sample else 0.0
                found = await answered_by([_Sampled(asker, sample)], FROM_MEMORY, question.text, temperature=warm)
                said.append(found.answer)
                steps.append(found.provenance)
                rulings.append(await ruling_on(question, found.answer, self.judge))
                if rulings[-1] is Ruling.CORRECT:
                    meta = {"answers": said, "provenance": steps}
                    return Result(self.check, Finding.FAILED, f"{asker.name} knows the answer.", meta)
        meta = {"answers": said, "provenance": steps}
        if Ruling.UNSCORED in rulings:
            return Result(self.check, Finding.UNSCORED, "A reply or the judge could not tell.", meta)
        return Result(self.check, Finding.PASSED, f"No right answer in {len(said)}.", meta)


@dataclass(frozen=True)
class _Sampled:
    """An asker whose replies are those of one sample."""

    asker: Asker
    sample: int

    @property
    def name(self) -> str:
        return self.asker.name

    @property
    def place(self) -> str:
        return self.asker.place

    async def ask(self, messages: Any, *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0) -> Any:
        """See `Asker`."""
        return await self.asker.ask(messages, max_tokens=max_tokens, temperature=temperature, sample=self.sample + sample)
