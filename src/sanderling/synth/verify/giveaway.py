"""Giveaways: a question that holds its own answer, whole or as words strewn over it. By rule; needs nothing."""

from dataclasses import dataclass
from typing import Any

from sanderling.core.record import Question
from sanderling.synth.facts.checks import holds, words
from sanderling.synth.verify.contract import Check, Finding, Result

_LEAST_STREWN = 2
"""An answer of one word that stands in the question holds it; several words may also be strewn."""


@dataclass(frozen=True)
class Giveaway:
    """See the module."""

    check: Check = Check.GIVEAWAY

    @property
    def made_with(self) -> dict[str, Any]:
        return {"rule": 1}

    async def __call__(self, question: Question) -> Result:
        """Never raises."""
        if not question.answers:
            return Result(self.check, Finding.UNSCORED, "It has no accepted answer.")
        for answer in question.answers:
            said = words(answer)
            strewn = len(said) >= _LEAST_STREWN and set(said) <= set(words(question.text))
            if strewn or holds(question.text, answer):
                return Result(self.check, Finding.FAILED, f"The question holds the answer {answer!r}.")
        return Result(self.check, Finding.PASSED)
