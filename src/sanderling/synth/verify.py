"""Which questions are worth asking, by rule: checks, the cheap ones first, until a question fails one.

A check is a function of a question, the world as agents meet it (with masks that reach near-duplicates) and a look at whole
pages by address, masked or not. Whether an agent finds the answers is measured by `synth difficulty`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sanderling.core.config import Frozen
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.data.questions import check_questions, read_questions, write_questions
from sanderling.runs.files import check_places
from sanderling.runs.progress import Report
from sanderling.synth.facts import holds, stands, words
from sanderling.tools.quotes import PageText
from sanderling.world.contract import Occasion, Page, World
from sanderling.world.disk.store import open_as_met, open_world

META = "verification"  # where the results stand in a question's ``meta``
_RESULTS, _SNIPPET_WORDS = 10, 30
Look = Callable[[str], Page | None]


class Check(StrEnum):
    """The checks, in their order."""

    GIVEAWAY = "giveaway"
    EVIDENCE = "evidence"
    SNIPPETS = "snippets"


class VerifyConfig(Frozen):
    """Settings of ``sanderling synth verify``."""

    questions: Path
    world: Path  # directory of the world that they are asked in
    out: Path  # the questions that pass, with what each check found
    checks: tuple[Check, ...] = tuple(Check)


@dataclass(frozen=True)
class Result:
    """What a check found of a question; ``meta`` is what it rests on."""

    passed: bool
    detail: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


async def giveaway(question: Question, _world: World, _page: Look) -> Result:
    """The question does not hold an answer, whole or, where it has several words, strewn over the question."""
    for answer in question.answers:
        said = words(answer)
        strewn = len(said) > 1 and set(said) <= set(words(question.text))
        if strewn or holds(question.text, answer):
            return Result(False, f"The question holds the answer {answer!r}.")
    return Result(True) if question.answers else Result(False, "It has no accepted answer.")


async def evidence(question: Question, world: World, page: Look) -> Result:
    """The pages that the question was made from are visible and hold the quoted words.

    Or, where they are masked, a search for the question (or for question and answer) finds another page whose text holds an
    accepted answer. That is weaker: a page may hold the words of an answer and not say so; ``meta`` tells which it was.
    """
    occasion = Occasion(masked=frozenset(question.masked_urls))

    async def states(fact: Mapping[str, Any]) -> bool:
        found = page(fact["url"])
        if found is None or (await world.visit(fact["url"], occasion=occasion)).status is not ToolStatus.OK:
            return False
        return not fact.get("quote") or stands(PageText(found.text), fact["quote"])

    facts = [fact for fact in question.meta.get("facts") or [] if isinstance(fact, dict) and fact.get("url")]
    if facts and all([await states(fact) for fact in facts]):
        return Result(True, meta={"way": "facts", "urls": [fact["url"] for fact in facts]})
    queries = [question.text, *(f"{question.text} {answer}" for answer in question.answers)]
    replies = await world.search_many(queries, limit=_RESULTS, occasion=occasion)
    listed = [(url, page(url)) for url in dict.fromkeys(hit.url for reply in replies for hit in reply.hits)]
    found = [url for url, one in listed if one and any(holds(one.text, answer) for answer in question.answers)]
    if found:
        return Result(True, meta={"way": "search", "urls": found})
    return Result(False, "No visible page that a search finds holds an accepted answer.")


async def snippets(question: Question, world: World, _page: Look) -> Result:
    """No accepted answer stands in the titles and snippets of one search (LiteResearcher keeps a question only so)."""
    occasion = Occasion(masked=frozenset(question.masked_urls))
    reply = await world.search(question.text, limit=_RESULTS, snippet_words=_SNIPPET_WORDS, occasion=occasion)
    for rank, hit in enumerate(reply.hits, start=1):
        if any(holds(text, answer) for text in (hit.title, hit.snippet) for answer in question.answers):
            return Result(False, f"Result {rank} holds the answer.", {"rank": rank})
    return Result(True)


CHECKS = {Check.GIVEAWAY: giveaway, Check.EVIDENCE: evidence, Check.SNIPPETS: snippets}


@dataclass
class VerifyReport:
    """What became of the questions."""

    kept: int = 0
    failed: Counter[Check] = field(default_factory=Counter)
    examples: dict[Check, str] = field(default_factory=dict)  # check to the first question that failed it, and why


async def verify_file(config: VerifyConfig, progress: Report) -> VerifyReport:
    """Check a file of questions, and write those that pass. Raises UserError."""
    check_places([config.questions], [config.out])
    check_questions(config.out)
    questions, report, kept = read_questions(config.questions), VerifyReport(), list[Question]()
    world, page = open_as_met(config.world), open_world(config.world).page
    checks = [check for check in Check if check in config.checks]
    with progress.task("checking", len(questions)) as advance:
        for question in questions:
            found: list[dict[str, Any]] = []
            for check in checks:
                result = await CHECKS[check](question, world, page)
                found.append({"check": check.value, **asdict(result)})
                if not result.passed:
                    report.failed[check] += 1
                    report.examples.setdefault(check, f"{question.text} ({result.detail})")
                    break
            else:
                kept.append(question.model_copy(update={"meta": {**question.meta, META: found}}))
            advance()
    report.kept = len(kept)
    write_questions(config.out, kept)
    return report
