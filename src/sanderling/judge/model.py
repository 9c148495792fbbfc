"""The judge that asks a model whether an answer means the same as an accepted one, by a judge prompt.

Of several models the next one is asked where the one before was not reached or not understood. A model sees the question, the
accepted answers and the agent's own final answer, nothing else. A reply without a verdict is asked for again, then unscored.
"""

from collections.abc import Sequence
from dataclasses import replace

from sanderling.core.asking import AskingOutageError, AskingRefusedError, BudgetSpentError, ModelClient, first_readable
from sanderling.core.record import Trajectory
from sanderling.judge.prompts import DEFAULT_PROMPT, PROMPTS, JudgePrompt
from sanderling.judge.verdict import Code, Verdict, decided, unscored

_LONGEST_REASON = 300


class ModelJudge:
    """Judges by the word of models, at temperature 0, such as ``ModelJudge([client], get_prompt("hle"))``."""

    def __init__(
        self, clients: Sequence[ModelClient], prompt: JudgePrompt = PROMPTS[DEFAULT_PROMPT], *, tries: int = 2
    ) -> None:
        """``tries``: how often each model is asked while its replies cannot be read."""
        self._clients, self._prompt, self._tries = tuple(clients), prompt, tries
        self.name = f"model {' or '.join(client.name for client in clients)} ({prompt.name})"
        self.places = tuple(client.place for client in clients)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict with its reason in short, the model that gave it, and what all replies took."""
        question, answer, prompt = trajectory.question, trajectory.answer or "", self._prompt
        if prompt.same_text_is_right and answer.strip() in {accepted.strip() for accepted in question.answers}:
            return decided(True, "letter by letter an accepted answer", Code.SAME_TEXT)
        try:
            found = await first_readable(
                self._clients,
                prompt.messages(question, answer),
                lambda reply: prompt.read(reply, question),
                tries=self._tries,
                max_tokens=prompt.max_tokens,
                again=prompt.messages(question, answer, again=True),
            )
        except BudgetSpentError as error:
            return unscored(Code.BUDGET, str(error))
        except AskingRefusedError as error:
            return unscored(Code.REFUSED, str(error))
        except AskingOutageError as error:
            return unscored(Code.OUTAGE, str(error))
        usages, last = [reply.usage for reply in found.replies], found.replies[-1].text
        if found.value is None:
            verdict, reason = unscored(Code.UNREADABLE, ""), f"no verdict in {len(usages)} replies: {_short(last)!r}"
        else:
            verdict, reason = found.value, _short(found.value.reason or last)
        return replace(
            verdict,
            reason=reason,
            model=usages[-1].model,
            prompt=prompt.name,
            tokens=sum(usage.prompt_tokens + usage.sampled_tokens for usage in usages),
            cost=sum(usage.cost for usage in usages),
            remembered=all(usage.remembered for usage in usages),
            is_estimated=any(usage.is_estimated for usage in usages),
        )


def _short(reply: str) -> str:
    words = " ".join(reply.split()).removeprefix("reasoning:").strip()
    return words if len(words) <= _LONGEST_REASON else words[: _LONGEST_REASON - 1] + "…"
