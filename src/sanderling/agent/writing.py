"""A report, written part by part: an outline, its sections, then further ones where the draft leaves something open.

The order is AgentCPM-Report's (arXiv 2602.06540): plan, write each section from what was searched for it, and deepen the plan
until nothing important is missing. Each part is a question of one conversation, so all that was read and written stays in view,
and a report is kept, resumed and replayed like any session. What comes next depends on the records alone:

    while (part := next_part(question, records)) is not None:
        records.append(await agent.run(part.to_question(), before=records[-1] if records else None))
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from sanderling.core.record import REPORT, Question, Trajectory, question_id
from sanderling.core.types import Ending

SECTIONS, ROUNDS, FURTHER = 6, 2, 2  # most sections of an outline; times the draft is looked through; sections each adds

_OUTLINE = """\
{question}

This is to become a report. Search until you know what there is to say, then give its outline alone as your answer, between \
<answer> and </answer>: first a line "# " with the title, then for each section, {most} at most, a line "## " with its \
heading, a colon, and what it has to tell. No other text, no summary and no list of sources: those are added later."""
_SECTION = """\
Section: {heading}

Write this section of the report now. What it has to tell: {aim}

Search and read what it needs and you have not read yet. Then give its text alone \
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

_HASHES = re.compile(r"\s*(#{1,6})\s+\S")
_LISTED = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+\S"), re.compile(r"\s*(?:\*\*|__)\S")
_AIM = re.compile(r"\s*(?:(?::|\s[–—]|\s--?)\s+|：\s*)")
_MARKS = re.compile(
    r"^\s*(?:(?:#+|[-*•]|\d{1,2}(?:\.\d+)*[.)]|\d{1,2}(?:\.\d+)+|section\s+\d+\s*[:.–—-]|title:)\s+|第\S{1,3}[章节]\s*)"
    r"|\*\*|__|`|\s*\[\d+\]",
    re.IGNORECASE,
)
_ADDED = re.compile(r"(?:list of )?(?:sources|references|bibliography|来源|参考文献)", re.IGNORECASE)
"""What a report gets by itself."""


class Kind(StrEnum):
    """What a part of a report is."""

    OUTLINE = "outline"
    SECTION = "section"
    DEEPEN = "gaps"  # what to add
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

    def to_question(self) -> Question:
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
    """What is to be written after these records; None: the report is complete. What the context had no room for comes again."""
    parts = [one for one in _parts(records) if one.ending is not Ending.CONTEXT_EXHAUSTED]
    if _is_over(parts, Kind.SUMMARY):
        return None
    if not (plan := _plan(question, parts)):
        return Part(question, Kind.OUTLINE, _OUTLINE.format(question=question, most=SECTIONS))
    for one in plan:
        if not _is_over(parts, Kind.SECTION, one.heading):
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
    plan = _plan(question, parts)
    ordered = [each for top in plan if not top.under for each in (top, *(one for one in plan if one.under == top.heading))]
    title = next(
        (title for one in parts if kind_of(one) is Kind.OUTLINE and (title := _outlined(one.answer or "")[0])), question
    )
    summary = next((one for one in reversed(parts) if kind_of(one) is Kind.SUMMARY), None)
    return Report(title, question, summary, tuple((one, texts.get(one.heading)) for one in ordered), tuple(parts))


def _parts(records: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that ended; one that met an outage or was stopped is asked for again."""
    return [one for one in records if kind_of(one) is not None and one.ending is not None and one.ending.scored]


def _is_over(parts: Sequence[Trajectory], kind: Kind, heading: str = "") -> bool:
    """Whether a part has its text, or was asked for twice: what a budget or a slip kept from one is asked for once more."""
    asked = [one for one in parts if kind_of(one) is kind and one.question.meta[REPORT]["heading"] == heading]
    return len(asked) > 1 or any(one.answer is not None for one in asked)


def _plan(question: str, parts: Sequence[Trajectory]) -> list[Heading]:
    """All sections that the outline and the looks through the draft have asked for, in that order; no heading twice."""
    plan: dict[str, Heading] = {}
    for record in parts:
        if record.answer is None:
            continue
        if kind_of(record) is Kind.OUTLINE:
            for one in _outlined(record.answer)[1][:SECTIONS] or [Heading(plain(question), question)]:
                plan.setdefault(one.heading.casefold(), one)
        elif kind_of(record) is Kind.DEEPEN and not record.answer.lstrip().casefold().startswith("complete"):
            tops = {one.heading.casefold(): one.under or one.heading for one in plan.values()}
            for one in _outlined(record.answer)[1][:FURTHER]:
                behind, _, heading = one.heading.rpartition(" > ")
                under = tops.get(plain(behind).casefold(), [*tops.values()][-1])
                plan.setdefault(heading.casefold(), Heading(heading, one.aim, under))
    return list(plan.values())


def _outlined(answer: str) -> tuple[str, list[Heading]]:
    """The title of an outline, and what it plans: its upper headings, with those below in their aims, or else its list."""
    lines = answer.splitlines()
    found = [(len(hashes[1]), plain(line)) for line in lines if (hashes := _HASHES.match(line))]
    title = found.pop(0)[1] if [level for level, _ in found].count(1) == 1 and found[0][0] == 1 else ""
    for listed in _LISTED:
        found = found or [(2, plain(line)) for line in lines if listed.match(line)]
    upper, planned = min((level for level, _ in found), default=2), list[Heading]()
    for level, line in found:
        heading, *aim = _AIM.split(line, maxsplit=1)
        if level > upper and planned:
            planned[-1] = replace(planned[-1], aim=f"{planned[-1].aim}; {line}")
        elif heading and not _ADDED.fullmatch(heading):
            planned.append(Heading(heading, aim[0] if aim else heading))
    return title, planned


def plain(line: str) -> str:
    """A heading without the marks and numbers that models put around it."""
    while line != (line := _MARKS.sub("", line, count=1)):
        pass
    return line.strip(" \t:：#")
