"""Checks over many questions: each put to one check after the other until it fails one; kept question by question.

A question is kept when it passed every check. One that could not be told is neither kept nor bad: it is written apart, and the
same command, run again, checks it anew.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sanderling.core.asking import AskingRefusedError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, encode_record
from sanderling.data.questions import require_distinct, write_questions
from sanderling.runs.run import Run, beside
from sanderling.runs.work import WAY_OUT, work_through
from sanderling.synth.verify.contract import Check, Checker, Finding, Result

_TAKEN_OVER = ("uniqueness",)
"""What a result knows of the question itself goes into the question's own ``meta``."""
META = "verification"
"""Where the results stand in a question's ``meta``."""


@dataclass
class VerifyReport:
    """What became of the questions: ``kept + failed + unscored + outages`` and those not begun are all of them."""

    questions: int = 0
    kept: int = 0
    failed: Counter[Check] = field(default_factory=Counter)
    """By the check that they failed."""
    unscored: Counter[Check] = field(default_factory=Counter)
    examples: dict[Check, str] = field(default_factory=dict)
    """Check -> the first question that failed it, and why."""
    outages: int = 0
    stopped: str = ""

    def add(self, verified: "Verified") -> None:
        """Count a question."""
        last = verified.results[-1]
        if verified.finding is Finding.PASSED:
            self.kept += 1
        elif verified.finding is Finding.UNSCORED:
            self.unscored[last.check] += 1
        else:
            self.failed[last.check] += 1
            self.examples.setdefault(last.check, f"{verified.question} ({last.detail})")


@dataclass(frozen=True)
class Verified:
    """One question's results, in the order of the checks; the last is the first that it did not pass."""

    question: str
    """Its text."""
    results: tuple[Result, ...]

    @property
    def finding(self) -> Finding:
        """What the checks come to."""
        return self.results[-1].finding


async def verify(
    questions: Sequence[Question],
    checkers: Sequence[Checker],
    out: Path,
    *,
    concurrency: int = 8,
    on_done: Callable[[VerifyReport], None] | None = None,
) -> VerifyReport:
    """Check the questions, or go on with it; write those that passed to ``out``, with the results in their ``meta``.

    What is checked stands in the run beside ``out``, unscored questions in ``NAME.unscored.jsonl``. Raises UserError for
    questions of one id, no check, or a run that was made with other checks.
    """
    require_distinct(questions)
    unscored = out.with_name(f"{out.stem}.unscored.jsonl")
    if not checkers:
        raise UserError("There is no check to make: name at least one.")
    report = VerifyReport(questions=len(questions))

    def count(verified: Verified) -> None:
        report.add(verified)
        if on_done is not None:
            on_done(report)

    async def do(question: Question) -> Verified:
        if not any(answer.strip() for answer in question.answers):
            return Verified(question.text, (Result(checkers[0].check, Finding.UNSCORED, "It has no accepted answer."),))
        results: list[Result] = []
        for checker in checkers:
            try:
                results.append(await checker(question))
            except AskingRefusedError as error:
                results.append(Result(checker.check, Finding.UNSCORED, str(error)))
            if results[-1].finding is not Finding.PASSED:
                break
        return Verified(question.text, tuple(results))

    made_with = {"checks": [{"check": checker.check.value, **checker.made_with} for checker in checkers]}
    items = {_key(question): question for question in questions}
    with Run(beside(out)) as run:
        run.claim(made_with, "checks", WAY_OUT)
        worked = await work_through(
            items,
            do,
            Verified,
            run.table("checks"),
            is_settled=lambda verified: verified.finding is not Finding.UNSCORED,
            concurrency=concurrency,
            on_done=count,
        )
    report.outages, report.stopped = worked.outages, worked.stopped
    write_questions(out, _with(worked.done, questions, Finding.PASSED))
    write_questions(unscored, _with(worked.done, questions, Finding.UNSCORED))
    return report


def _key(question: Question) -> str:
    """Id and content: a question that was mended is another one."""
    content = hashlib.sha256(encode_record(question)).hexdigest()[:16]
    return f"{question.id}:{content}"


def _with(done: dict[str, Verified], questions: Sequence[Question], finding: Finding) -> list[Question]:
    """The questions with this finding, and their results."""
    found: list[Question] = []
    for question in questions:
        verified = done.get(_key(question))
        if verified is not None and verified.finding is finding:
            told = {key: result.meta[key] for result in verified.results for key in _TAKEN_OVER if key in result.meta}
            meta = {**question.meta, **told, META: [asdict(result) for result in verified.results]}
            found.append(question.model_copy(update={"meta": meta}))
    return found
