"""Text as statements that can be compared: sentences, table rows and list items, each with its words and what can be checked.

Checked are numbers with their units, dates, names and identifiers. Words are compared by their stems. What stands above a
passage (the page's title, headings, the term that a definition explains) is what the passage speaks of: it is kept beside it.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from sanderling.judge.numeric import Quantity, quantities, same
from sanderling.world.text import STOP_WORDS, WORD, normal, plain, sentences, spans, words

Date = tuple[int, int, int]  # year, month, day; 0 for what is not said


class Kind(StrEnum):
    """Things of one kind can stand in each other's place."""

    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Item:
    """Something in a statement that can be checked."""

    kind: Kind
    shown: str
    name: str = ""  # as it is compared
    number: Quantity | None = None
    date: Date = (0, 0, 0)
    hedge: str = ""  # at least, at most, more or less than this
    at: int = 0  # words before it
    group: int = 0  # the same for what no word parts: first name and surname
    row: int = 0  # the same for all in "A, B and C"

    @property
    def is_year(self) -> bool:
        """Whether the number looks like a year."""
        number = self.number
        return number is not None and number.unit is None and number.value.denominator == 1 and 1000 <= number.value <= 2100


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, table row or list item, taken apart."""

    text: str
    lowered: str
    terms: tuple[str, ...]  # the stems of all words in order
    content: frozenset[str]  # those that say something and belong to no item
    items: tuple[Item, ...]
    negated: frozenset[str]  # stems right after a negation
    affirmed: frozenset[str]  # stems elsewhere
    head: frozenset[str] = frozenset()  # stems of the head of the table that it is a row of


_STEM_ENDINGS = ("ation", "ition", "ment", "ness", "ing", "ied", "ion", "ive", "er", "or", "al", "ly", "ed", "e", "y")
_SHORT_STEMS = ("ing", "ied", "ed", "e", "y")
_LEAST_STEM = 4
_LIGHT = """
somebody someone anybody anyone whoever whatever something anything once still own make made take taken get got let just very
much many may might must shall should thing way say said
"""


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """A word without its commonest English endings: *recompiles* and *recompiling* are one."""
    word = normal(word)
    for ending in _STEM_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM - (ending in _SHORT_STEMS):
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > _LEAST_STEM and word[-1] == word[-2] else word


_OPENING = """
since under according through during unlike despite although because while until both each every many most when where however
whereas via per within without among between see note new changed if besides instead here therefore thus
"""
_OPENERS = frozenset(_OPENING.split())
_STOP = frozenset(map(stem, [*STOP_WORDS, *_LIGHT.split()])) | STOP_WORDS
_DENYING = "not|no|never|none|neither|nor|without|cannot|nobody|nothing|unable|hardly"
_NEGATIONS = frozenset(_DENYING.split("|"))
_OPPOSITES = """
increase decrease,rise fall,more less,more fewer,before after,minimum maximum,least most,enable disable,enabled disabled,
first last,true false,required optional,allow forbid,allowed forbidden,above below,higher lower,larger smaller,
longer shorter,earlier later,open closed,add remove,added removed,left right,north south,east west,buyer seller,
landlord tenant,win lose,won lost,accept reject,accepted rejected,include exclude,included excluded,read write,
faster slower,cheaper dearer,up down,start end,begin end,input output,client server,always never,all none,
buy sell,bought sold,born died,lend borrow,import export,encode decode,encrypt decrypt,upload download
"""
OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split(","):
    _one, _other = map(stem, _pair.split())
    OPPOSITE.setdefault(_one, set()).add(_other)
    OPPOSITE.setdefault(_other, set()).add(_one)
_NEGATED_WORDS = 2  # that a negation reaches
_NEGATION = re.compile(rf"\b(?:{_DENYING})\b|n['’]t\b", re.IGNORECASE)
_BREAK = re.compile(r"[.,;:!?()|]")
_COMPARED = re.compile(r"\W*(?:have\s+)?(?:more|less|fewer|later|longer|earlier)\s+than\b", re.IGNORECASE)
_HEDGES = {
    "most": r"at most|(?:no|not|cannot have) (?:more|longer|later) than|up to|maximum|as (?:much|many) as|limited to|within",
    "least": r"at least|(?:no|not) (?:less|fewer) than|minimum",
    "more": r"more than|over|above|exceed\w*|greater than|longer than|after|since",
    "less": r"less than|fewer than|under|below|before|until|smaller than|shorter than",
}
_HEDGE = {name: re.compile(rf"\b(?:{said})\W+(?:\w+\W+){{0,2}}$", re.IGNORECASE) for name, said in _HEDGES.items()}
CONTRARY = {"most": "least", "least": "most", "more": "less", "less": "more"}
_ABOUT = re.compile(r"\b(?:about|roughly|around|approximately|nearly|almost|some|over|more than)\s+\S{0,2}$", re.IGNORECASE)
_ARGUMENTS = re.compile(r"\([^()]*\)$")
_CODE = re.compile(
    r"`([^`]+)`"
    r"|(?<![\w.-])(\d+(?:\.\d+)+\.(?:\d+|x)(?![\w.]*\d)"
    r"|(?<!\.)(?:[A-Za-z_]\w+\.)+[A-Za-z_]\w+(?:\(\))?|\w+\(\)|[a-z]+[A-Z]\w*|\w*_\w+|--?[a-z][\w-]+|[a-z]+\d\w*)"
)
_NAME = re.compile(r"(?<![\w'’.-])[A-ZÀ-ÖØ-Þ][\w’'-]*")
_ROUND = re.compile(r"\b(?:tens|dozens|hundreds|thousands|millions|billions)\b", re.IGNORECASE)
_ONE = re.compile(r"\ban? (?=(?:hundred|thousand|million|billion)\b)", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,&/]*(?:(?:and|or)\s+(?:(?:the|an?)\s+)?)?[`\s]*")
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_MONTH = (
    r"(?P<m>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DATES = (
    re.compile(rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+(?P<y>\d{{4}}))?"),
    re.compile(rf"\b{_MONTH}\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s+(?P<y>\d{{4}}))?"),
    re.compile(rf"\b{_MONTH}(?P<d>)\s+(?P<y>\d{{4}})"),
    re.compile(r"(?<!\d)(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})(?!\d)"),
)
_CALENDAR_WORDS = """
january february march april may june july august september october november december
monday tuesday wednesday thursday friday saturday sunday
"""
_CALENDAR = frozenset(_CALENDAR_WORDS.split())


def take_apart(text: str) -> Statement:
    """Words and items of one statement."""
    read = _ONE.sub("one ", plain(text))
    starts, _ = spans(read)
    terms = tuple(map(stem, words(read)))
    items: list[Item] = []
    taken: set[int] = set()
    before = 0
    for item, start, end in sorted(_items(read), key=lambda found: found[1]):
        at, after = int(starts.searchsorted(start)), int(starts.searchsorted(end))
        gap, last = read[before:start], items[-1] if items else None
        group = last.group if last and not WORD.search(gap) and not _BREAK.search(gap) else len(items)
        row = last.row if last and last.kind is item.kind and _BETWEEN.fullmatch(gap) else len(items)
        items.append(replace(item, at=at, group=group, row=row))
        taken.update(range(at, after))
        before = end
    content = {
        term
        for place, term in enumerate(terms)
        if place not in taken and len(term) > 1 and not term.isdigit() and term not in _STOP and term not in _NEGATIONS
    }
    negated = _negated(read, starts.tolist(), terms)
    affirmed = {term for place, term in enumerate(terms) if place not in negated}
    return Statement(
        text,
        read.lower(),
        terms,
        frozenset(content),
        tuple(items),
        frozenset(terms[place] for place in negated),
        frozenset(affirmed),
    )


def _negated(text: str, starts: Sequence[int], terms: Sequence[str]) -> set[int]:
    """Places of the first telling words after each negation, up to a mark; *no more than* is a comparison."""
    found: set[int] = set()
    for negation in _NEGATION.finditer(text):
        if _COMPARED.match(text, negation.end()):
            continue
        stop = _BREAK.search(text, negation.end())
        until = stop.start() if stop else len(text)
        reached = [n for n, start in enumerate(starts) if negation.end() <= start < until and terms[n] not in _STOP]
        found.update(reached[:_NEGATED_WORDS])
    return found


def _items(text: str) -> Iterator[tuple[Item, int, int]]:
    """What can be checked in a text, with where it stands; each finder sees what those before it left."""
    left = text

    def without(found: re.Match[str]) -> str:
        return left[: found.start()] + " " * len(found[0]) + left[found.end() :]

    for pattern in _DATES:
        for found in pattern.finditer(left):
            month = _MONTHS.get(found["m"][:3].lower()) or int(found["m"])
            date = (int(found["y"] or 0), month, int(found["d"] or 0))
            yield Item(Kind.DATE, found[0], date=date, hedge=_hedge(text, found.start())), found.start(), found.end()
            left = without(found)
    for found in _CODE.finditer(left):
        name = _ARGUMENTS.sub("", (found[1] or found[2]).strip().lower())
        if name and (not re.fullmatch(r"[\d.,\s-]+", name) or name.count(".") > 1):  # 3.11.2 is a name, not a number
            yield Item(Kind.CODE, found[1] or found[2], name), found.start(), found.end()
            left = without(found)
    for number in quantities(left):
        if number.unit is None and number.value <= 2 and left[number.start].isalpha():
            continue  # "one" and "two" are often no numbers
        shown = left[number.start : number.end].strip()
        hedge = _hedge(left, number.start)
        yield Item(Kind.NUMBER, shown, number=_rounded(left, number), hedge=hedge), number.start, number.end
    for found in _ROUND.finditer(left):
        yield Item(Kind.NAME, found[0], found[0].lower()), found.start(), found.end()
    for found in _NAME.finditer(left):
        name = re.sub(r"['’]s?$", "", found[0])
        is_word = len(name) < 2 or name.lower() in STOP_WORDS or name.lower() in _OPENERS or name.lower() in _CALENDAR
        if not is_word and not _merely_begins(left, found):
            yield Item(Kind.NAME, name, name.lower()), found.start(), found.end()


def _merely_begins(text: str, word: re.Match[str]) -> bool:
    """Whether a word has its capital from the place where it stands: it opens a sentence, a cell or a title."""
    before = text[: word.start()].rstrip(' *_"“#>(')
    begins = not before.strip(" |-•+") or before[-1] in ".!?:|"
    return begins and not re.match(r"\s+[A-Z]", text[word.end() :]) and not re.search(r"[A-Z0-9]", word[0][1:])


def _hedge(text: str, at: int) -> str:
    before = text[max(at - 40, 0) : at]
    return next((name for name, pattern in _HEDGE.items() if pattern.search(before)), "")


def _rounded(text: str, number: Quantity) -> Quantity:
    """The number with the places that *about* leaves open: about 38,000 may be 38,214."""
    if number.grain or number.value.denominator != 1 or not number.value or not _ABOUT.search(text[: number.start]):
        return number
    digits = str(abs(int(number.value)))
    return replace(number, grain=Fraction(10 ** (len(digits) - len(digits.rstrip("0")))))


def holds(statement: Statement, item: Item) -> bool:
    """Whether a statement has the item: numbers in whatever unit, dates in whatever form, names as they are."""
    if item.kind in (Kind.NAME, Kind.CODE):
        return named(item, statement.lowered, statement.terms)
    return any(equal(one, item) for one in statement.items)


def equal(one: Item, wanted: Item) -> bool:
    """Whether an item says all that the wanted one says."""
    if wanted.number is not None:
        if one.number is None:
            value = wanted.number.value
            return one.kind is Kind.DATE and wanted.number.unit is None and value > 0 and value in (one.date[0], one.date[2])
        unit_unsaid = wanted.number.unit is not None and one.number.unit is None
        contrary = bool(wanted.hedge) and CONTRARY[wanted.hedge] == one.hedge
        return not unit_unsaid and not contrary and bool(same(one.number, wanted.number, None))
    if one.kind is not wanted.kind:
        return False
    if one.kind is Kind.DATE:
        return all(not asked or said == asked for said, asked in zip(one.date, wanted.date, strict=True))
    return one.name == wanted.name


def named(item: Item, lowered: str, terms: Sequence[str] = ()) -> bool:
    """Whether a name or identifier is there: as it is, in another form of the word, or as what initials stand for."""
    name = item.name
    singular = name.removesuffix("s") if item.kind is Kind.NAME and len(name) > 3 else name
    if singular in lowered:
        before, after = (r"\w" if re.match(r"\w", end) else re.escape(end) for end in (name[0], singular[-1]))
        plural = "(?:e?s)?" if item.kind is Kind.NAME else ""
        if re.search(rf"(?<!{before}){re.escape(singular)}{plural}(?!{after})", lowered):
            return True
    return is_initials(item) and name in "".join(term[0] for term in terms if term not in STOP_WORDS)


def is_initials(item: Item) -> bool:
    """Whether a name may be the initials of several words, as in CFO."""
    return item.kind is Kind.NAME and item.shown.isupper() and item.shown.isalpha() and 3 <= len(item.name) <= 5


def comparable(one: Item, other: Item) -> bool:
    """Whether one could stand in the other's place."""
    if one.kind is not other.kind or one.name[:1].isdigit() != other.name[:1].isdigit():
        return False
    if one.number is not None and other.number is not None and (one.number.unit or other.number.unit):
        return bool(one.number.unit and other.number.unit and one.number.unit.kind == other.number.unit.kind)
    return one.is_year == other.is_year


