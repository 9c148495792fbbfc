"""Text as statements that can be compared: sentences, table rows and list items, each with its words and what can be checked.

Checked are numbers with their units, dates, names and identifiers. Words are compared by their stems. What stands above a
passage (the page's title, headings, the term that a definition explains) is what the passage speaks of: it is kept beside it.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from sanderling.judge.items import HONORIFICS, Item, Kind, equal, first_letters, items_of, named
from sanderling.judge.numeric import quantities
from sanderling.world.text import STOP_WORDS, WORD, normal, plain, sentences, spans, words


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, table row or list item, taken apart."""

    text: str
    lowered: str
    letters: str  # the first of each word, stop-words left out: what initials stand for
    terms: tuple[str, ...]  # the stems of all words in order
    spots: tuple[int, ...]  # where each stands, in words, with more between clauses and cells
    label: int  # words that name what follows: a row's first cell, what stands before a colon
    content: frozenset[str]  # those that say something and belong to no item
    items: tuple[Item, ...]
    negated: frozenset[str]  # stems right after a negation
    affirmed: frozenset[str]  # stems elsewhere
    openings: tuple[Item, ...] = ()  # words that may be names, with a capital where any word has one
    is_entry: bool = False  # whether it begins with a signature, as the entry of a reference does
    is_row: bool = False  # whether it is a row of a table, each cell with its column's name before it
    under: "Statement | None" = None  # what introduces it: the line before a list, the first cell of a table's head
    cells: tuple[tuple[str, tuple[Item, ...]], ...] = ()  # of a row: each column's name, and the items there


_DENYING = "not|no|never|none|neither|nor|without|cannot|nobody|nothing|unable|hardly|rather than|instead of"
_STEM_ENDINGS = ("ation", "ition", "ment", "ness", "ing", "ied", "ion", "ive", "er", "or", "al", "ly", "ed", "e", "y")
_SHORT_STEMS = ("ing", "ied", "ed", "e", "y")
_LEAST_STEM = 4
_LIGHT = """
somebody someone anybody anyone whoever whatever something anything once still own make made take taken get got let just very
much many may might must shall should thing way say said every each
"""


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """A word without its commonest English endings: *recompiles* and *recompiling* are one."""
    word = normal(word)
    root = word
    for ending in _STEM_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM - (ending in _SHORT_STEMS):
            root = word.removesuffix(ending)
            break
    if root == "not":
        return word  # a note denies nothing
    return root[:-1] if len(root) >= _LEAST_STEM and root[-1] == root[-2] else root


_STOP = frozenset(map(stem, [*STOP_WORDS, *_LIGHT.split(), *HONORIFICS])) | STOP_WORDS
NEGATIONS = frozenset(map(stem, _DENYING.partition("|hardly")[0].split("|"))) | {"t", "rath", "instead"}  # t: of "isn't"
_EMPTY = _STOP | NEGATIONS
_OPPOSITES = """
increase decrease,rise fall,more less,more fewer,before after,minimum maximum,least most,enable disable,enabled disabled,
first last,true false,required optional,allow forbid,allowed forbidden,above below,higher lower,larger smaller,
longer shorter,earlier later,open closed,add remove,added removed,left right,north south,east west,buyer seller,
landlord tenant,win lose,won lost,accept reject,accepted rejected,include exclude,included excluded,read write,
faster slower,cheaper dearer,up down,start end,begin end,input output,client server,always never,all none,
buy sell,bought sold,born died,lend borrow,import export,encode decode,encrypt decrypt,upload download,
rose fell,risen fallen,grew shrank,grow shrink,began ended,began stopped,started stopped,gained lost,opened closed,
succeeded failed,succeed fail
"""
OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split(","):
    _one, _other = map(stem, _pair.split())
    OPPOSITE.setdefault(_one, set()).add(_other)
    OPPOSITE.setdefault(_other, set()).add(_one)
