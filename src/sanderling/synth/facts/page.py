"""One page's questions: proposed by a model, checked by rule, marked by the rubric. Knows no file and no other page.

Nothing is lost in silence: each candidate is kept or has a reason. What could not be judged (no reply that can be read) is
*unscored*, and neither kept nor called bad. An outage is raised: the page is then not done, and is asked again later.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.asking import first_readable
from sanderling.core.record import Question, question_id
from sanderling.synth.facts.candidates import WRITER, Candidate, page_material, proposed, read_candidates
from sanderling.synth.facts.checks import Bounds, problem_of
from sanderling.synth.facts.rubric import JUDGE, Marks, read_marks, rubric_material
from sanderling.synth.from_pages import PageResult
from sanderling.synth.graph.contract import Capability
from sanderling.synth.models import Models
from sanderling.tools.quotes import PageText
from sanderling.world.contract import Page

UNREADABLE_REPLY = "unreadable_reply"
"""The writer's reply could not be read: the page gave no candidate."""
UNSCORED = "unscored"
"""The judge's reply could not be read."""


class FactsSettings(BaseModel):
    """How questions are made of a page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_page: int = Field(default=3, ge=1)
    page_words: int = Field(default=4_000, ge=50)
    """Of a longer page, the first part is shown."""
    bounds: Bounds = Bounds()
    tries: int = Field(default=2, ge=1)
    """Replies asked of each model until one can be read."""
    writer_tokens: int = 2_048
    judge_tokens: int = 1_024
    temperature: float = 0.2
    """Of the writer; the judge's is 0."""


async def questions_of(page: Page, models: Models, settings: FactsSettings, origin: Mapping[str, Any]) -> PageResult:
    """The questions of a page. ``origin``: what every question's ``meta`` says of the world.

    Raises AskingOutageError when a model could not be reached, or the budget is spent.
    """
    material = page_material(page, settings.page_words, settings.per_page)
    read = await first_readable(
        models.writers, WRITER.messages(material), read_candidates,
        tries=settings.tries, max_tokens=settings.writer_tokens, temperature=settings.temperature,
    )  # fmt: skip
    writing = WRITER.provenance(read.replies)
    result = PageResult(page.url, steps=[writing])
    if read.value is None:
        result.rejected.append({"reason": UNREADABLE_REPLY, "question": "", "answer": "", "detail": ""})
    text = PageText(page.text)
    for candidate in proposed(read)[: settings.per_page]:
        problem = problem_of(candidate, text, settings.bounds)
        if problem is not None:
            result.rejected.append(_rejection(problem, candidate))
            continue
        marked = await first_readable(
            models.judges, JUDGE.messages(rubric_material(candidate)), read_marks,
            tries=settings.tries, max_tokens=settings.judge_tokens,
        )  # fmt: skip
        judging, marks = JUDGE.provenance(marked.replies), marked.value
        result.steps.append(judging)
        if marks is None or marks.failed:
            reason = UNSCORED if marks is None else f"rubric_{marks.failed[0]}"
            result.rejected.append(_rejection(reason, candidate, marks))
            continue
        result.questions.append(_question(page, candidate, marks, [writing, judging], origin))
    return result


def _rejection(reason: str, candidate: Candidate, marks: Marks | None = None) -> dict[str, Any]:
    detail = marks.points[marks.failed[0]][1] if marks is not None and marks.failed else ""
    return {"reason": str(reason), "question": candidate.question, "answer": candidate.answer, "detail": detail}


def _question(
    page: Page, candidate: Candidate, marks: Marks, steps: list[dict[str, Any]], origin: Mapping[str, Any]
) -> Question:
    rubric = {name: {"pass": passed, "reason": reason} for name, (passed, reason) in marks.points.items()}
    meta = {
        "maker": "facts",
        "capability": Capability.DIRECT.value,
        "facts": [{"url": page.url, "quote": candidate.quote}],
        "rubric": rubric,
        "provenance": steps,
        **origin,
    }
    return Question(
        id=f"fact-{question_id(candidate.question)}",
        text=candidate.question,
        answers=(candidate.answer, *candidate.others),
        masked_urls=(page.url,),
        hops=1,
        meta=meta,
    )


def made_with(models: Models, settings: FactsSettings, origin: Mapping[str, Any]) -> dict[str, Any]:
    """All that questions depend on beside their page, as JSON."""
    return {
        "maker": "facts",
        "settings": settings.model_dump(mode="json"),
        "origin": dict(origin),
        "prompts": [WRITER.version, JUDGE.version],
        "models": models.as_json(),
    }
