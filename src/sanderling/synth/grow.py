"""Co-construction: the searches of questions bring new pages into their world, which the next questions come from.

LiteResearcher (arXiv 2604.17931) searches the live web for every accepted question and adds what it finds, pages of more than
1,000 characters, once for each address. Each question is kept as it is done, so nothing is searched or opened twice, and every
page that was found is added, or counted by why not.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.record import Question, decode_record, encode_record, question_id
from sanderling.core.types import AskingOutageError, BudgetSpentError, ToolStatus
from sanderling.data.questions import read_questions
from sanderling.policy.budget import Spending
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report
from sanderling.runs.run import Run
from sanderling.runs.work import WAY_OUT, work_through
from sanderling.synth.pages import Outcome
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import OutageError, Page
from sanderling.world.disk.building import add_to_world
from sanderling.world.disk.store import open_world
from sanderling.world.local import LocalWorld
from sanderling.world.sources.kinds import Gathering
from sanderling.world.sources.records import JsonlSource
from sanderling.world.text import is_text
from sanderling.world.web.config import LiveConfig

if TYPE_CHECKING:
    from sanderling.world.web.live import LiveWeb

    Source = LocalWorld | LiveWeb
IN_WORLD, SHORT, NOT_TEXT = "in the world already", "too short", "not text"


class GrowthConfig(Frozen):
    """Settings of ``sanderling synth grow``."""

    world: Path
    questions: Path  # file of the questions that are searched for; what was found is kept beside it, in ``QUESTIONS.growth``
    source: Path | None = None  # world to search, such as a far larger one
    web: bool = False  # search the live web instead
    live: LiveConfig = LiveConfig()
    results: int = Field(default=20, ge=1)  # most pages opened for each question
    least_chars: int = Field(default=1_000, ge=0)  # shorter pages are left out
    concurrency: int = Field(default=8, ge=1)  # searches at the same time

    @model_validator(mode="after")
    def _one_source(self) -> "GrowthConfig":
        if self.web == (self.source is not None):
            raise ValueError("name one place to search: a world with --from DIRECTORY, or the live web with --web")
        if self.source is not None and self.source.resolve() == self.world.resolve():
            raise ValueError("a world cannot grow out of itself: name another one with --from, or the live web with --web")
        return self


@dataclass
class GrowthReport(Outcome):
    """What came of all questions."""

    questions: int = 0
    pages: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    added: int = 0


async def grow_world(config: GrowthConfig, *, progress: Report) -> GrowthReport:
    """Grow a world by what a file of questions finds, or go on with it. Raises UserError."""
    if config.source is not None:
        return await grow(config, open_world(config.source), progress)
    from sanderling.world.web.live import LiveWeb

    spending = Spending(_log(config))
    with spending.alone():
        async with LiveWeb(config.live, charge=spending.ledger.pay) as web:
            return await grow(config, web, progress)


def _log(config: GrowthConfig) -> Path:
    return config.questions.with_name(f"{config.questions.name}.growth")


async def grow(config: GrowthConfig, source: "Source", progress: Report) -> GrowthReport:
    """The same, from an open source."""
    world, log = open_world(config.world), _log(config)
    items = {question_id(question.text): question for question in read_questions(config.questions)}
    made_with = config.model_dump(include={"results", "least_chars"}) | {"source": source.name}
    with Run(log) as run, progress.task("searching", len(items)) as advance:
        run.claim(made_with, "growth", WAY_OUT)
        kept = run.table("pages")

        async def do(question: Question) -> dict[str, int]:
            try:
                pages, left_out = await _search(question, source, config, world)
            except OutageError as error:
                raise AskingOutageError(str(error)) from error
            kept.put(question_id(question.text), None, blob=b"".join(encode_record(page) + b"\n" for page in pages))
            return dict(sorted(left_out.items()))

        how = {"concurrency": config.concurrency, "on_done": lambda _: advance()}
        worked = await work_through(items, do, dict[str, int], run.table("searched"), **how)
        left_out = sum(map(Counter, worked.done.values()), Counter[str]())
        report = GrowthReport(worked.outages, worked.stopped, questions=len(worked.done), left_out=left_out)
        lines = [line for key in items if key in worked.done for line in (kept.blob(key) or b"").splitlines(keepends=True)]
    once: dict[str, bytes] = {}
    for line in lines:
        once.setdefault(canonical_url(decode_record(line)["url"]), line)
    report.pages, content = len(once), b"".join(once.values())
    if once:  # named by what it holds, so that an addition that was interrupted finds the very same file
        path = log / f"all-{hashlib.sha256(content).hexdigest()[:12]}.jsonl"
        if not path.exists():
            replace_file(path, content)
        named = f"searches of {report.questions} questions"
        report.added = add_to_world(config.world, Gathering([JsonlSource(path)]), source=named)[1].kept
    return report


async def _search(
    question: Question, source: "Source", config: GrowthConfig, world: LocalWorld
) -> tuple[list[Page], Counter[str]]:
    """The pages that a question finds and the world lacks, and why others are left out. Raises OutageError."""
    pages: list[Page] = []
    left_out: Counter[str] = Counter()
    found = await source.search(question.text, limit=config.results)
    if found.status not in (ToolStatus.OK, ToolStatus.EMPTY):
        raise _unanswered(found.status)
    hits = found.hits[: config.results]
    for url in {canonical_url(hit.url): hit.url for hit in hits}.values():
        opened = IN_WORLD if world.page(url) else await _open(source, url)
        if opened is ToolStatus.SPENT:
            raise _unanswered(opened)
        if isinstance(opened, str):
            left_out[str(opened)] += 1
        elif world.page(opened.url) is not None:  # a redirection led there
            left_out[IN_WORLD] += 1
        elif not is_text(opened.text):
            left_out[NOT_TEXT] += 1
        elif len(opened.text) < config.least_chars:
            left_out[SHORT] += 1
        else:
            pages.append(opened)
    return pages, left_out


def _unanswered(status: ToolStatus) -> AskingOutageError:
    """Why a question is left for the next run."""
    if status is ToolStatus.SPENT:
        return BudgetSpentError("What the web may cost in this run (live.max_cost) is spent.")
    return AskingOutageError(f"the search had no answer: {status}")


async def _open(source: "Source", url: str) -> Page | ToolStatus:
    if isinstance(source, LocalWorld):
        return source.page(url) or ToolStatus.NOT_FOUND
    reply = await source.page(url)
    return Page(url=reply.url, title=reply.title, text=reply.text) if reply.status is ToolStatus.OK else reply.status
