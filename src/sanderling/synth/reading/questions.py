"""Questions of several hops from what a model reads: a page, the graph around it, drafts by exact search, a model's words.

A model reads and words; it never decides which answer is right or how many there are: that is `graph.matcher`'s, over the facts
that were read. What the world holds beside them nobody has read, so a question is *unchecked* until `verify.rivals` has looked.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Question, question_id
from sanderling.synth.from_pages import PageResult
from sanderling.synth.graph.contract import Capability, Uniqueness
from sanderling.synth.graph.draft import Draft, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.making import Made, Wish, make
from sanderling.synth.graph.query import object_of, subject_of
from sanderling.synth.graph.records import question_of
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.synth.models import Models
from sanderling.synth.reading.crawl import Crawled, CrawlSettings, crawl
from sanderling.synth.reading.extraction import READER
from sanderling.synth.reading.rewording import COMPARER, REWRITER, reword
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

OF_WHAT_IS_READ = (Capability.DIRECT, Capability.AGGREGATION)
"""The capabilities that need no knowledge of all there is."""
NO_DRAFT = "no_draft"
"""The graph around a page holds no question of the wanted form."""


class ReadingSettings(BaseModel):
    """How questions are made of the graph around a page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    crawl: CrawlSettings = CrawlSettings()
    per_page: int = Field(default=2, ge=1)
    """Questions from one start, at most."""
    sizes: tuple[int, int] = (5, 7)
    hops: tuple[int, int] = (2, 5)
    capabilities: tuple[Capability, ...] = OF_WHAT_IS_READ
    seed: int = 0
    tries: int = 2


async def questions_around(
    world: LocalWorld,
    start: Page,
    models: Models,
    settings: ReadingSettings,
    origin: Mapping[str, Any],
) -> PageResult:
    """The questions of the graph around a page. Raises AskingOutageError."""
    read = await crawl(world, start, models.writers, settings.crawl)
    figures = {"things read": len(read.graph.entities), "facts read": len(read.graph.facts)}
    figures |= {f"not used: {reason.value}": count for reason, count in sorted(read.unused.items())}
    result = PageResult(start.url, steps=list(read.provenance), figures=figures)
    ground = Ground.of(
        read.graph, RelationBook({})
    )  # a model names relations as it likes: what others mean by those names is not meant
    made = _drafts(ground, settings)
    if not made.drafts:
        result.rejected.append({"reason": NO_DRAFT, "question": "", "answer": "", "detail": _dropped(made)})
    for draft, sure in made.drafts:
        reworded = await reword(draft.text, draft.answers, hidden_names(ground, draft), models, tries=settings.tries)
        result.steps += reworded.provenance
        if reworded.unfit is not None:
            told = {"question": reworded.text or draft.text, "answer": draft.answers[0], "detail": reworded.detail}
            result.rejected.append({"reason": reworded.unfit.value, **told})
            continue
        result.questions.append(_question(ground, draft, sure, reworded.text, read, reworded.provenance, origin))
    return result


def hidden_names(ground: Ground, draft: Draft) -> tuple[str, ...]:
    """Every name of the things that a draft rests on and does not name."""
    given = set(draft.named)
    nodes = [node for fact in draft.facts for node in (subject_of(fact), object_of(fact)) if not node.is_literal]
    hidden = [names for node in dict.fromkeys(nodes) if not given & set(names := ground.answers(node))]
    return tuple(dict.fromkeys(name for names in hidden for name in names))


def _drafts(ground: Ground, settings: ReadingSettings) -> Made:
    wish = Wish(settings.per_page, Range(*settings.sizes), Range(*settings.hops), settings.capabilities, settings.seed)
    return make(ground, wish)


def _dropped(made: Made) -> str:
    reasons: Counter[str] = Counter()
    for found in made.dropped.values():
        reasons.update({reason.value: count for reason, count in found.items()})
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())


def _question(
    ground: Ground,
    draft: Draft,
    sure: Uniqueness,
    text: str,
    read: Crawled,
    rewording: list[dict[str, Any]],
    origin: Mapping[str, Any],
) -> Question:
    plain = question_of(ground, draft, sure, world="", fingerprint="", seed=0, number=0)
    meta = {
        **plain.meta,
        "maker": "reading",
        "draft": draft.text,
        "pages_read": read.urls,
        "provenance": [*read.provenance, *rewording],
        **origin,
    }
    return plain.model_copy(update={"id": f"reading-{question_id(text)}", "text": text, "meta": meta})


def made_with(models: Models, settings: ReadingSettings, origin: Mapping[str, Any]) -> dict[str, Any]:
    """All that questions depend on beside the world, as JSON."""
    return {
        "maker": "reading",
        "settings": settings.model_dump(mode="json"),
        "origin": dict(origin),
        "prompts": [prompt.version for prompt in (READER, REWRITER, COMPARER)],
        "models": models.as_json(),
    }
