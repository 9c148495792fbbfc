"""Pages that stand before the page that was asked for: checks for robots, consent, paywalls, "not found" that says 200.

What such a page says, it says in a few words or to its reader; what is written about such pages is neither, and is a page.
Longer texts are taken at their word.
"""

import re
from collections.abc import Iterable

from sanderling.core.types import ToolStatus

LONGEST_PAGE = 1_000_000  # characters of a page that are read, a quarter of a million tokens
_LONGEST = 4_000  # characters; nobody stops a reader with more
_LEAST_WORDS = 30  # that make it a page, whatever stands beside them
_MOST_WORDS = 300  # that check or ask for consent
_TEASER_WORDS = 400  # that a paywall may let through
_MISSING_WORDS = 100  # that say that a page is not there
_FEW_WORDS = 10  # of a heading, button or command
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_TO_READER = re.compile(
    r"\b(?:you|your|we|our|please|sie|ihren?|wir|unsere?n?|vous|votre|nous|nos|usted|utilizamos|nuestr\w+)\b", re.IGNORECASE
)
_BLOCKED = re.compile(
    r"(?:enable|activate|turn on|requires?|needs?|without) (?:\w+ )?(?:java ?script|js\b)|java ?script (?:is|must be|to be) \w+"
    r"|(?:verify|confirm|prove|check|make sure)\w* (?:that |if |whether )?you(?:'re| are) (?:a |not a )?(?:human|robot|bot)"
    r"|are you (?:a )?(?:human|robot)|not a robot|robot check|re-?captcha|\bcaptcha|checking your browser|just a moment\b"
    r"|attention required|unusual (?:traffic|activity)|automated (?:access|requests|queries)|security check|ddos protection"
    r"|access (?:to this (?:page|site) )?(?:has been |is |was )?(?:denied|blocked|forbidden)|request (?:has been |was )?blocked"
    r"|you(?:'ve| have|'re| are| were) (?:been )?blocked|security (?:service|solution)|\bray id|characters you see"
    r"|pardon our interruption|enable cookies|accepting cookies|cookies (?:are|must be) (?:enabled|disabled)"
    r"|accept (?:all )?cookies|we (?:and our partners )?(?:use|store) cookies|before you continue|cookie (?:consent|settings)"
    r"|consent to (?:the use of )?cookies|manage (?:your )?(?:privacy|cookie) (?:preferences|settings)|privacy choices"
    r"|alle cookies akzeptieren|wir verwenden cookies|accepter (?:tous )?les cookies|aceptar (?:todas las )?cookies",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"cookie|consent|privacy|personali[sz]ed|partners|datenschutz|einwillig|confidentialit|privacidad", re.IGNORECASE
)
_OPENING = re.compile(
    r"before you continue|just a moment|robot check|attention required|pardon our|blocked|unusual traffic|checking your browser"
    r"|(?:are|that) you(?:'re| are)? (?:a |not a )?(?:human|robot)",
    re.IGNORECASE,
)
"""How a page begins that checks at more length."""
_PAYWALLED = re.compile(
    r"subscribe (?:now )?to (?:continue|keep|read|unlock|access)|to (?:continue|keep) reading|already a (?:subscriber|member)"
    r"|(?:article|story|content|page) is (?:only |exclusively )?(?:available )?(?:for|to|reserved for) (?:our )?"
    r"(?:paying |premium )?(?:subscribers|members)|(?:subscribers?|members?)[- ]only (?:article|content|story)"
    r"|free articles? (?:left|remaining|this month)|unlock (?:this|the full) (?:article|story)"
    r"|mit (?:einem )?(?:abo|plus) weiterlesen|r[ée]serv[ée]e? aux abonn[ée]s",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"^(?:error:? )?404\b|\b404 (?:error|not found|page)|error:? 404\b|^(?:not found|nothing (?:was )?found)\b"
    r"|(?:page|site|url|article)[^.\n]{0,40} (?:not|n.t|cannot be|could not be) (?:be )?(?:found|exist)"
    r"|(?:page|site|article)[^.\n]{0,40} no longer (?:exists|available)"
    r"|seite (?:wurde )?nicht gefunden|page (?:introuvable|non trouv)|p[áa]gina no encontrada",
    re.IGNORECASE,
)


def wall(title: str, text: str) -> ToolStatus | None:
    """What such a page means for the page that was asked for; None: it is the page."""
    if len(text) > _LONGEST:
        return None
    sentences = [one.lstrip("#-*•> ").replace("’", "'") for one in _SENTENCE.split(text) if one.strip()]
    count, beginning = _words(sentences), [title.replace("’", "'"), *sentences[:2]]
    if count < _TEASER_WORDS and any(_says(_PAYWALLED, one) for one in [title, *sentences]):
        return ToolStatus.PAYWALLED
    if count < _MOST_WORDS and _stops(sentences, count, beginning):
        return ToolStatus.BLOCKED
    return ToolStatus.NOT_FOUND if count < _MISSING_WORDS and any(_says(_MISSING, one) for one in beginning) else None


def _stops(sentences: list[str], count: int, beginning: list[str]) -> bool:
    """Whether a text checks or asks for consent: next to nothing is left without that, or most of it speaks to its reader."""
    stopping = [one for one in sentences if _says(_BLOCKED, one)]
    if not stopping and not _says(_BLOCKED, beginning[0]):
        return False
    to_reader = [one for one in sentences if _TO_READER.search(one)]
    about_it = [one for one in to_reader if _BLOCKED.search(one) or _CONSENT.search(one)]
    if count - _words(stopping) < _LEAST_WORDS or 2 * _words(about_it) >= count:
        return True
    return 2 * _words(to_reader) >= count and any(_says(_OPENING, one) for one in beginning)


def _says(what: re.Pattern[str], sentence: str) -> bool:
    """Whether a sentence says so itself, as buttons, headings and what speaks to a reader do."""
    return bool(what.search(sentence)) and (_words([sentence]) <= _FEW_WORDS or bool(_TO_READER.search(sentence)))


def _words(sentences: Iterable[str]) -> int:
    return sum(len(one.split()) for one in sentences)


def clipped(text: str) -> str:
    """A page's text as far as it is read."""
    if len(text) <= LONGEST_PAGE:
        return text
    return f"{text[:LONGEST_PAGE]}\n\n(Of this page only the first {LONGEST_PAGE:,} characters are read.)"
