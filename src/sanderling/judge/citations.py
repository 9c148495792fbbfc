"""An answer with its sources: which passages each sentence rests on, checked by code, which also writes the references.

The model points at passages by the numbers under which it read them; whatever else it writes in brackets is no reference. A
sentence without such numbers, as models give that were never taught to cite, is compared with all that was read, and gets the
passage that says it. What a person reads is numbered by page, in order of first use, and every sentence that was not found in
what was read is marked there.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlsplit

from sanderling.agent.transcript import OBSERVATION_CUT
from sanderling.core.observations import read_result
from sanderling.core.record import Node, NodeKind, Passage, Trajectory
from sanderling.core.text import NO_WIDTH, counted_as
from sanderling.core.types import ToolStatus
from sanderling.judge.support import Finding, Support, support
from sanderling.tools.world_tools import paragraphs
from sanderling.world.text import content_terms, is_cjk, plain, sentences, words

_LINKED = r"\(\s*<?(?:[A-Za-z][\w+.-]*:|[/#])(?:[^()\n]|\([^()\n]*\))*\)"
_WORD = r"(?:(?:passages?|sources?|refs?|p)\.?\s*|[#^])?"
_NUMBERS = rf"[\[［]\[?{_WORD}\d+(?:\s*[,;–-]\s*{_WORD}\d+)*\]?[\]］](?:{_LINKED})?|【\d+[^】\n]*】"
_MARK = re.compile(rf"\s*(?:{_NUMBERS})(?![(\w])", re.IGNORECASE)
_AFTER_END = re.compile(rf"([.!?][\"')”’]?)((?:\s*(?:{_NUMBERS})(?![(\w]))+)", re.IGNORECASE)
_OWN_LIST = re.compile(
    r"(?<!\n)\n+[ \t]*(?:#+[ \t]*|\*\*|__)?(?:sources?|references?|citations?|bibliography|quellen|fuentes|来源"
    r"|références|参考文献)[ \t]*:?(?:\*\*|__)?:?[ \t]*(?:\n+[ \t]*(?:[-*+•]|\d+[.)]|\[\^?\d+\]|【)[^\n]*)+\s*\Z"
    r"|(?<!\n)(?:\n+[ \t]*\[\^?\d+\][^\n]*://[^\n]*)+\s*\Z",
    re.IGNORECASE,
)
"""References that a model wrote out at the end, though code does."""
_CODE = re.compile(r"(`[^`\n]*`)")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+|\s*>\s*|\s+")
_OPEN = re.compile(
    r"\b(?:I|we)\s+(?:could not|couldn['’]t|cannot|can['’]t|did not|didn['’]t|(?:was|were|am|are) (?:unable|not able) to)\s+"
    r"(?:find|determine|confirm|verify|establish|tell)\b|^\W*unable to\b"
    r"|\b(?:could not|couldn['’]t|cannot|can['’]t) be (?:found|determined|confirmed|verified|established)\b"
    r"|\bremains? (?:open|unclear|unknown|uncertain)\b|\b(?:is|are) (?:unclear|uncertain)\b"
    r"|\b(?:I|we) found no\b|\bno (?:information|evidence|source|mention)s?\b.*\b(?:found|available)\b"
    r"|^(?:(?:it|this|that|the \w+) (?:was|is) )?not (?:found|mentioned|documented)\b(?: in\b[^.]*)?\.?$"
    r"|\b(?:documents?|documentation|manuals?|pages?|passages|sources)(?: \w+){0,4} (?:do(?:es)?|did)(?: not|n['’]t) "
    r"(?:say|mention|tell|state|specify)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:]\s+|\s[–—-]\s|\b(?:but|although|though|while|whereas|yet|however)\b", re.IGNORECASE)
_INLINE = re.compile(r"\*+|`+|(?<!\w)_+|_+(?!\w)")
_UNSAFE = re.compile(r"[\x00-\x20<>\"\\\x7f]|[^\S ]")
_BLOCK = re.compile(r"[|\n]+|^\s*(?:#+|>|[-+•]|\d+[.)])\s")
_PARTED = re.compile(r"(?<=[a-zà-öø-ÿ])-\n(?=[a-zà-öø-ÿ])")
_PLAIN = str.maketrans("\u2010\u2011\u2019\u02bc", "--''")
_CJK_CLAUSE = re.compile(r"[，、；：。！？,;:!?]")
_MOST_PAIRS = 0.6  # of the neighbouring characters of a sentence that is partly there
_HEADING = re.compile(r"#+\s+(?:\S+\s*){1,8}(?<![.!。！])$")  # whole sentences say something, in whatever type
_RULE = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*$")  # between a table's head and its rows
_FRAGMENT_WORDS, _CLAIM_WORDS = 8, 3
DOUBTS = {Support.PARTLY: "only partly in the sources", Support.NOT_FOUND: "not found in what was read"}
"""What is put behind a sentence that is not supported."""
Files = Callable[[str], Path | None]
"""From a page's address to the file that it is, on this machine."""


