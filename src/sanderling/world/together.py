"""Several places as one: documents, worlds and the live web, searched side by side and visited where an address belongs.

Results of the places take turns, best first, those of the place named first before the others'; each says which place it is
from. What leaves the machine is watched: a query or address that repeats words which a private place has said is not sent to
the web, however they are written or shared out among calls. It is a watch, not a wall: who says the same in other words passes.
"""

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from urllib.parse import unquote, unquote_plus

from sanderling.core.text import folded
from sanderling.core.types import ToolStatus
from sanderling.world.contract import NO_OCCASION, Leaks, Occasion, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.text import STOP_WORDS, WORD, is_cjk, normal

_WEB = ("http://", "https://")
_RUN = 4.0  # neighbouring words that say something: so many of a private page in a row are its text
_CHARACTER = 0.5  # for how many words a character counts in a script without spaces
_NUMBER = re.compile(r"(?=(?:\D*\d){4})\w{8,}")  # of an account, a key: its page's text by itself
_GLUED = 12  # characters of such a run that tell it where nothing parts the words
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")
_PARAMETER = re.compile(r"[?&;][\w.-]*=")
_PACKED = re.compile(r"[\w+/-]{12,}={0,2}", re.ASCII)
_ALIKE = str.maketrans("аеорсухіјѕһԁԛԝ", "aeopcyxijshdqw")
"""Cyrillic letters that look like Latin ones, and these."""


@dataclass(frozen=True)
class Outgoing:
    """A call that left the machine, or was held back."""

    what: str  # search, visit, or the name of a tool elsewhere
    text: str
    sent: bool


