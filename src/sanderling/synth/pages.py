"""Questions made page by page with a model: prompts, which pages are drawn, and what came of each, kept as it is done.

A page's place in the draw follows from the seed and its address alone, so a longer draw begins with the shorter one, and a
world that grew keeps its pages' places.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import AskingRefusedError, Message, ModelClient, Role, first_readable, placed
from sanderling.data.questions import check_questions, write_questions
from sanderling.policy.budget import BudgetConfig, Spending
from sanderling.runs.progress import Report
from sanderling.runs.run import Run, beside
from sanderling.runs.work import WAY_OUT, work_through
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.store import open_world, read_manifest
from sanderling.world.text import word_count

T = TypeVar("T")


@dataclass(frozen=True)
class Prompt:
    """A system prompt by name; its version changes with every letter of the words."""

    name: str
    system: str

    @property
    def version(self) -> str:
        return hashlib.sha256(self.system.encode()).hexdigest()[:12]

    async def ask(
        self,
        clients: Sequence[ModelClient],
        material: str,
        read: Callable[[str], T | None],
        max_tokens: int = 1_024,
        temperature: float = 0.0,
    ) -> tuple[T | None, dict[str, Any]]:
        """What the first readable reply says (None: none could be read), and who answered, for a question's ``meta``.

        One client after the other is asked, each twice at most. Raises AskingOutageError.
        """
        messages = Message(role=Role.SYSTEM, content=self.system), Message(role=Role.USER, content=material)
        value, replies = await first_readable(clients, messages, read, tries=2, max_tokens=max_tokens, temperature=temperature)
        used = [reply.usage for reply in replies]
        models = list(dict.fromkeys(usage.model for usage in used))
        cost = sum(usage.cost for usage in used)
        return value, {"prompt": self.name, "version": self.version, "models": models, "cost": cost}


@dataclass
class Outcome:
    """What every report of work with models says."""

    outages: int = 0  # units that are still to be done: no model could be reached
    stopped: str = ""  # why the run ended before its last unit
    spent: str = ""


def fenced(tag: str, text: str) -> str:
    """Material between tags that nothing in it can close."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'< /{tag}')}\n</{tag}>"


def one_line(value: Any, longest: int | None = None) -> str:
    """A value from a model's reply as text on one line, a number too; empty for anything else, and for what is too long."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    line = " ".join(value.split()) if isinstance(value, str) else ""
    return line if longest is None or len(line) <= longest else ""


# -- page by page --------------------------------------------------------------------------------------------------------

REFUSED, REPEATED = "refused by the model", "repeated"
_FEWEST_WORDS, _MOST_WORDS = 80, 60_000


class PagesConfig(Frozen):
    """Which pages questions are made of, who writes and judges them, and what that may cost."""

    world: Path
    out: Path  # file of questions (JSON lines); the run with what is done lies beside it
    pages: int = Field(default=100, ge=1)  # pages to draw
    seed: int = 0  # random seed of the draw
    added: bool = False  # draw only from the pages that were added last
    models: tuple[str, ...] = ()  # a model's directory or http://host:port/v1#model; of several, the next when one is down
    judge_models: tuple[str, ...] = ()  # judge of what was written; empty: its writer
    prices: tuple[str, ...] = ()
    """Prices per million tokens, as ``0.15,0.60``: one for all, or one for each, the writers' first."""
    concurrency: int = Field(default=8, ge=1)  # pages worked on at the same time
    budget: BudgetConfig = BudgetConfig()


@dataclass(frozen=True)
class Models:
    """Who writes and who judges; of each list one after the other is asked until a reply can be read."""

    writers: Sequence[ModelClient]
    judges: Sequence[ModelClient]


def draw_pages(directory: Path, count: int, seed: int, *, added: bool = False) -> list[Page]:
    """The pages of a world to begin from; ``added``: those of its last addition alone. Raises UserError when there are none."""
    world, parts = open_world(directory), read_manifest(directory).parts
    if added and len(parts) == 1:
        raise UserError(f"Nothing was added to {directory} since it was built: leave --added out.")
    pages = sample_pages(world.all_pages(world.page_count - parts[-1].pages if added else 0), count, seed)
    if not pages:
        raise UserError(f"{directory} has no page there of {_FEWEST_WORDS} words or more: draw from another world.")
    return pages