def no_files(address: str) -> Path | None:
    """None is known."""


@dataclass(frozen=True)
class Source:
    """A page that the answer rests on: its number for the reader, and the passages that say it, in the page's words."""

    number: int
    url: str
    title: str
    quotes: tuple[str, ...]
    file: Path | None = None  # of a document, where it lies

    @property
    def place(self) -> str:
        """Where a person finds it, in one line: the file's path, or the address."""
        return self.url if self.file is None else str(self.file).replace("\n", "\N{SYMBOL FOR NEWLINE}")

    @property
    def link(self) -> str:
        """To click on; a browser that knows text fragments goes to the first passage. Empty: nothing opens its address."""
        if self.file is None and not self.url.startswith(("http://", "https://")):
            return ""
        address = _UNSAFE.sub(lambda found: quote(found[0]), self.url) if self.file is None else self.file.as_uri()
        ending = urlsplit(address).path.rpartition(".")[2].lower()
        # Fragments are for pages; a file of another kind may open in an editor, which takes them for its name.
        if not self.quotes or ending == "pdf" or (self.file is not None and ending not in ("html", "htm")):
            return address
        said = max(_BLOCK.split(_INLINE.sub("", self.quotes[0])), key=len).split()[:_FRAGMENT_WORDS]
        text = quote(" ".join(said), safe="").replace("-", "%2D")  # a dash and a comma mean something there
        return f"{address}{'' if '#' in address else '#'}:~:text={text}"


@dataclass(frozen=True)
class Sentence:
    """A sentence of an answer, as the reader sees it, and what became of it."""

    text: str  # without the model's numbers
    support: Support | None  # None: it says nothing that could be checked, or what remains open
    sources: tuple[int, ...] = ()
    found_by_code: bool = False  # the model gave no passage that says it
    missing: tuple[str, ...] = ()  # numbers, names and quotations that are not in the passages
    before: str = ""  # what stands between it and the sentence before: a blank, a line break, a bullet

    def __str__(self) -> str:
        marks = "".join(f"[{number}]" for number in self.sources)
        end = re.search(r"(?:[.!?:]|\s*\|)?$", self.text)
        at = end.start() if end else len(self.text)
        return f"{self.before}{self.text[:at]}{f' {marks}' if marks else ''}{self.text[at:]}"


@dataclass(frozen=True)
class CitedAnswer:
    """An answer by its sentences, and the pages that they rest on."""

    sentences: tuple[Sentence, ...]
    sources: tuple[Source, ...]
    invented: int = 0  # numbers that no passage had

    def __str__(self) -> str:
        return "".join(map(str, self.sentences)).strip()

    def count(self, support: Support) -> int:
        """Sentences of one verdict."""
        return sum(one.support is support for one in self.sentences)

    @property
    def checked(self) -> str:
        """How much of the answer was found."""
        counts = {support: self.count(support) for support in Support}
        told = f"Of {counted_as(sum(counts.values()), 'sentence')} that can be checked: {counts[Support.SUPPORTED]} supported, "
        told += f"{counts[Support.PARTLY]} partly, {counts[Support.NOT_FOUND]} not found in what was read."
        told = told if any(counts.values()) else "Nothing in this answer can be checked against sources."
        left_out = f" {counted_as(self.invented, 'reference')} that led nowhere: left out."
        return told + (left_out if self.invented else "")


