"""The values of a JSON or JSON-lines file, one by one, however long the file is.

Contract: memory holds one value and a piece of text, time is linear. A file whose first line is a whole value is read line by
line; any other is read as a list (its items are the values), or as values one after the other. What cannot be read is handed
on as :class:`Unread` in its place: a bad line costs that line; a bad value in the middle costs what stands before the next
place that begins as the values before it did. Control characters in texts are accepted; a NUL that is in the way is left out;
of keys that occur twice in an object the last holds, and the earlier ones are kept as ``key~1``. Of layouts this module knows
only that a list of messages is one value.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from sanderling.data.importers.items import Item, Remark, Unread, Value
from sanderling.data.importers.registry import is_conversation

_FIRST_LINE = 16 << 20
"""A first line longer than this is taken for a file without lines."""
_LARGEST = 1 << 28
"""A value longer than this (in characters) is given up."""
_NEAR_END = 16
"""An error this near to the end of what was read may be a word or a number that goes on."""
_SHOWN = 400
_BLANKS = " \t\r\n\0\ufeff"
_FIRST_FIELD = re.compile(r'\{\s*"[^"\\]{1,64}"')
_NO_BLANK = re.compile("[^ \t\r\n\0\ufeff]")


class JsonValues:
    """Reads values out of pieces of text."""

    def __init__(self, pieces: Iterator[str | Remark]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._ended = False
        self._remarks: list[Remark] = []
        self._of_value: list[Remark] = []
        """Of the value that is being decoded: forgotten when it needs more text and is decoded again."""
        self._decoder = json.JSONDecoder(strict=False, object_pairs_hook=self._object)

    def __iter__(self) -> Iterator[Item]:
        for item in self._items():
            yield from self._told()
            yield item
        yield from self._told()

    def _told(self) -> Iterator[Item]:
        told, self._remarks = self._remarks, []
        yield from told

    def _items(self) -> Iterator[Item]:
        line, whole = self._first_line()
        if not line:
            return
        first = self._parsed(line, remark=False) if whole else None
        alone = whole and not self._peek_after(len(line))
        if first is not None and isinstance(first.value, list) and alone:
            self._remarks += self._of_value
            yield from _listed(first.value)
        elif first is None and (not whole or (alone and line[:1] == "[") or self._goes_on(line)):
            yield from self._values()
        else:
            yield from self._lines()

    # -- text ---------------------------------------------------------------------------------------------------------

    def _more(self, size: int = 1) -> bool:
        """Read on until ``size`` further characters are there; false at the end of the file."""
        parts, got = [], 0
        while got < size and not self._ended:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
            elif isinstance(piece, Remark):
                self._remarks.append(piece)
            else:
                parts.append(piece)
                got += len(piece)
        if parts:
            self._text = "".join((self._text[self._at :], *parts))
            self._at = 0
        return got > 0

    def _skip_blank(self) -> str:
        """Go to the next character that is no blank and return it; empty at the end."""
        while True:
            self._at = _after_blank(self._text, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _first_line(self) -> tuple[str, bool]:
        """The first line that is not blank, and whether it is whole; it stays to be read."""
        if not self._skip_blank():
            return "", True
        while "\n" not in self._text[self._at :] and len(self._text) - self._at < _FIRST_LINE and self._more(1 << 20):
            pass
        end = self._text.find("\n", self._at)
        return self._text[self._at : end if end >= 0 else len(self._text)], end >= 0 or self._ended

    def _peek_after(self, size: int) -> bool:
        """Whether anything but blanks follows the next ``size`` characters."""
        while True:
            end = _after_blank(self._text, self._at + size)
            if end < len(self._text):
                return True
            if not self._more():
                return False

    # -- lines --------------------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[Item]:
        while self._skip_blank():
            end = self._text.find("\n", self._at)
            size = len(self._text) - self._at
            while end < 0 and self._more(max(1, size)):
                end = self._text.find("\n", self._at + size)
                size = len(self._text) - self._at
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end]
            self._at = end
            yield self._parsed(line) or Unread("unreadable_line", line[:_SHOWN])

    def _parsed(self, line: str, *, remark: bool = True) -> Value | None:
        """The value of a line, or None. A comma at its end does no harm."""
        for text in dict.fromkeys((line, line.replace("\0", ""), line.rstrip(_BLANKS).removesuffix(","))):
            self._of_value = []
            try:
                found = Value(self._decoder.decode(text))
            except (ValueError, RecursionError):
                continue
            if text != line:
                self._of_value.append(Remark("mended_line", line[:_SHOWN]))
            if remark:
                self._remarks += self._of_value
            return found
        return None

    def _goes_on(self, line: str) -> bool:
        """Whether a line that is no value may be the beginning of one."""
        try:
            self._decoder.raw_decode(line.strip(_BLANKS))
        except json.JSONDecodeError as error:
            return line[:1] in "[{" and error.pos >= len(line.strip(_BLANKS)) - 1
        except (ValueError, RecursionError):
            return False
        return True  # several values in a line

    # -- values -------------------------------------------------------------------------------------------------------

    def _values(self) -> Iterator[Item]:
        if self._skip_blank() == "[":
            yield from self._list()
            return
        while self._skip_blank():
            yield self._next("\n{")

    def _list(self) -> Iterator[Item]:
        """The items of a list; all of them as one value where they are messages."""
        self._at += 1
        messages: list[Any] = []
        again = ""
        while (char := self._skip_blank()) and char != "]":
            if char == ",":
                self._at += 1
                continue
            first = not again
            again = again or self._beginning()
            item = self._next(again)
            if isinstance(item, Value) and (messages or (first and is_conversation([item.value]))):
                messages.append(item.value)
            else:
                yield item
        if messages:
            yield Value(messages)
        if char:
            self._at += 1
            return
        self._remarks.append(Remark("truncated_file", "the list has no end"))

    def _beginning(self) -> str:
        """How the items of a list begin: on a new line with its blanks, or, where they share a line, with their first field."""
        start = self._text.rfind("\n", 0, self._at)
        blanks = self._text[start : self._at]
        if start >= 0 and not blanks.strip():
            return blanks + "{"
        field = _FIRST_FIELD.match(self._text, self._at)
        return field[0] if field else ""

    def _next(self, again: str) -> Item:
        """The value that begins here. After damage go to the next place that looks like ``again``, or to the end."""
        while True:
            self._of_value = []
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if isinstance(value, (int, float)) and end == len(self._text) and self._more():
                    continue  # a number may go on
                self._at = end
                self._remarks += self._of_value
                return Value(value)
            except json.JSONDecodeError as error:
                size = len(self._text) - self._at
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_END
                if not (cut and size < _LARGEST and self._more(max(1, size))):
                    return self._damage(again)
            except (ValueError, RecursionError):
                return self._damage(again)

    def _damage(self, again: str) -> Unread:
        shown = self._text[self._at : self._at + _SHOWN]
        self._at += 1
        while True:
            found = self._text.find(again, self._at) if again else -1
            if found >= 0:
                self._at = found
                return Unread("unreadable_value", shown)
            self._at = max(self._at, len(self._text) - len(again))
            if not self._more():
                self._at = len(self._text)
                return Unread("unreadable_rest", shown)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object whose keys may repeat."""
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self._of_value.append(Remark("duplicate_keys", ", ".join(key for key, _ in pairs)[:_SHOWN]))
        last = {key: index for index, (key, _) in enumerate(pairs)}
        for index, (key, value) in enumerate(pairs):
            if index != last[key]:
                name, number = f"{key}~1", 1
                while name in found:
                    number += 1
                    name = f"{key}~{number}"
                found[name] = value
        return found


def _after_blank(text: str, at: int) -> int:
    """Where the next character stands that is no blank; the end when there is none."""
    found = _NO_BLANK.search(text, at)
    return len(text) if found is None else found.start()


def _listed(values: list[Any]) -> Iterator[Item]:
    """The items of a list that was read whole; a conversation stays together."""
    if is_conversation(values):
        yield Value(values)
        return
    for value in values:
        yield Value(value)
