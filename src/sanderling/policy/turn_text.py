"""A turn's text while its tokens arrive: stop strings, and streaming that never splits a character.

Text is the decoding of ids and is never encoded again. Nobody waits for a turn's text but a listener, so tokens are decoded
one by one only while somebody listens; stop strings are looked for only after tokens that could complete one.
"""

from collections.abc import Callable, Sequence

from sanderling.core.chat import Tokenizer

_UNFINISHED = "\ufffd"
"""What a tokenizer decodes the first bytes of a character to."""


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Cut a text before the earliest of the stop strings; says whether one was found."""
    found = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(found)], True) if found else (text, False)


class StopTokens:
    """Which tokens can complete a stop string: those whose own text holds the last character of one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._found: dict[tuple[str, ...], frozenset[int]] = {}

    def closing(self, stops: tuple[str, ...]) -> frozenset[int]:
        """Ids after which a turn's text must be searched for ``stops``. Found once for each tuple of stops."""
        if stops not in self._found:
            last = {stop[-1] for stop in stops if stop}
            spaces = any(character.isspace() for character in last)  # some decoders add or drop spaces between tokens
            texts = ((token, self._tokenizer.decode([token])) for token in range(self._tokenizer.vocab_size))
            self._found[stops] = frozenset(
                token for token, text in texts if spaces or not text or _UNFINISHED in text or last.intersection(text)
            )
        return self._found[stops]


class TurnText:
    """Watches one turn. Called with the turn's ids after each token, it says whether a stop string has appeared."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: tuple[str, ...] = (),
        closing: frozenset[int] = frozenset(),
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._closing = closing
        self._on_text = on_text
        self._sent = 0
        self._text = ""
        """Decoded so far, without an unfinished character; kept only while streaming."""
        self._read = self._context = 0
        """Ids up to ``read`` are in the text; those from ``context`` are decoded again, for spaces between tokens."""

    def __call__(self, ids: Sequence[int]) -> bool:
        if self._on_text is not None:
            self._stream(ids)
        if ids[-1] not in self._closing:
            return False
        return cut_at_stop(self._tokenizer.decode(list(ids)), self._stops)[1]

    def finish(self, text: str) -> None:
        """Send what is left of the turn's final text."""
        if self._on_text is not None and len(text) > self._sent:
            self._on_text(text[self._sent :])
            self._sent = len(text)

    def _stream(self, ids: Sequence[int]) -> None:
        known = self._tokenizer.decode(list(ids[self._context : self._read]))
        text = self._tokenizer.decode(list(ids[self._context :]))
        if text.endswith(_UNFINISHED):
            return
        self._text += text[len(known) :]
        self._context, self._read = self._read, len(ids)
        safe = len(cut_at_stop(self._text, self._stops)[0]) - self._held()
        if self._on_text is not None and safe > self._sent:
            self._on_text(self._text[self._sent : safe])
            self._sent = safe

    def _held(self) -> int:
        """Characters at the end that may be the beginning of a stop string."""
        if cut_at_stop(self._text, self._stops)[1]:
            return 0
        sizes = (size for stop in self._stops for size in range(1, len(stop)) if self._text.endswith(stop[:size]))
        return max(sizes, default=0)