def cite(trajectory: Trajectory, numbering: "Numbering | None" = None) -> CitedAnswer | None:
    """The answer of an episode with its sources; None where there is no answer.

    ``numbering``: of several answers that have one list of sources.
    """
    if trajectory.answer is None:
        return None
    read = {passage.number: passage for passage in passages_of(trajectory)}
    numbering = numbering or Numbering()
    found: list[Sentence] = []
    invented = 0
    for before, text, marked in _split(_OWN_LIST.sub("", trajectory.answer)):
        if marked is None:
            found.append(Sentence(text, None, before=before))
            continue
        known = [number for number in marked if number in read]
        invented += len(marked) - len(known)
        found.append(_checked(before, text, known, read, numbering))
    return CitedAnswer(tuple(found), numbering.sources(), invented)


def passages_of(trajectory: Trajectory) -> list[Passage]:
    """All passages that the main branch read; those of profiles without numbers get them here."""
    found: list[Passage] = []
    for node in trajectory.branch():
        if node.kind is NodeKind.OBSERVATION:
            numbered = [passage for event in node.events for passage in event.passages]
            if OBSERVATION_CUT in node.problems:  # what was cut out was not read
                numbered = [one for one in numbered if f"[{one.number}] {one.text}" in node.text]
            found += numbered or [
                Passage(number=len(found) + place, url=url, title=title, text=text)
                for place, (url, title, text) in enumerate(_unnumbered(node), start=1)
            ]
    return found


def found_so_far(trajectory: Trajectory, files: Files = no_files, most: int = 5) -> list[Source]:
    """What there is without an answer: passages with the question's words, else any that were read, else pages listed."""
    wanted = set(content_terms(trajectory.question.text, 50))
    read = {(passage.url, passage.text): passage for passage in reversed(passages_of(trajectory))}  # a page read twice is one
    alike = {passage: len(wanted & set(content_terms(passage.text, 1_000))) for passage in reversed(read.values())}
    found = sorted(alike, key=lambda passage: -alike[passage])
    found = ([passage for passage in found if alike[passage]] or found)[:most]
    listed = dict.fromkeys(url for node in trajectory.branch() for event in node.events for url in event.provenance)
    found = found or [Passage(number=place, url=url, title="", text="") for place, url in enumerate(list(listed)[:most], 1)]
    return [
        Source(one.number, one.url, one.title or "(listed, not read)", (one.text,) * bool(one.text), files(one.url))
        for one in found
    ]


def _unnumbered(node: Node) -> Iterator[tuple[str, str, str]]:
    """Address, title and text of each passage of a visit in a layout without numbers."""
    if all(event.role != "visit" or event.status is not ToolStatus.OK for event in node.events) and node.events:
        return
    for extract in read_result(node.text, node.events).extracts:
        if not extract.dead:
            yield from ((extract.url, extract.title, text) for text in paragraphs(extract.evidence))


def _split(answer: str) -> Iterator[tuple[str, str, list[int] | None]]:
    """What stands before each sentence, the sentence without the model's numbers, and these; None: code, a table's head."""
    gap, fenced = "", False
    for line, below in pairwise([*answer.strip().splitlines(), ""]):
        fence = line.lstrip().startswith("```")
        if fence or fenced or _RULE.match(line) or (line.lstrip().startswith("|") and _RULE.match(below)):
            yield gap, line if fence or fenced else _MARK.sub("", line), None
            gap, fenced = "\n", fenced != fence
            continue
        item = _LIST_ITEM.match(line)
        begin = item.end() if item else 0
        gap += line[:begin]
        marked = "".join(
            part if place % 2 else _AFTER_END.sub(r"\2\1", part) for place, part in enumerate(_CODE.split(line[begin:]))
        )
        for said in [marked] if line.lstrip().startswith("|") else sentences(marked):
            numbers: list[int] = []
            parts = _CODE.split(said)
            for place in range(0, len(parts), 2):
                numbers += [number for mark in _MARK.findall(parts[place]) for number in _numbers_in(mark)]
                parts[place] = _MARK.sub("", parts[place])
            yield gap, "".join(parts).strip(), list(dict.fromkeys(numbers))
            gap = " "
        gap = gap.removesuffix(" ") + "\n"


