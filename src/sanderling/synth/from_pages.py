"""Questions made page by page, whatever the maker: what came of each page and candidate, kept as it is done."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sanderling.core.asking import AskingRefusedError
from sanderling.core.record import Question
from sanderling.data.questions import write_questions
from sanderling.runs.run import Run, beside
from sanderling.runs.work import WAY_OUT, work_through
from sanderling.world.contract import Page

REFUSED = "refused_by_the_model"
"""No model's server takes the page, most likely because it is too long."""
REPEATED = "repeated"
"""An earlier page's question has the same words."""


@dataclass
class PageResult:
    """What came of one page."""

    url: str
    questions: list[Question] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    """``{"reason", "question", "answer", "detail"}`` each."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """Provenance of every conversation."""
    figures: dict[str, int] = field(default_factory=dict)
    """Further counts, by the maker's own names."""


Make = Callable[[Page], Awaitable[PageResult]]
"""A maker. Raises AskingOutageError when the page has to wait for a better time."""


@dataclass
class MakingReport:
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
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, result: PageResult) -> None:
        """Count a page."""
        self.pages += 1
        self.kept += len(result.questions)
        self.figures.update(result.figures)
        for rejection in result.rejected:
            self.reject(rejection["reason"], rejection["question"])
        self.cost += sum(step["cost"] for step in result.steps)
        self.tokens += sum(step["prompt_tokens"] + step["sampled_tokens"] for step in result.steps)

    def reject(self, reason: str, question: str) -> None:
        """Count a candidate that was not kept."""
        self.rejected[reason] += 1
        self.examples.setdefault(reason, question)


async def make_questions(
    pages: Sequence[Page],
    make: Make,
    made_with: Mapping[str, Any],
    out: Path,
    *,
    concurrency: int = 8,
    on_page: Callable[[MakingReport], None] | None = None,
) -> MakingReport:
    """Make the questions of these pages, or go on with it, and write them to ``out``, in the order of the pages.

    Pages that are done stand in the run beside ``out``. ``made_with``: JSON, all that the questions depend on. Raises UserError
    when that run was made with something else.
    """
    report = MakingReport()

    def count(result: PageResult) -> None:
        report.add(result)
        if on_page is not None:
            on_page(report)

    async def taken(page: Page) -> PageResult:
        try:
            return await make(page)
        except AskingRefusedError as error:
            return PageResult(page.url, rejected=[{"reason": REFUSED, "question": "", "answer": "", "detail": str(error)}])

    items = {page.url: page for page in pages}
    with Run(beside(out)) as run:
        run.claim(made_with, "questions", WAY_OUT)
        worked = await work_through(items, taken, PageResult, run.table("pages"), concurrency=concurrency, on_done=count)
    report.outages, report.stopped = worked.outages, worked.stopped
    results = [worked.done[page.url] for page in pages if page.url in worked.done]
    write_questions(out, _each_once(results, report))
    return report


def _each_once(results: Sequence[PageResult], report: MakingReport) -> list[Question]:
    """Every question once, the first page's."""
    found: dict[str, Question] = {}
    for question in (question for result in results for question in result.questions):
        if found.setdefault(question.id, question) is not question:
            report.kept -= 1
            report.reject(REPEATED, question.text)
    return list(found.values())
