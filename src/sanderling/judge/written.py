"""Answers and reports as a text to keep and to send: as Markdown and as a page of HTML, with one list of sources each."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from sanderling.agent.writing import Kind, Report, kind_of, plain, report_of
from sanderling.core.record import Trajectory
from sanderling.core.text import counted_as, visible
from sanderling.judge.citations import DOUBTS, CitedAnswer, Files, Numbering, Sentence, Source, cite, found_so_far, no_files
from sanderling.report.page import clean, render

_HASHES = re.compile(r"#{1,6}(?=\s)")
_OPENS, _CLOSES = "⧼⧽"  # where marks of HTML come; punctuation, beside which emphasis may begin and end
_NO_SIGNS = str.maketrans(_OPENS + _CLOSES, "‹›")
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
_MARKDOWN.disable(["link", "image", "autolink", "reference", "html_block", "html_inline", "lheading"])
_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")
_LOADS = re.compile(r"!(?=\[)|<(?=[A-Za-z/!?])")
_CODE = re.compile(r"(`[^`\n]*`)")
_ROW_END = re.compile(r"\s*\|$")
_PENDING = "Not written yet."


@dataclass(frozen=True)
class _Text:
    """An answer, or a section of a report under its heading."""

    heading: str
    level: int
    cited: CitedAnswer | None
    why: str  # there is none

    @property
    def sentences(self) -> list[tuple[Sentence, str]]:
        """Each with what is put behind it; without a heading that says this one's again, and further ones stand below it."""
        told, fenced = list[tuple[Sentence, str]](), False
        for one in () if self.cited is None else self.cited.sentences:
            fenced ^= one.support is None and one.text.lstrip().startswith("```")
            hashes = None if fenced else _HASHES.match(one.text)
            if hashes and not told and self.heading and plain(one.text).casefold() == self.heading.casefold():
                continue
            if hashes and len(hashes[0]) <= self.level:
                one = replace(one, text=f"{'#' * (self.level + 1)}{one.text[len(hashes[0]) :]}")
            told.append((one, DOUBTS.get(one.support, "") if one.support else ""))
        return told


@dataclass(frozen=True)
class _Written:
    """What stands under one title."""

    title: str
    texts: tuple[_Text, ...]
    sources: tuple[Source, ...]
    records: tuple[Trajectory, ...]

    @property
    def checked(self) -> str:
        """How much of all its texts was found; empty where there are none."""
        cited = [one.cited for one in self.texts if one.cited is not None]
        all_of_them = CitedAnswer(
            tuple(said for one in cited for said in one.sentences), (), sum(one.invented for one in cited)
        )
        return all_of_them.checked if cited else ""

    @property
    def steps(self) -> str:
        """How much work it was."""
        nodes = [node for record in self.records for node in record.own()]
        turns, calls = sum(node.role == "assistant" for node in nodes), sum(len(node.events) for node in nodes)
        seconds = sum(record.seconds for record in self.records)
        return f"{self.records[0].model}, {counted_as(turns, 'turn')}, {counted_as(calls, 'call')}, {seconds:.1f} s"


def _written(records: Sequence[Trajectory], files: Files) -> Iterator[_Written]:
    """The report, if there is one, and the questions with their answers."""
    if (report := report_of(records)) is not None:
        numbering = Numbering(files)
        yield _Written(report.title, tuple(_report_texts(report, numbering)), numbering.sources(), report.records)
    for record in records:
        if report is None or kind_of(record) is None:
            cited = cite(record, Numbering(files))
            text = _Text("", 1, cited, f"No answer. {record.detail}".strip())
            sources = tuple(found_so_far(record, files)) if cited is None else cited.sources
            yield _Written(record.question.text, (text,), sources, (record,))


def _report_texts(report: Report, numbering: Numbering) -> Iterator[_Text]:
    """Its summary and its sections, in order."""
    if report.summary is not None:
        yield _Text("", 1, cite(report.summary, numbering), f"No summary. {report.summary.detail}")
    elif (last := report.records[-1]).answer is None and kind_of(last) is not Kind.SECTION:
        yield _Text("", 1, None, f"{'Not finished' if report.sections else 'No outline'}. {last.detail}".strip())
    for plan, record in report.sections:
        cited, why = (
            None if record is None else cite(record, numbering),
            _PENDING if record is None else f"Not written. {record.detail}",
        )
        yield _Text(plan.heading, 3 if plan.under else 2, cited, why)


def as_written(records: Sequence[Trajectory], suffix: str, files: Files = no_files) -> str:
    """What a file of such a name holds: ``.md`` or ``.html``."""
    return as_html(records, files) if suffix == ".html" else as_markdown(records, files)