_APART = re.compile(r"\s*(?:[#>*•+-]|\d+[.)]\s)|\s{4}")
_LONGEST_LABEL = 12  # words


@lru_cache(maxsize=4_096)
def statements_of(passage: str) -> tuple[Statement, ...]:
    """The sentences of a passage, its table rows and its list items; lines that were merely wrapped are joined."""
    lines: list[str] = []
    for line in plain(passage).splitlines():
        if _is_row(line) or _APART.match(line) or not lines or _is_row(lines[-1]) or lines[-1].lstrip().startswith("#"):
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
    found: list[Statement] = []
    head: frozenset[str] | None = None
    for line in lines:
        if not _is_row(line):
            head = None
            found += map(take_apart, sentences(line))
        elif WORD.search(line):
            row = take_apart(line)
            head = frozenset(row.terms) if head is None else head
            found.append(replace(row, head=head))
    return tuple(found)


def _is_row(line: str) -> bool:
    return " | " in line or line.lstrip().startswith("|")


def _is_label(line: str) -> bool:
    """Whether a line names what follows: a heading, the term of a definition."""
    return len(line.split()) <= _LONGEST_LABEL and not re.search(r"[.,;!?]\W*$", line)


@dataclass(frozen=True, slots=True)
class Above:
    """What stands above a passage."""

    title: str  # of its page, in lower case
    lead: str  # the term that the passage explains, in lower case
    lowered: str  # these, the headings above, and a term at the end of the passage before
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shelf:
    """Passages as they are searched."""

    statements: tuple[tuple[Statement, ...], ...]  # of each passage
    above: tuple[Above, ...]
    places: dict[str, list[tuple[int, int]]]  # passage and statement in which each stem stands
    counted: list[tuple[int, int]]  # passage and statement of numbers and dates
    rarity: dict[str, float]
    most: float  # rarity of what is nowhere

    def where(self, item: Item) -> Iterable[tuple[int, int]]:
        """Passage and statement of each place where an item may be."""
        if not item.name:
            return self.counted
        parts = WORD.findall(item.name)
        if parts and not is_initials(item):
            return self.places.get(stem(parts[-1]), ())
        return ((passage, place) for passage, found in enumerate(self.statements) for place in range(len(found)))


