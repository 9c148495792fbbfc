"""Questions made page by page with a model: which pages are drawn, and what came of each, kept as it is done.

A page's place in the draw follows from the seed and its address alone, so a longer draw begins with the shorter one, and a
world that grew keeps its pages' places.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from sanderling.core.asking import AskingRefusedError
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import write_questions
from sanderling.policy.budget import Spending
from sanderling.runs.progress import Report
from sanderling.runs.run import Run, beside
from sanderling.runs.work import WAY_OUT, work_through
from sanderling.synth.prompt import AskingConfig, Models, Prompt, made_with, opened_models
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.store import open_world, read_manifest
from sanderling.world.text import word_count

REFUSED = "refused_by_the_model"
"""No model's server takes the page, most likely because it is too long."""
REPEATED = "repeated"
"""An earlier page's question has the same words."""
_FEWEST_WORDS, _MOST_WORDS = 80, 60_000


class PagesConfig(AskingConfig):
    """Which pages questions are made of, and who writes and judges them."""

    world: Path
    """Directory of a world."""
    out: Path
    """File of questions (JSON lines); the run with what is done lies beside it."""
    pages: int = Field(default=100, ge=1)
    """So many are drawn to begin from."""
    seed: int = 0
    """Draws the pages; a longer draw begins with the shorter one."""
    added: bool = False
    """Draw from the pages of the world's last addition alone."""
    judge_models: tuple[str, ...] = ()
    """Who judges what was written; empty: who writes."""
    judge_prices: tuple[str, ...] = ()


def draw_pages(directory: Path, count: int, seed: int, *, added: bool = False) -> list[Page]:
    """The pages of a world to begin from; ``added``: those of its last addition alone. Raises UserError when there are none."""
    world, parts = open_world(directory), read_manifest(directory).parts
    if added and len(parts) == 1:
        raise UserError(f"Nothing was added to {directory} since it was built: leave --added out.")
    pages = sample_pages(world.all_pages(world.page_count - parts[-1].pages if added else 0), count, seed)
    if not pages:
        what = "last addition" if added else "pages"
        raise UserError(
            f"The {what} of {directory} have no page long enough for questions ({_FEWEST_WORDS} words): "
            "draw from another world."
        )
    return pages


def sample_pages(pages: Iterable[Page], count: int, seed: int) -> list[Page]:
    """At most ``count`` pages of a fitting length, in the order of their places. Memory holds that many, time is one pass."""
    chosen: list[tuple[int, str, Page]] = []
    for page in pages:
        key = canonical_url(page.url)
        place = -int.from_bytes(hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest()[:8], "big")
        if len(chosen) == count and (not chosen or place < chosen[0][0]):
            continue
        if _FEWEST_WORDS <= word_count(page.text) <= _MOST_WORDS:
            (heapq.heappush if len(chosen) < count else heapq.heappushpop)(chosen, (place, key, page))
    return [page for _, _, page in sorted(chosen, key=lambda item: (-item[0], item[1]))]


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

    def reject(self, reason: str, question: str = "", answer: str = "", detail: str = "") -> None:
        """Keep a candidate apart that is no question."""
        self.rejected.append({"reason": str(reason), "question": question, "answer": answer, "detail": detail})


@dataclass
class MakingReport:
    """What came of all pages. ``kept`` and the rejected candidates are all that were proposed."""

    pages: int = 0
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """Reason to the first question that was rejected for it."""
    outages: int = 0
    """Pages that are still to be done: no model could be reached."""
    stopped: str = ""
    """Why the run ended before its last page; empty: it did not."""
    spent: str = ""
    """What models took, in one line."""
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, result: PageResult) -> None:
        """Count a page."""
        self.pages += 1
        self.kept += len(result.questions)
        self.figures.update(result.figures)
        for rejection in result.rejected:
            self.reject(rejection["reason"], rejection["question"])

    def reject(self, reason: str, question: str) -> None:
        """Count a candidate that was not kept."""
        self.rejected[reason] += 1
        self.examples.setdefault(reason, question)


async def make_questions(
    pages: Sequence[Page],
    make: Callable[[Page], Awaitable[PageResult]],
    made_with: Mapping[str, Any],
    out: Path,
    *,
    concurrency: int = 8,
    on_page: Callable[[MakingReport], None] = lambda _: None,
) -> MakingReport:
    """Make the questions of these pages, or go on with it, and write them to ``out``, in the order of the pages.

    ``make`` raises AskingOutageError when a page has to wait for a better time. Pages that are done stand in the run beside
    ``out``. ``made_with``: JSON, all that the questions depend on. Raises UserError when that run was made with something else.
    """
    report = MakingReport()

    def count(result: PageResult) -> None:
        report.add(result)
        on_page(report)

    async def do(page: Page) -> PageResult:
        try:
            return await make(page)
        except AskingRefusedError as error:
            result = PageResult(page.url)
            result.reject(REFUSED, detail=str(error))
            return result

    items = {page.url: page for page in pages}
    with Run(beside(out)) as run:
        run.claim(made_with, "questions", WAY_OUT)
        worked = await work_through(items, do, PageResult, run.table("pages"), concurrency=concurrency, on_done=count)
    report.outages, report.stopped = worked.outages, worked.stopped
    found: dict[str, Question] = {}
    for question in (question for page in pages if page.url in worked.done for question in worked.done[page.url].questions):
        if found.setdefault(question.id, question) is not question:
            report.kept -= 1
            report.reject(REPEATED, question.text)
    write_questions(out, list(found.values()))
    return report


async def make_from_pages(
    config: PagesConfig,
    maker: str,
    prompts: Sequence[Prompt],
    settings: Frozen,
    make: Callable[[Page, Models, Mapping[str, Any]], Awaitable[PageResult]],
    *,
    progress: Report,
    on_retry: Callable[[str], None] | None = None,
) -> MakingReport:
    """Draw pages of a world, open the models, and make the questions, or go on with it.

    ``make`` gets a page, the models, and what every question's ``meta`` says of the world. Raises UserError.
    """
    if not config.models:
        raise UserError("Nobody is there to write: give --model http://host:port/v1#model.")
    world, pages = open_world(config.world), draw_pages(config.world, config.pages, config.seed, added=config.added)
    origin = {"world": world.name, "fingerprint": world.fingerprint, "seed": config.seed}
    spending = Spending(beside(config.out), config.budget)
    judging = config.model_copy(update={"models": config.judge_models, "prices": config.judge_prices})
    async with (
        opened_models(config, spending, on_retry) as writers,
        opened_models(judging, spending, on_retry) as judges,
    ):
        models = Models(writers, judges or writers)
        with progress.task("making questions", len(pages)) as advance:
            report = await make_questions(
                pages,
                lambda page: make(page, models, origin),
                made_with(maker, prompts, models, settings, origin),
                config.out,
                concurrency=config.concurrency,
                on_page=lambda now: advance(note=f"{now.kept:,} kept, {now.rejected.total():,} rejected"),
            )
    report.spent = str(spending)
    return report