_NOBODY = ("nothing", "nobody", "none")
_NEGATED_WORDS = 2  # that a negation reaches
_NEGATION = re.compile(rf"\b(?=[nwcuhri])(?:{_DENYING})\b|n['’]t\b", re.IGNORECASE)
_BREAK = re.compile(r"[.,;:!?()|]")
_COMPARED = re.compile(
    r"\W*(?:[\w-]+\s+){0,5}(?:more|less|fewer|later|longer|earlier|larger|greater|higher|smaller)\s+than\b", re.IGNORECASE
)
_NOT_ONLY = re.compile(r"\s+(?:just|only|merely|simply)\b", re.IGNORECASE)
_SIGNATURE = re.compile(r"(?:(?:async |abstract |static )?(?:class|method|classmethod|exception|def)\s)?[\w.]+\([^)]*\)")
_PART_ENDS, _CLAUSE_ENDS, _LABEL_ENDS = re.compile(r"[;|·]"), re.compile(r"[,:()]|\s[–—-]\s"), re.compile(r"\|")
_BETWEEN_PARTS, _BETWEEN_CLAUSES = 4, 2  # words more than there are
_LONGEST_LABEL = 12  # words
_ONE = re.compile(r"\ban? (?=(?:hundred|thousand|million|billion)\b)", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,&/]*(?:(?:and|or)\s+(?:(?:the|an?)\s+)?)?[`\s]*")
_TAG = re.compile(r"`[^`\n]*`|</?(?:(code|kbd|samp|tt|var)|b|em|i|mark|strong|u)>", re.IGNORECASE)
_EMPHASIS = re.compile(
    r"(?<![\w*\\])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])|(?<![\w`])__?([A-ZÀ-ÖØ-Þ\d][^_`\n]*)__?(?![\w`])"
)
_MEASURED = re.compile(r"`([+-]?\d[\d.,]*(?:\s?(?:[a-z]|[^\W\d_]{2,}|%))?)`|(?<=\d)\s?`([^\W\d_]+|%)`")
_ERA = re.compile(r"AD (?=\d)(?<!\w...)| (?:AD|CE)\b(?<=\d...)|(B)\.\s?C\.(?:\s?E\.)?")


def _unmarked(text: str) -> str:
    """The text without marks of emphasis, and without those of code around a number or its unit."""
    text = _TAG.sub(lambda found: found[0] if found[0][0] == "`" else "`" if found[1] else "", text)
    if "*" in text or "_" in text:
        text = _EMPHASIS.sub(lambda found: found[2] or found[3], text)
    return _MEASURED.sub(_measured, text)


def _measured(found: re.Match[str]) -> str:
    measure = found[1] or f"1 {found[2]}"
    ends = [one.end for one in quantities(measure)]
    return found[0].replace("`", "") if ends == [len(measure)] else found[0]


def take_apart(text: str) -> Statement:
    """Words and items of one statement."""
    read = _ERA.sub(lambda found: "BC" if found[1] else "", _ONE.sub("one ", _unmarked(plain(text))))
    starts, ends = (places.tolist() for places in spans(read))
    said = words(read)
    terms = tuple(map(stem, said))
    items: list[Item] = []
    taken: set[int] = set()
    openings: list[Item] = []
    last, before = None, 0
    for item, start, end in sorted(items_of(read), key=lambda found: found[1]):
        at, after = bisect_left(starts, start), bisect_left(starts, end)
        gap = read[before:start]
        is_next = last is not None and not last.opens and not WORD.search(gap) and not _BREAK.search(gap)
        is_listed = last is not None and last.kind is item.kind and bool(_BETWEEN.fullmatch(gap))
        new = -1 if item.opens else len(items)
        group, row = last.group if last and is_next else new, last.row if last and is_listed else new
        last, before = item._replace(at=at, until=after, group=group, row=row), end
        if item.opens:
            openings.append(last)
        else:
            items.append(last)
            taken.update(range(at, after))
    content = {term for place, term in enumerate(terms) if place not in taken} - _EMPTY
    negated = _negated(read, starts, terms)
    affirmed = {term for place, term in enumerate(terms) if place not in negated} if negated else terms
    return Statement(
        text,
        read.lower(),
        first_letters(said),
        terms,
        *_laid(read, starts, ends),
        frozenset(term for term in content if len(term) > 1 and not term.isdigit()),
        tuple(items),
        frozenset(terms[place] for place in negated),
        frozenset(affirmed),
        tuple(openings),
        bool(_SIGNATURE.match(text)),
    )


def with_names(statement: Statement, names: Collection[str]) -> Statement:
    """The statement, with what opens its sentences as names where they are known to be names."""
    found = tuple(item for item in statement.openings if item.name in names)
    if not found:
        return statement
    content = statement.content - {stem(item.name) for item in found}
    return replace(statement, items=(*found, *statement.items), content=content, openings=())


def _laid(text: str, starts: Sequence[int], ends: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where each word stands, and how many are the label."""
    spots: list[int] = []
    label = further = 0
    for place, start in enumerate(starts):
        gap = text[ends[place - 1] : start] if place else " "
        if gap != " " and _PART_ENDS.search(gap):
            further += _BETWEEN_PARTS
            if _LABEL_ENDS.search(gap) and not label and place <= _LONGEST_LABEL:
                label = place
        elif gap != " " and _CLAUSE_ENDS.search(gap):
            further += _BETWEEN_CLAUSES
            if ":" in gap and not label and place <= _LONGEST_LABEL:
                label = place
        spots.append(place + further)
    return (*spots, len(spots) + further), label


def _negated(text: str, starts: Sequence[int], terms: Sequence[str]) -> set[int]:
    """Places of the first telling words after each negation, up to a mark; *no more than* compares, *not only* adds."""
    found: set[int] = set()
    for negation in _NEGATION.finditer(text):
        if _COMPARED.match(text, negation.end()) or _NOT_ONLY.match(text, negation.end()):
            continue
        stop = _BREAK.search(text, negation.end())
        until = stop.start() if stop else len(text)
        places = range(bisect_left(starts, negation.end()), bisect_left(starts, until))
        reached = (n for n in places if terms[n] not in _STOP and not terms[n].isdigit())
        found.update(islice(reached, 1 if negation[0].lower() in _NOBODY else _NEGATED_WORDS))
    return found


def beside(statement: Statement, item: Item) -> set[str]:
    """The words right before and after an item that say something."""
    places = (item.at - 1, item.until)
    return {statement.terms[place] for place in places if 0 <= place < len(statement.terms)} - _STOP - NEGATIONS


def holds(statement: Statement, item: Item) -> bool:
    """Whether a statement has the item: numbers in whatever unit, dates in whatever form, names as they are."""
    if item.kind in (Kind.NAME, Kind.CODE):
        return named(item, statement.lowered, statement.letters)
    return any(equal(one, item) for one in statement.items)


_LEAST_SLIP = 5  # letters of a word in which a slip of the pen is one


def slips_between(run: Sequence[str], wanted: Sequence[str], most: int) -> int:
    """In how many words two runs differ; more than ``most`` where two words are different ones."""
    differing = [(one, other) for one, other in zip(run, wanted, strict=True) if one != other]
    return len(differing) if len(differing) <= most and all(_slip(*pair) for pair in differing) else most + 1


def _slip(one: str, other: str) -> bool:
    """Whether two words differ in a letter left out, doubled, changed or exchanged, but not the first."""
    if min(len(one), len(other)) < _LEAST_SLIP or one[0] != other[0] or not (one + other).isalpha():
        return False
    return any(
        one[:at] == other[:at]
        and (
            one[at:] in (other[at + 1 :], other[at + 1 : at + 2] + other[at : at + 1] + other[at + 2 :])
            or one[at + 1 :] in (other[at:], other[at + 1 :])
        )
        for at in range(1, max(len(one), len(other)))
    )


_APART = re.compile(r"\s*(?:[#>*•+-]|\d+[.)]\s)|\s{4}|[A-Z][\w ]{0,30}:\s")


@lru_cache(maxsize=8_192)
def statements_of(passage: str) -> tuple[Statement, ...]:
    """The sentences of a passage, its table rows and its list items; lines that were merely wrapped are joined."""
    lines: list[str] = []
    for line in plain(passage).splitlines():
        is_apart = _is_row(line) or _APART.match(line) or _SIGNATURE.match(line)
        if is_apart or not lines or _is_row(lines[-1]) or lines[-1].lstrip().startswith("#"):
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
    found: list[Statement] = []
    head: list[str] = []
    scale, under, before = ("", ""), None, ""
    for line in lines:
        if not _is_row(line):
            head, scale = [], _scale(line if len(line.split()) <= _LONGEST_LABEL else "")  # a caption, no paragraph
            if not _LISTED.match(line):
                under = None
            elif under is None and WORD.search(before) and not before.lstrip().startswith("#"):
                under = take_apart(before)
            found += (replace(take_apart(one), under=under) for one in sentences(line))
        elif WORD.search(line):
            cells = [_unmarked(cell.strip()) for cell in line.strip().strip("|").split("|")]
            if head and len(head) == len(cells) and head != cells:
                found.append(_row(line, head, [_BARE_NUMBER.sub(rf"{scale[0]}\g<0>{scale[1]}", cell) for cell in cells]))
            else:
                head, scale = cells, (_scale(line) if any(_scale(line)) else scale)
                found.append(replace(take_apart(line), is_row=True))
        before = line
    return tuple(found)


def _row(line: str, head: Sequence[str], cells: Sequence[str]) -> Statement:
    """A row of a table, with the names of its columns."""
    shown = [f"{name}: {cell}" if name else cell for name, cell in zip(["", *head[1:]], cells, strict=True) if cell]
    parts = [(name, take_apart(cell).items) for name, cell in zip(head[1:], cells[1:], strict=True)]
    return replace(take_apart(" | ".join(shown)), text=line, is_row=True, under=take_apart(f"{head[0]}:"), cells=tuple(parts))


_LISTED = re.compile(r"\s*(?:[*•+-]|\d+[.)])\s|\s{2}")
_BARE_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?=\W*$)")
_SCALE = re.compile(
    r"\b(?:in\s+(?=\w+\s+[a-zA-Z]{3})|(?=\w+s\b))(?P<word>thousand|million|billion)s?(?:\s+(?:of\s+)?(?P<unit>\w+))?"
    r"|(?P<sign>[€$£¥]|\b(?:EUR|USD|GBP|CHF)\s)\s?(?P<short>thousand|million|billion|000|k|m|bn)\b",
    re.IGNORECASE,
)
_SCALES = {"t": "thousand", "0": "thousand", "k": "thousand", "m": "million", "b": "billion"}


def _scale(line: str) -> tuple[str, str]:
    """What a caption or a table's head puts before and behind each number: *thousands of pounds*, *€ million*."""
    found = _SCALE.search(line)
    if found is None:
        return "", ""
    scale = _SCALES[(found["word"] or found["short"])[0].lower()]
    return found["sign"] or "", f" {scale} {found['unit'] or ''}".rstrip()


def _is_row(line: str) -> bool:
    return " | " in line or line.lstrip().startswith("|")


def is_label(line: str) -> bool:
    """Whether a line names what follows: a heading, the term of a definition."""
    return len(line.split()) <= _LONGEST_LABEL and not re.search(r"[.,;!?]\W*$", line)
