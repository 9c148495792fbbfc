"""Bytes of a text document as text. Never raises; what fits no encoding becomes U+FFFD.

Order: a byte order mark; the escapes of ISO-2022-JP, which is all ASCII; UTF-8 (also with a few broken bytes); the encoding
that the sender declared; one that the page declares or that its bytes suggest. Knows no markup.
"""

import codecs

from sanderling.world.sources.contract import world_extra

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BROKEN_SHARE = 0.3
"""Of the characters beyond ASCII, the share that may be broken in a text that is taken for UTF-8."""


def decode(data: bytes, declared: str = "") -> str:
    """The text of some bytes, without a byte order mark and with line ends as newlines."""
    return _decode(data, declared).replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes, declared: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if b"\x1b$B" in data and data.isascii():
        return data.decode("iso2022_jp", "replace")
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    foreign = sum(1 for char in text if not char.isascii()) if broken else 0
    if broken <= _BROKEN_SHARE * foreign and (not broken or not _is_single_byte(declared)):
        return text
    with world_extra():
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding
    suggested = detect_encoding(data, from_html_meta=True) or "utf-8"
    try:
        return bytes_to_str(data, declared if _is_known(declared) else suggested, "replace")
    except (LookupError, ValueError):
        return text


def _is_known(encoding: str) -> bool:
    try:
        codecs.lookup(encoding)
    except (LookupError, ValueError):
        return False
    return True


def _is_single_byte(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name.startswith(("iso8859", "cp125", "koi8", "latin"))
    except (LookupError, ValueError):
        return False