class Together(World):
    """One world of several; a question that has more than one place to look has all of them."""

    def __init__(
        self,
        places: Sequence[World],
        preferred: int = 0,
        leaks: Leaks = Leaks.HOLD,
        on_outgoing: Callable[[Outgoing], None] | None = None,
        consent: Callable[[Outgoing], bool] = lambda call: False,
    ) -> None:
        """``places``: the preferred one first; those that are not offline, or elsewhere, are the web, all others are private.

        ``consent``: whether a call that repeats a private page is sent all the same, where ``leaks`` leaves it to somebody.
        """
        self._places, self._preferred, self._leaks = tuple(places), preferred, leaks
        self._tell, self._consent = on_outgoing or (lambda call: None), consent
        self.guards_tools = False  # whether there are tools elsewhere, whose calls are watched by `keeps`
        self._private: set[str] = set()  # what the private places said, as runs of telling words
        self._public: set[str] = set()  # addresses that the web itself gave
        self._sent = ""  # the end of what was sent
        self.name = " + ".join(place.name for place in places)
        self.page_count = sum(place.page_count for place in places)
        self.offline, self.waits = all(place.offline for place in places), any(place.waits for place in places)
        self.away = any(map(_leaves, places))
        self.private = {place.name for place in places if not _leaves(place)}
        named = [str(preferred), leaks.value, *(place.fingerprint for place in places)]
        self.fingerprint = hashlib.sha256(" ".join(named).encode()).hexdigest() if places[1:] else places[0].fingerprint

    async def search(
        self, query: str, *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> SearchReply:
        """Rank pages; HELD where the query was kept from the web, with what the other places have."""
        repeats = self._repeats(query)  # before the documents say anything: these words are the agent's own

        async def ask(place: World) -> SearchReply:
            if _leaves(place) and self._held(query, "search", repeats):
                return SearchReply(query, (), ToolStatus.HELD)
            reply = await place.search(query, limit=limit, snippet_words=snippet_words, occasion=occasion)
            reply = replace(reply, hits=tuple(replace(hit, source=place.name) for hit in reply.hits))
            for hit in reply.hits:
                if not _leaves(place):
                    self.keep_private(hit.title, hit.url, hit.snippet)
                else:
                    self._public.add(hit.url)
            return reply

        replies: list[SearchReply] = []
        for tier in filter(None, (self._places[: self._preferred], self._places[self._preferred :])):
            if not any(reply.hits for reply in replies):
                replies += [await ask(place) for place in tier] if self.offline else await asyncio.gather(*map(ask, tier))
        hits: dict[str, SearchHit] = {}
        for hit in chain.from_iterable(zip_longest(*(reply.hits for reply in replies))):
            if hit is not None:
                hits.setdefault(hit.url, hit)
        statuses = [reply.status for reply in replies]
        status = ToolStatus.OK if hits else next((s for s in statuses if s is not ToolStatus.EMPTY), ToolStatus.EMPTY)
        status = ToolStatus.HELD if ToolStatus.HELD in statuses else status
        return SearchReply(query, tuple(hits.values())[:limit], status, max(reply.latency_s for reply in replies))

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        reply = missing(url)
        for place in sorted(self._places, key=_leaves):  # what is here is not fetched
            if sent := _leaves(place):
                if url not in self._public and not url.strip().lower().startswith(_WEB):
                    continue
                if self._held(url, "visit", url not in self._public and self._repeats(url), told_later=True):
                    return VisitReply(url, "", "", ToolStatus.HELD)
            try:
                reply = await place.visit(url, goal, max_words=max_words, occasion=occasion)
                sent = sent and (place.away or reply.status is not ToolStatus.FORBIDDEN or _is_looked_up(url))
            finally:
                if sent:
                    self._tell(Outgoing("visit", url, sent=True))
            if reply.status is not ToolStatus.NOT_FOUND:
                if not _leaves(place):
                    self.keep_private(reply.title, reply.url, reply.text)
                else:
                    self._public.update(_ADDRESS.findall(reply.text))
                return reply
        return reply

    def keep_private(self, title: str, url: str, text: str) -> None:
        """What a private place said, now or before a kill, is not sent to the web."""
        if (self.away or self.guards_tools) and self._leaks is not Leaks.ALLOW:
            for part in (title, unquote(url), text):
                self._private.update(chain.from_iterable(_runs(part)))

    def keeps(self, arguments: object, tool: str) -> bool:
        """Whether the call of a tool elsewhere is held back, as a query for the web is; ``arguments``: any JSON."""
        text = " ".join(_texts(arguments))
        return self._held(text, tool, self._repeats(text))

    def _held(self, text: str, what: str, repeats: bool, *, told_later: bool = False) -> bool:
        """Whether a call to the web is held back; it is told either way, one that is sent perhaps by the caller."""
        held = repeats and self._leaks is not Leaks.ALLOW
        if held and self._leaks is Leaks.ASK:
            held = not self._consent(Outgoing(what, text, sent=False))
        if held or not told_later:
            self._tell(Outgoing(what, text, not held))
        if not held:
            self._sent = " ".join(f"{self._sent} {unquote_plus(text)}".split()[-int(2 * _RUN) :])
        return held

    def _repeats(self, text: str) -> bool:
        """Whether a text, or its beginning with the end of what was sent before it, says what a private page says."""
        for said in chain(_readings(text), [f"{self._sent} {unquote_plus(text)}"]):
            if any(run in self._private for run in chain.from_iterable(_runs(said))):
                return True
            glued = "".join(_words(said))
            if any(len(run) >= _GLUED and run in glued for run in self._private):
                return True
        return False


def _leaves(place: World) -> bool:
    """Whether what a place is asked leaves the machine."""
    return place.away or not place.offline


def _is_looked_up(url: str) -> bool:
    """Whether it took a question to the network to find out that an address is not public."""
    from sanderling.world.web.public import host_of, is_written_public

    return is_written_public(host_of(url))


def _texts(value: object) -> Iterator[str]:
    """The texts in a JSON value, names included."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name)
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield str(value)


def _readings(text: str) -> Iterator[str]:
    """A text without the escapes and names of an address, and what hides in it as base64 or as hexadecimal digits."""
    yield (plain := unquote_plus(unquote_plus(text)))
    yield unquote_plus(unquote_plus(_PARAMETER.sub(" ", text)))
    for packed in dict.fromkeys([*_PACKED.findall(f"{text} {plain}"), *_PACKED.findall(f"{text} {plain}".replace("/", " "))]):
        bare = packed.rstrip("=")
        with suppress(ValueError):  # it is none
            yield base64.b64decode(bare.replace("-", "+").replace("_", "/") + "=" * (-len(bare) % 4)).decode()
        with suppress(ValueError):
            yield binascii.unhexlify(packed).decode()


def _words(text: str) -> list[str]:
    return WORD.findall(folded(text).translate(_ALIKE))


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Each run of neighbouring words that say something, in one piece: their terms, and all words from first to last."""
    found = _words(text)
    terms = list(map(normal, found))
    telling = [n for n, term in enumerate(terms) if term not in STOP_WORDS and (len(term) > 1 or not term.isascii())]
    weights = [_RUN if _NUMBER.fullmatch(found[n]) else _CHARACTER if is_cjk(found[n]) else 1.0 for n in telling]
    weight, end = 0.0, 0
    for start, first in enumerate(telling):
        while weight < _RUN and end < len(telling):
            weight += weights[end]
            end += 1
        if weight < _RUN:
            return
        yield "".join(terms[n] for n in telling[start:end]), "".join(found[first : telling[end - 1] + 1])
        weight -= weights[start]
