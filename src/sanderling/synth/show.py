"""Questions of a file in plain text, with what they rest on. What a ``meta`` lacks is not shown. Pure; knows no maker."""

from collections.abc import Iterator, Mapping
from typing import Any

from sanderling.core.record import Question

_MOST_ANSWERS = 4


def shown(question: Question, number: int) -> Iterator[str]:
    """The lines of one question."""
    meta = question.meta
    told = [str(meta[key]) for key in ("capability", "form", "uniqueness") if meta.get(key)]
    if question.hops is not None:
        told.insert(0, f"{question.hops} {'hop' if question.hops == 1 else 'hops'}")
    yield f"{number}. {question.text}"
    shown, more = question.answers[:_MOST_ANSWERS], len(question.answers) - _MOST_ANSWERS
    yield f"   answer: {' | '.join(shown) or '(unknown)'}{f' (and {more} other ways to write it)' if more > 0 else ''}"
    if told:
        yield f"   {', '.join(told)}"
    if path := meta.get("path"):
        yield f"   path: {' > '.join(map(str, path))}"
    facts = meta.get("facts")
    for fact in facts if isinstance(facts, list) else []:
        if isinstance(fact, Mapping):
            yield from _fact(fact)
    for url in question.masked_urls:
        yield f"   hidden: {url}"


def _fact(fact: Mapping[str, Any]) -> Iterator[str]:
    statement = " — ".join(str(fact[key]) for key in ("subject", "relation", "object") if fact.get(key))
    yield f"   * {statement or fact}"
    if fact.get("url"):
        yield f"     {fact['url']}"
    if fact.get("quote"):
        yield f"     “{fact['quote']}”"
