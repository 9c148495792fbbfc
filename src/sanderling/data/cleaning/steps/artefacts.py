r"""LiteResearcher's filter of artefacts: a trajectory whose agent wrote garbled text, or ``\boxed``, is dropped.

The paper names encoding artefacts and does not say what they are. Here they are, in the agent's own turns and nowhere else
(pages may hold anything):

- U+FFFD, which stands for bytes that were no text, and lone surrogates;
- control characters other than tab, line feed and carriage return;
- UTF-8 read as Latin-1 or Windows-1252: two or more characters that, written in Windows-1252 and read as UTF-8, are one
  character beyond ASCII (``Ã©`` for é, ``â€™`` for an apostrophe);
- two or more ``\u`` escapes in a row outside of tool calls, which are characters left in JSON.

``\boxed`` is the form of answers of mathematics, which some teachers fall into; ``\boxed{`` counts wherever the agent wrote it.
"""

import re

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Node, Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason

_BROKEN = re.compile("[\ufffd\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}){2,}")
_CALLS = re.compile("<tool_call>.*?</tool_call>", re.S)
_BOXED = re.compile(r"\\boxed\s*\{")
_LATIN = "\u00c2-\u00f4"
_HIGH = (
    "\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc"
    "\u2013\u2014\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122"
)
"""What the bytes 80 to BF are in Latin-1 and in Windows-1252."""
_SUSPECTS = re.compile(f"[{_LATIN}][{_HIGH}]{{1,3}}")


class ArtefactsSettings(BaseModel):
    """What is borne."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most: int = Field(default=0, ge=0)
    """Artefacts of encoding that a trajectory may have."""
    boxed: bool = False
    r"""Whether ``\boxed`` is borne."""


def limit_artefacts(trajectory: Trajectory, settings: ArtefactsSettings) -> Outcome:
    """The trajectory, unless the agent's own text is garbled."""
    found: list[str] = []
    for turn in trajectory.turns():
        if not settings.boxed and _BOXED.search(turn.text):
            return Outcome(None, reason=Reason.ARTEFACTS, detail="\\boxed")
        found += artefacts(turn)
    if len(found) <= settings.most:
        return Outcome(trajectory)
    return Outcome(None, reason=Reason.ARTEFACTS, detail=" ".join(repr(one) for one in found[:5]))


def artefacts(turn: Node) -> list[str]:
    """The garbled places of a turn."""
    found = _BROKEN.findall(turn.text)
    if not turn.text.isascii():
        found += [one[0] for one in _SUSPECTS.finditer(turn.text) if _is_misread(one[0])]
    if "\\u" in turn.text:
        found += _ESCAPES.findall(_CALLS.sub("", turn.text))
    return found


def _is_misread(text: str) -> bool:
    """Whether a run is a character's UTF-8 bytes, each read as a character of its own; some run from its beginning."""
    data = b"".join(_byte(char) for char in text)
    for size in range(2, len(data) + 1):
        try:
            data[:size].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return True
    return False


def _byte(char: str) -> bytes:
    try:
        return char.encode("cp1252")
    except UnicodeEncodeError:
        return bytes([ord(char)]) if ord(char) < 256 else b"?"
