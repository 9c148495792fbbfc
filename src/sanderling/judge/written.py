"""Answers as a text to keep and to send: a conversation with its sources as Markdown and as a page of HTML."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sanderling.core.record import Trajectory
from sanderling.judge.citations import DOUBTS, CitedAnswer, cite
from sanderling.report.page import render

_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")
_WEB = ("http://", "https://")


def as_markdown(records: Sequence[Trajectory]) -> str:
    """Each question with its answer; a sentence that was not found is marked, and each source has the words that say it."""
    return "\n\n".join(part for record in records for part in _parts(record)) + "\n"


def _parts(record: Trajectory) -> Iterator[str]:
    yield f"# {_escaped(record.question.text)}"
    cited = cite(record)
    if cited is None:
        yield f"*No answer. {_escaped(record.detail)}*".replace(" *", "*")
        return
    doubts = ((one, DOUBTS.get(one.support) if one.support else None) for one in cited.sentences)
    yield "".join(f"{one} *({doubt})*" if doubt else str(one) for one, doubt in doubts).strip()
    for source in cited.sources:
        title = _escaped(source.title or source.url)
        quotes = "".join(f"\n    > {_escaped(quote)}" for quote in source.quotes)
        address = f"[{title}](<{source.link}>)" if source.url.startswith(_WEB) else f"{title} ({_escaped(source.url)})"
        yield f"{source.number}. {address}{quotes}"
    yield f"*{cited.checked}*"
    yield f"*{_escaped(record.model)}, {steps_told(record)}.*"


def _escaped(text: str) -> str:
    """A line from outside without markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def steps_told(record: Trajectory) -> str:
    """How much work an answer was."""
    turns, calls = sum(node.role == "assistant" for node in record.own()), sum(len(node.events) for node in record.own())
    return f"{turns} turns, {calls} calls, {record.seconds:.1f} s"


def as_html(records: Sequence[Trajectory]) -> str:
    """The same as one page that loads nothing from elsewhere."""
    return render("answer.html", title=records[0].question.text, answers=[_shown(record) for record in records])


def _shown(record: Trajectory) -> dict[str, Any]:
    cited = cite(record) or CitedAnswer((), ())
    said = [(str(one), one.support, DOUBTS.get(one.support, "") if one.support else "") for one in cited.sentences]
    calls = [
        (
            call.name,
            ", ".join(" · ".join(value) if isinstance(value, list) else str(value) for value in call.arguments.values()),
        )
        for node in record.own()
        for call in node.calls
    ]
    return {
        "question": record.question.text,
        "said": said,
        "why": record.detail,
        "sources": [(one, one.link if one.url.startswith(_WEB) else "") for one in cited.sources],
        "checked": cited.checked if said else "",
        "calls": calls,
        "steps": f"{record.model}, {steps_told(record)}",
    }
