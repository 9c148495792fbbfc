"""Evidence: whether a world can answer a question at all, with the question's mask on. By rule; needs no model.

Two ways count. The pages that the question was made from are visible and still hold the quoted words; or, where its source is
masked, a search for the question (or for question and answer) finds another page whose text holds an accepted answer. The
second is weaker: a page may hold the words of an answer and not say so; `meta` tells which it was. Says nothing about how hard
the answer is to find.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.synth.facts.checks import holds
from sanderling.synth.verify.contract import Check, Finding, Result
from sanderling.tools.quotes import PageText
from sanderling.world.contract import Occasion, Page, World


@dataclass(frozen=True)
class Evidence:
    """See the module."""

    world: World
    """As agents meet it: with masks that reach near-duplicates."""
    page: Callable[[str], Page | None]
    """A whole page by address, masked or not."""
    results: int = 10
    """Of a search, the first so many pages are looked into."""
    check: Check = Check.EVIDENCE

    @property
    def made_with(self) -> dict[str, Any]:
        return {"rule": 1, "world": self.world.fingerprint, "results": self.results}

    async def __call__(self, question: Question) -> Result:
        """Never raises."""
        occasion = Occasion(masked=frozenset(question.masked_urls))
        facts = [fact for fact in question.meta.get("facts") or [] if isinstance(fact, dict) and fact.get("url")]
        if facts and all([await self._states(fact, occasion) for fact in facts]):
            return Result(self.check, Finding.PASSED, meta={"way": "facts", "urls": [fact["url"] for fact in facts]})
        found = await self._found(question, occasion)
        if found:
            return Result(self.check, Finding.PASSED, meta={"way": "search", "urls": found})
        return Result(self.check, Finding.FAILED, "No visible page that a search finds holds an accepted answer.")

    async def _states(self, fact: dict[str, Any], occasion: Occasion) -> bool:
        """Whether the fact's page is visible and holds its words."""
        page = self.page(fact["url"])
        if page is None or (await self.world.visit(fact["url"], occasion=occasion)).status is not ToolStatus.OK:
            return False
        stretches, missed = PageText(page.text).stretches(fact["quote"]) if fact.get("quote") else ([(0, 0)], 0)
        return bool(stretches) and not missed

    async def _found(self, question: Question, occasion: Occasion) -> list[str]:
        """Visible pages that hold an accepted answer."""
        queries = [question.text, *(f"{question.text} {answer}" for answer in question.answers)]
        urls: dict[str, None] = {}
        for reply in await self.world.search_many(queries, limit=self.results, occasion=occasion):
            urls |= dict.fromkeys(hit.url for hit in reply.hits)
        pages = ((url, self.page(url)) for url in urls)
        return [url for url, page in pages if page is not None and any(holds(page.text, answer) for answer in question.answers)]
