"""A report, written part by part: an outline, its sections, then further ones where the draft leaves something open.

The order is AgentCPM-Report's (arXiv 2602.06540): plan, write each section from what was searched for it, and deepen the plan
until nothing important is missing. Each part is a question of one conversation, so all that was read and written stays in view,
and a report is kept, resumed and replayed like any session. What comes next depends on the records alone:

    while (part := next_part(question, records)) is not None:
        records.append(await agent.run(part.asked(), before=records[-1] if records else None))
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sanderling.core.record import Question, Trajectory, question_id
from sanderling.core.types import Ending

REPORT = "report"
"""Where a question's ``meta`` says which part of a report it asks for."""
SECTIONS, ROUNDS, FURTHER = 6, 2, 2  # most sections of an outline; times the draft is looked through; sections each adds

_OUTLINE = """\
{question}

This is to become a report. Search until you know what there is to say, then give its outline alone as your answer, between \
<answer> and </answer>: first a line "# " with the title, then for each section, {most} at most, a line "## " with its \
heading, a colon, and what it has to tell. No other text, no summary and no list of sources: those are added later."""
_SECTION = """\
Section: {heading}

Write this section of the report now: {aim}. Search and read what it needs and you have not read yet. Then give its text alone \
as your answer, between <answer> and </answer>: one to four paragraphs without a heading, and nothing that another section \
tells. Put the numbers of its passages behind each sentence, and say what could not be found."""
_DEEPEN = """\
What is missing?

The draft has these sections: {headings}. Look through it as a critical reader: which questions that matter does it leave \
open, or answer without a source? Answer, between <answer> and </answer>, with a line "## " for each further section that it \
needs, {most} at most: the heading of the section behind which it belongs, " > ", its own heading, a colon, and what it has to \
tell. If nothing important is missing, answer: complete."""
_SUMMARY = """\
Summary

Write the paragraph that opens the report, between <answer> and </answer>: in three to six sentences the answer to \
"{question}", from its sections alone, with the numbers of the passages behind each sentence. No heading."""

_TITLE, _SECOND = re.compile(r"\s*#\s+(\S.*)"), re.compile(r"\s*#{2,4}\s+\S")
_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+\S")
_AIM = re.compile(r"\s*(?::|\s[–—]|\s--?)\s+")


class Kind(StrEnum):
    """What a part of a report is."""

    OUTLINE = "outline"
    SECTION = "section"
    DEEPEN = "deepen"  # what to add
    SUMMARY = "summary"

    @property
    def is_read(self) -> bool:
        """Whether its text stands in the report; the others plan it."""
        return self in (Kind.SECTION, Kind.SUMMARY)


@dataclass(frozen=True)
class Heading:
    """A section that is planned."""

    heading: str
    aim: str
    under: str = ""  # the heading of the section that it deepens; empty: one of the outline


@dataclass(frozen=True)
class Part:
    """What a report needs next, and how that is asked for."""

    question: str  # the report's
    kind: Kind
    text: str
    heading: str = ""
    under: str = ""

    def asked(self) -> Question:
        about = {key: value for key, value in asdict(self).items() if key != "text"}
        return Question(id=f"ask-{question_id(self.text)[:12]}", text=self.text, meta={REPORT: about})


@dataclass(frozen=True)
class Report:
    """As far as it is written."""

    title: str
    question: str
    summary: Trajectory | None
    sections: tuple[tuple[Heading, Trajectory | None], ...]
    """In the order in which they are read; None: not written yet."""
    records: tuple[Trajectory, ...]  # of all its parts, as they were written


def kind_of(record: Trajectory) -> Kind | None:
    """Which part of a report a record is; None: it is none."""
    about = record.question.meta.get(REPORT)
    return None if about is None else Kind(about["kind"])


def next_part(question: str, records: Sequence[Trajectory]) -> Part | None:
    """What is to be written after these records; None: the report is complete, or cannot go on."""
    parts = _parts(records)
    if not parts:
        return Part(question, Kind.OUTLINE, _OUTLINE.format(question=question, most=SECTIONS))
    if parts[-1].ending is Ending.CONTEXT_EXHAUSTED or kind_of(parts[-1]) is Kind.SUMMARY or parts[0].answer is None:
        return None
    plan = _plan(question, parts)
    written = {record.question.meta[REPORT]["heading"] for record in parts if kind_of(record) is Kind.SECTION}
    for one in plan:
        if one.heading not in written:
            return Part(question, Kind.SECTION, _SECTION.format(heading=one.heading, aim=one.aim), one.heading, one.under)
    looks = sum(kind_of(record) is Kind.DEEPEN for record in parts)
    if looks < ROUNDS and kind_of(parts[-1]) is not Kind.DEEPEN:  # one that asks for nothing more is the last
        headings = "; ".join(one.heading for one in plan)
        return Part(question, Kind.DEEPEN, _DEEPEN.format(headings=headings, most=FURTHER))
    return Part(question, Kind.SUMMARY, _SUMMARY.format(question=question))


def report_of(records: Sequence[Trajectory]) -> Report | None:
    """The report that a session has, as far as it is written; None: the session has none."""
    parts = _parts(records)
    if not parts:
        return None
    question = parts[0].question.meta[REPORT]["question"]
    texts = {one.question.meta[REPORT]["heading"]: one for one in parts if kind_of(one) is Kind.SECTION}
    plan = _plan(question, parts) if parts[0].answer is not None else []
    ordered = [each for top in plan if not top.under for each in (top, *(one for one in plan if one.under == top.heading))]
    title = next((found[1] for line in (parts[0].answer or "").splitlines() if (found := _TITLE.match(line))), question)
    summary = next((one for one in parts if kind_of(one) is Kind.SUMMARY), None)
    return Report(_plain(title), question, summary, tuple((one, texts.get(one.heading)) for one in ordered), tuple(parts))


def _parts(records: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that ended; one that met an outage or was stopped is asked for again."""
    return [one for one in records if kind_of(one) is not None and one.ending is not None and one.ending.scored]


def _plan(question: str, parts: Sequence[Trajectory]) -> list[Heading]:
    """All sections that the outline and the looks through the draft have asked for, in that order; no heading twice."""
    plan: dict[str, Heading] = {}
    for record in parts:
        if kind_of(record) is Kind.OUTLINE:
            for one in _headings(record.answer or "")[:SECTIONS] or [Heading(_plain(question), question)]:
                plan.setdefault(one.heading, one)
        elif kind_of(record) is Kind.DEEPEN:
            tops = [one.heading for one in plan.values() if not one.under]
            for one in _headings(record.answer or "")[:FURTHER]:
                behind, _, heading = one.heading.rpartition(" > ")
                under = next((top for top in tops if top.casefold() == behind.casefold()), tops[-1])
                plan.setdefault(heading, Heading(heading, one.aim, under))
    return list(plan.values())


def _headings(answer: str) -> list[Heading]:
    """The lines of an answer that plan a section: its headings, or else the items of its list."""
    lines = answer.splitlines()
    found = [line for line in lines if _SECOND.match(line)] or [line for line in lines if _ITEM.match(line)]
    split = [_AIM.split(_plain(line), maxsplit=1) for line in found]
    return [Heading(heading, aim[0] if aim else heading) for heading, *aim in split if heading]


def _plain(line: str) -> str:
    """A heading without the marks that models put around it."""
    return re.sub(r"^\s*(?:#+|[-*•]|\d+[.)])\s+|\*\*|__|`|\s*\[\d+\]", "", line).strip(" \t:")
