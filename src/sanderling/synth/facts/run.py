"""Questions from many pages, and what became of every candidate. How pages are worked through is `keeping`'s business."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sanderling.protocol.asking import Asker
from sanderling.synth.facts.candidates import WRITER
from sanderling.synth.facts.page import FactsSettings, PageResult, questions_of
from sanderling.synth.facts.rubric import JUDGE
from sanderling.synth.keeping import Work, work_through
from sanderling.trajectory.questions import write_questions
from sanderling.trajectory.record import Question
from sanderling.world.contract import Page

REPEATED = "repeated"
"""An earlier page's question has the same words."""


@dataclass
class FactsReport:
    """What came of all pages. ``kept`` and the rejected candidates are all that were proposed."""

    pages: int = 0
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """Reason -> the first question that was rejected for it."""
    outages: int = 0
    """Pages that are still to be done: no model could be reached."""
    stopped: str = ""
    """Why the run ended before its last page; empty: it did not."""
    cost: float = 0.0
    tokens: int = 0

    def add(self, result: PageResult) -> None:
        """Count a page."""
        self.pages += 1
        self.kept += len(result.questions)
        for rejection in result.rejected:
            self.reject(rejection["reason"], rejection["question"])
        self.cost += sum(step["cost"] for step in result.steps)
        self.tokens += sum(step["prompt_tokens"] + step["sampled_tokens"] for step in result.steps)

    def reject(self, reason: str, question: str) -> None:
        """Count a candidate that was not kept."""
        self.rejected[reason] += 1
        self.examples.setdefault(reason, question)


@dataclass(frozen=True)
class Models:
    """Whom a run asks; of each list, one after the other until a reply can be read."""

    writers: Sequence[Asker]
    judges: Sequence[Asker]

    def names(self) -> list[list[str]]:
        """For provenance and logs."""
        return [[asker.name for asker in askers] for askers in (self.writers, self.judges)]


async def make_questions(
    pages: Sequence[Page],
    models: Models,
    settings: FactsSettings,
    out: Path,
    *,
    origin: Mapping[str, Any],
    concurrency: int = 8,
    on_page: Callable[[FactsReport], None] | None = None,
) -> FactsReport:
    """Make the questions of these pages, or go on with it, and write them to ``out``, in the order of the pages.

    The log of pages lies beside ``out``. ``origin``: what every question's ``meta`` says of the world. Raises UserError when
    the log was made with other settings.
    """
    report = FactsReport()

    def count(result: PageResult) -> None:
        report.add(result)
        if on_page is not None:
            on_page(report)

    made_with = {
        "settings": settings.model_dump(mode="json"),
        "origin": dict(origin),
        "prompts": [WRITER.version, JUDGE.version],
        "models": models.names(),
    }

    async def do(page: Page) -> PageResult:
        return await questions_of(page, models.writers, models.judges, settings, origin)

    work = Work(do, _encoded, _decoded, made_with)
    log = out.with_name(f"{out.name}.pages.jsonl")
    worked = await work_through({page.url: page for page in pages}, work, log, concurrency=concurrency, on_done=count)
    report.outages, report.stopped = worked.outages, worked.stopped
    results = [worked.done[page.url] for page in pages if page.url in worked.done]
    write_questions(out, _each_once(results, report))
    return report


def _encoded(result: PageResult) -> dict[str, Any]:
    questions = [question.model_dump(mode="json") for question in result.questions]
    return {"url": result.url, "questions": questions, "rejected": result.rejected, "steps": result.steps}


def _decoded(kept: dict[str, Any]) -> PageResult:
    questions = [Question.model_validate(question) for question in kept["questions"]]
    return PageResult(kept["url"], questions, kept["rejected"], kept["steps"])


def _each_once(results: Sequence[PageResult], report: FactsReport) -> list[Question]:
    """Every question once, the first page's."""
    found: dict[str, Question] = {}
    for question in (question for result in results for question in result.questions):
        if found.setdefault(question.id, question) is not question:
            report.kept -= 1
            report.reject(REPEATED, question.text)
    return list(found.values())
