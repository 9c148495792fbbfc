"""The judge that asks a model whether an answer means the same as an accepted one, in a benchmark's form.

Several models may be asked in order: the next one speaks where the one before was not reached or not understood. The model
sees the question, the accepted answers and the agent's own final answer, nothing else of the episode. A reply without a
verdict, or with two that differ, is none: asked for again, then unscored. Knows no server; askers are handed in.
"""

from collections.abc import Sequence

from sanderling.core.asking import Asker, AskingOutageError, AskingRefusedError, BudgetSpentError, Read, first_readable
from sanderling.core.record import Trajectory
from sanderling.judge.forms.contract import Form, Reading
from sanderling.judge.forms.ours import OURS
from sanderling.judge.verdict import Code, Ruling, Verdict, unscored

_LONGEST_REASON = 300


class ModelJudge:
    """Judges by what models say, at temperature 0.

    Example: ``ModelJudge([asker], form=get_form("hle")); (await judge(trajectory)).ruling``
    """

    def __init__(self, askers: Sequence[Asker], *, form: Form = OURS, tries: int = 2) -> None:
        """``tries``: how often each model is asked while its replies cannot be read. At least one asker. Raises ValueError."""
        if not askers:
            raise ValueError("a judge needs a model to ask")
        self._askers = tuple(askers)
        self._form = form
        self._tries = tries

    @property
    def name(self) -> str:
        """Models, form and its version."""
        return f"model {' or '.join(asker.name for asker in self._askers)} ({self._form.name})"

    @property
    def places(self) -> tuple[str, ...]:
        """Each model's."""
        return tuple(asker.place for asker in self._askers)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """See `judge.Judge`."""
        question, answer, form = trajectory.question, trajectory.answer, self._form
        if answer is None:
            return unscored(Code.NOT_ENDED, "there is no answer to judge")
        if form.same_text_is_right and answer.strip() in {accepted.strip() for accepted in question.answers}:
            return Verdict(Ruling.CORRECT, 1.0, "letter by letter an accepted answer", Code.SAME_TEXT)
        try:
            found = await first_readable(
                self._askers,
                form.messages(question, answer),
                lambda reply: form.read(reply, question),
                tries=self._tries,
                max_tokens=form.max_tokens,
                again=form.messages_again(question, answer),
            )
        except BudgetSpentError as error:
            return unscored(Code.BUDGET, str(error))
        except AskingRefusedError as error:
            return unscored(Code.REFUSED, str(error))
        except AskingOutageError as error:
            return unscored(Code.OUTAGE, str(error))
        return _verdict(found, form)


def _verdict(found: Read[Reading], form: Form) -> Verdict:
    usages = [reply.usage for reply in found.replies]
    last, said = found.replies[-1], found.value
    ruling = Ruling.UNSCORED if said is None else Ruling.CORRECT if said.correct else Ruling.INCORRECT
    return Verdict(
        ruling,
        None if said is None else said.score,
        _short(said.reason or last.text) if said is not None else f"no verdict in {len(usages)} replies: {_short(last.text)!r}",
        Code.UNREADABLE if said is None else Code.JUDGED,
        model=last.usage.model,
        prompt=form.name,
        tokens=sum(usage.prompt_tokens + usage.sampled_tokens for usage in usages),
        cost=sum(usage.cost for usage in usages),
        remembered=all(usage.remembered for usage in usages),
        is_estimated=any(usage.is_estimated for usage in usages),
        grade=said.grade if said is not None else "",
        extracted=said.extracted if said is not None else None,
        confidence=said.confidence if said is not None else None,
        parts=dict(said.parts) if said is not None else {},
        excessive=said.excessive if said is not None else (),
    )


def _short(reply: str) -> str:
    words = " ".join(reply.split()).removeprefix("reasoning:").strip()
    return words if len(words) <= _LONGEST_REASON else words[: _LONGEST_REASON - 1] + "…"