def sample_pages(pages: Iterable[Page], count: int, seed: int) -> list[Page]:
    """At most ``count`` pages of a fitting length, in the order of their places. Memory holds that many, time is one pass."""

    def place(page: Page) -> tuple[bytes, str]:
        key = canonical_url(page.url)
        return hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest()[:8], key

    fitting = (page for page in pages if _FEWEST_WORDS <= word_count(page.text) <= _MOST_WORDS)
    return heapq.nsmallest(count, fitting, key=place)


@dataclass
class PageResult:
    """What came of one page."""

    questions: list[Question] = field(default_factory=list)
    rejected: list[tuple[str, str]] = field(default_factory=list)  # reason and words of each candidate that is no question


@dataclass
class MakingReport(Outcome):
    """What came of all pages; ``kept`` and the rejected candidates are all that were proposed."""

    pages: int = 0
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # reason to the first question that was rejected for it


async def make_questions(
    pages: Sequence[Page],
    make: Callable[[Page], Awaitable[PageResult]],
    made_with: Mapping[str, Any],
    out: Path,
    concurrency: int = 8,
    on_page: Callable[[PageResult], None] = lambda _: None,
) -> MakingReport:
    """Make the questions of these pages, or go on with it, and write them to ``out``, in the order of the pages.

    ``make`` raises AskingOutageError when a page has to wait for a better time. ``made_with``: JSON, all that the questions
    depend on. Raises UserError when the run beside ``out`` was made with something else.
    """

    async def do(page: Page) -> PageResult:
        try:
            return await make(page)
        except AskingRefusedError as error:
            return PageResult(rejected=[(REFUSED, str(error))])

    items = {page.url: page for page in pages}
    with Run(beside(out)) as run:
        run.claim(made_with, "questions", WAY_OUT)
        worked = await work_through(items, do, PageResult, run.table("pages"), concurrency=concurrency, on_done=on_page)
    report = MakingReport(worked.outages, worked.stopped, pages=len(worked.done))
    found: dict[str, Question] = {}
    for result in (worked.done[url] for url in items if url in worked.done):
        repeated = [(REPEATED, one.text) for one in result.questions if found.setdefault(one.id, one) is not one]
        for reason, question in (*result.rejected, *repeated):
            report.rejected[reason] += 1
            report.examples.setdefault(reason, question)
    report.kept = len(found)
    write_questions(out, list(found.values()))
    return report


async def make_from_pages(
    config: PagesConfig,
    maker: str,
    prompts: Sequence[Prompt],
    settings: Mapping[str, Any],
    make: Callable[[Page, Models, Mapping[str, Any]], Awaitable[PageResult]],
    *,
    progress: Report,
) -> MakingReport:
    """Draw pages, open the models, and make the questions, or go on with it. Raises UserError.

    ``make`` gets a page, the models, and what every question's ``meta`` says of the world.
    """
    from sanderling.policy.clients import opened_clients

    if not config.models:
        raise UserError("Nobody is there to write: give --model http://host:port/v1#model.")
    world, pages = open_world(config.world), draw_pages(config.world, config.pages, config.seed, added=config.added)
    origin = {"world": world.name, "fingerprint": world.fingerprint, "seed": config.seed}
    check_questions(config.out)
    spending, named = Spending(beside(config.out), config.budget), (*config.models, *config.judge_models)
    async with opened_clients(named, config.prices, spending, concurrency=config.concurrency) as clients:
        writers = clients[: len(config.models)]
        models = Models(writers, clients[len(writers) :] or writers)
        made_with = {"maker": maker, "settings": settings, "origin": origin, "prompts": [prompt.version for prompt in prompts]}
        made_with["models"] = [[placed(one.name, [one.place]) for one in each] for each in (models.writers, models.judges)]
        with progress.task("making questions", len(pages)) as advance:
            report = await make_questions(
                pages, lambda page: make(page, models, origin), made_with, config.out, config.concurrency, lambda _: advance()
            )
    report.spent = str(spending)
    return report
