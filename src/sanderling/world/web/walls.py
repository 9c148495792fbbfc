"""Pages that stand before the page that was asked for: checks for robots, consent, paywalls, "not found" that says 200.

A page is one where next to nothing is left of it without what such pages say. Longer texts are taken at their word.
"""

import re

from sanderling.core.types import ToolStatus

LONGEST_PAGE = 1_000_000  # characters of a page that are read, a quarter of a million tokens
_LONGEST = 4_000  # characters; nobody stops a reader with more
_LEAST_WORDS = 50  # that make it a page, whatever stands beside them
_MOST_WORDS = 300  # that check or ask for consent
_TEASER_WORDS = 400  # that a paywall may let through
_BLOCKED = re.compile(
    r"(?:enable|activate|turn on|requires?|needs?|without) (?:\w+ )?java ?script|java ?script (?:is|must be|to be) \w+"
    r"|(?:verify|confirm|prove|check)\w* (?:that |if |whether )?you(?:'re| are) (?:a |not a )?(?:human|robot|bot)"
    r"|are you (?:a )?(?:human|robot)|i.?m not a robot|re-?captcha|\bcaptcha|checking your browser|just a moment\b"
    r"|attention required|unusual (?:traffic|activity)|automated (?:access|requests|queries)|security check|ddos protection"
    r"|access (?:to this (?:page|site) )?(?:has been |is |was )?(?:denied|blocked|forbidden)|request (?:has been |was )?blocked"
    r"|you have been blocked|enable cookies|cookies (?:are|must be) (?:enabled|disabled)"
    r"|accept (?:all )?cookies|we (?:and our partners )?(?:use|store) cookies|before you continue|cookie (?:consent|settings)"
    r"|consent to (?:the use of )?cookies|manage (?:your )?(?:privacy|cookie) (?:preferences|settings)|privacy choices"
    r"|alle cookies akzeptieren|wir verwenden cookies|accepter (?:tous )?les cookies|aceptar (?:todas las )?cookies",
    re.IGNORECASE,
)
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
    re.IGNORECASE | re.MULTILINE,
)


def wall(title: str, text: str) -> ToolStatus | None:
    """What such a page means for the page that was asked for; None: it is the page."""
    if len(text) > _LONGEST:
        return None
    count = len(text.split())
    if count < _TEASER_WORDS and _PAYWALLED.search(f"{title}\n{text}"):
        return ToolStatus.PAYWALLED
    lines = [line for line in text.splitlines() if line.strip()]
    said = sum(len(line.split()) for line in lines if not _BLOCKED.search(line))
    if said < _LEAST_WORDS and count < _MOST_WORDS and _BLOCKED.search(f"{title}\n{text}"):
        return ToolStatus.BLOCKED
    head = "\n".join([title, *lines[:2]])
    return ToolStatus.NOT_FOUND if count < 2 * _LEAST_WORDS and _MISSING.search(head) else None


def clipped(text: str) -> str:
    """A page's text as far as it is read."""
    if len(text) <= LONGEST_PAGE:
        return text
    return f"{text[:LONGEST_PAGE]}\n\n(Of this page only the first {LONGEST_PAGE:,} characters are read.)"