def as_markdown(records: Sequence[Trajectory], files: Files = no_files) -> str:
    """Each question with its answer; a sentence that was not found is marked, and each source has the words that say it."""
    return "\n\n".join(part for written in _written(records, files) for part in _markdown(written)) + "\n"


def _markdown(written: _Written) -> Iterator[str]:
    yield f"# {_escaped(written.title)}"
    for text in written.texts:
        if text.heading:
            yield f"{'#' * text.level} {_escaped(text.heading)}"
        if text.cited is None:
            yield f"*{_escaped(text.why)}*"
            continue
        said = text.sentences
        texts = _harmless([str(one) for one, _ in said])
        yield "".join(_doubted(one, doubt and f"*({doubt})*") for one, (_, doubt) in zip(texts, said, strict=True)).strip()
    if written.sources and len(written.texts) > 1:
        yield "## Sources"
    for source in written.sources:
        title = _escaped(source.title or source.url)
        quotes = "".join(f"\n    > {_escaped(quote)}" for quote in source.quotes)
        linked = f"[{title}](<{source.link}>)" if source.link else title
        place = f" ({_escaped(source.place)})" if source.file or not source.link else ""
        yield f"{source.number}. {linked}{place}{quotes}"
    if written.checked:
        yield f"*{written.checked}*"
    yield f"*{_escaped(written.steps)}.*"


def _doubted(said: str, doubt: str) -> str:
    """A sentence with its doubt behind it; of a table's row, within the last cell."""
    if not doubt:
        return said
    row = _ROW_END.search(said)
    return f"{said[: row.start()]} {doubt}{row[0]}" if row else f"{said} {doubt}"


def _harmless(said: Sequence[str]) -> Iterator[str]:
    """A model's Markdown without images and HTML, which a viewer would fetch from wherever they say; code stays.

    Where it is not sure what a viewer takes for code within a line, nothing is.
    """
    fence, fenced = "", list[bool]()
    for text in said:
        line = text.strip("\n")
        opening = None if fence else re.fullmatch(r" {0,3}(`{3,})[^`]*", line)
        fenced.append(bool(fence or opening))
        if opening:
            fence = opening[1]
        elif fence and re.fullmatch(rf" {{0,3}}{fence}`*[ \t]*", line):
            fence = ""
    prose = [text for text, is_code in zip(said, fenced, strict=True) if not is_code]
    sure = all(text.count("`") % 2 == 0 and "``" not in text and "\\`" not in text for text in prose)
    for text, is_code in zip(said, fenced, strict=True):
        parts = [text] if not sure else _CODE.split(text)
        parts[::2] = (_LOADS.sub(lambda found: f"&#{ord(found[0])};", part) for part in parts[::2])
        yield text if is_code else "".join(parts)


def _escaped(text: str) -> str:
    """A line from outside without markup."""
    return _MARKUP.sub(r"\\\1", visible(" ".join(text.split())))


def as_html(records: Sequence[Trajectory], files: Files = no_files) -> str:
    """The same as one page that loads nothing from elsewhere."""
    shown = list(map(_shown, _written(records, files)))
    return render("answer.html", title=shown[0]["title"], written=shown)


def _page_of(text: _Text) -> Markup:
    """Its Markdown as HTML without images, links and HTML of the model's; a sentence that is not supported is marked."""
    marked, opened = "", list[str]()
    for one, doubt in text.sentences:
        said = str(one).translate(_NO_SIGNS)
        before, said = said[: len(one.before)], said[len(one.before) :]
        if doubt and not _ROW_END.search(said):
            opened.append(f'<span class="{one.support}">')
            said = f"{_OPENS}{said}{_CLOSES}"
        marked += before + _doubted(said, f"{_OPENS}({doubt}){_CLOSES}" if doubt else "")
        opened += ['<em class="doubt">'] * bool(doubt)
    tags, closing = iter(opened), list[str]()

    def put(sign: re.Match[str]) -> str:
        if sign[0] == _OPENS:
            closing.append("</em>" if (tag := next(tags)).startswith("<em") else "</span>")
            return tag
        return closing.pop()

    return Markup(re.sub(f"[{_OPENS}{_CLOSES}]", put, _MARKDOWN.render(clean(marked))))


def _shown(written: _Written) -> dict[str, Any]:
    calls = [
        (
            call.name,
            ", ".join(" · ".join(value) if isinstance(value, list) else str(value) for value in call.arguments.values()),
        )
        for record in written.records
        for node in record.own()
        for call in node.calls
    ]
    return {
        "title": written.title,
        "texts": [(one, _page_of(one)) for one in written.texts],
        "sources": written.sources,
        "checked": written.checked,
        "calls": calls,
        "steps": written.steps,
    }