@lru_cache(maxsize=4)
def shelve(passages: tuple[str, ...], titles: tuple[str, ...]) -> Shelf:
    """Take passages apart; neighbours with one title, or all where there are no titles, belong to one page."""
    read = tuple(map(statements_of, passages))
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    counted: list[tuple[int, int]] = []
    for passage, found in enumerate(read):
        for place, one in enumerate(found):
            if any(item.kind in (Kind.NUMBER, Kind.DATE) for item in one.items):
                counted.append((passage, place))
            for term in {*one.terms, *one.head}:
                places[term].append((passage, place))
    counts = Counter(term for found in read for one in found for term in set(one.terms))
    total = sum(map(len, read))
    above: list[Above] = []
    title, headings = "", list[str]()
    for place, passage in enumerate(passages):
        first, _, rest = passage.partition("\n")
        before = ""
        if place == 0 or (titles and titles[place] != titles[place - 1]):
            title, headings = f"{titles[place]}\n{first}" if titles else first, []
        else:
            before = passages[place - 1].rstrip().rpartition("\n")[2]
        headings = [line for line in passage.splitlines() if line.startswith("#")] or headings
        lead = first if _is_label(first) and re.match(r"\W*[A-Z]", rest) else ""
        lines = [title, *headings, lead, before if _is_label(before) else ""]
        lowered = plain("\n".join(lines)).lower()
        above.append(Above(plain(title).lower(), plain(lead).lower(), lowered, frozenset(map(stem, words(lowered)))))
    rarity = {term: math.log(1 + total / (count + 0.5)) for term, count in counts.items()}
    return Shelf(read, tuple(above), dict(places), counted, rarity, math.log(1 + total / 0.5))