def _numbers_in(mark: str) -> list[int]:
    """The numbers of a mark, ranges filled: ``[3, 5-7]``. Of ``【4†L1】`` the first."""
    if "【" in mark:
        return [int(re.findall(r"\d+", mark)[0])]
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:\s*[–-]\s*(\d+))?", mark):
        found += range(int(first), min(int(last or first), int(first) + 20) + 1)
    return found


@dataclass
class Numbering:
    """The pages cited so far, in order, and what of each is quoted."""

    files: Files = no_files
    pages: dict[str, tuple[int, str, list[str]]] = field(default_factory=dict)

    def number(self, passage: Passage, said: str) -> int:
        number, _, quotes = self.pages.setdefault(passage.url, (len(self.pages) + 1, passage.title, []))
        if said and said not in quotes:
            quotes.append(said)
        return number

    def sources(self) -> tuple[Source, ...]:
        return tuple(
            Source(number, url, title, tuple(quotes), self.files(url)) for url, (number, title, quotes) in self.pages.items()
        )


@lru_cache(maxsize=8_192)
def _legible(text: str) -> str:
    """Accents composed, hyphens and apostrophes plain, characters of no width gone, words parted between lines whole."""
    text = _PARTED.sub("", text)
    return text if text.isascii() else unicodedata.normalize("NFC", NO_WIDTH.sub("", text)).translate(_PLAIN)


def _is_unspaced(text: str) -> bool:
    found = words(text)
    return 2 * sum(map(is_cjk, found)) > len(found)


def _verbatim(sentence: str, passages: Sequence[str], titles: Sequence[str], among: Collection[int]) -> Finding:
    """For scripts without spaces, of which no rule here knows the words: each clause stands in one passage, or most of it."""
    clauses = [said for part in _CJK_CLAUSE.split(sentence) if (said := "".join(words(part)))]
    pairs = {one + other for clause in clauses for one, other in pairwise(clause)}
    best = Finding(Support.NOT_FOUND)
    for at in among:
        lines, said = _squeezed(passages[at])
        page = "".join(said)
        if all(clause in page for clause in clauses):
            rests = [line for line, one in zip(lines, said, strict=True) if any(clause in one for clause in clauses)]
            return Finding(Support.SUPPORTED, at, "".join(rests) or passages[at])
        if best.passage is None and sum(pair in page for pair in pairs) > _MOST_PAIRS * len(pairs):
            best = Finding(Support.PARTLY, at, passages[at])
    return best


@lru_cache(maxsize=8_192)
def _squeezed(passage: str) -> tuple[list[str], list[str]]:
    """A passage's sentences, and what each says without blanks and marks."""
    lines = [one for line in plain(passage).splitlines() for one in sentences(line)]
    return lines, ["".join(words(one)) for one in lines]


def _is_open(text: str) -> bool:
    """Whether a sentence only says that something was not found out."""
    rest = [part for part in _CLAUSE.split(text) if not _OPEN.search(part)]
    return _OPEN.search(text) is not None and all(len(content_terms(part, _CLAIM_WORDS)) < _CLAIM_WORDS for part in rest)


def _checked(before: str, text: str, known: Sequence[int], read: dict[int, Passage], numbering: Numbering) -> Sentence:
    """A sentence against the passages that it cites, and where they do not say it, against all that was read."""
    if not content_terms(text, 3) or _HEADING.match(text) or text.endswith((":", "?")) or _is_open(text):
        return Sentence(text, None, before=before)
    every = list(read.values())
    texts, titles = [_legible(passage.text) for passage in every], [_legible(passage.title or passage.url) for passage in every]
    check = partial(_verbatim if _is_unspaced(text) else support, _legible(text), texts, titles)
    finding = check([at for at, passage in enumerate(every) if passage.number in known])
    by_code = False
    if finding.support is not Support.SUPPORTED:
        other = check(range(len(texts)))
        if other.support is Support.SUPPORTED or not known:
            finding, by_code = other, True
    at = finding.passage
    rests = at is not None and finding.support is not Support.NOT_FOUND
    sources = [numbering.number(every[at], finding.text)] if rests and at is not None else []
    return Sentence(text, finding.support, tuple(sources), by_code, finding.missing, before)
