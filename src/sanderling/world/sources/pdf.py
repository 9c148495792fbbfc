"""One PDF: the text of its pages, its title and the day it was made, read by `pypdf`.

Pictures are not read: scans are empty. Encrypted files are left out unless they open without a password. Does not know headings
or columns; does not bound the time that one file takes, only its bytes and pages.
"""

import io
import logging
import re

from sanderling.world.sources.contract import Limits, Reason, world_extra
from sanderling.world.sources.html import Document
from sanderling.world.text import is_text

_BROKEN_WORD = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def read_pdf(data: bytes, limits: Limits) -> Document | Reason:
    """Read a file. Never raises for any bytes."""
    if len(data) > limits.document_bytes:
        return Reason.TOO_LARGE
    if not data.strip():
        return Reason.EMPTY
    with world_extra():
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError, WrongPasswordError
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports each oddity of a file; the reason here is enough
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return Reason.ENCRYPTED
        if len(reader.pages) > limits.pdf_pages:
            return Reason.TOO_LARGE
        parts: list[str] = []
        size = 0
        for page in reader.pages:
            parts.append(page.extract_text().strip())
            size += len(parts[-1])
            if size > limits.document_bytes:
                return Reason.TOO_LARGE
        title, date = _facts(reader.metadata)
    except (FileNotDecryptedError, WrongPasswordError, DependencyError):
        return Reason.ENCRYPTED
    except Exception:  # a broken file fails wherever the reader meets the break, with any error
        return Reason.DAMAGED
    text = _BROKEN_WORD.sub("", "\n\n".join(part for part in parts if part)).strip()
    if not text:
        return Reason.EMPTY
    return Document(title, text, (), date) if is_text(text) else Reason.NOT_TEXT


def _facts(metadata: object) -> tuple[str, str]:
    """Title and day of making, where they are given."""
    title = str(getattr(metadata, "title", None) or "").strip()
    made = getattr(metadata, "creation_date", None)
    return title, made.date().isoformat() if made is not None else ""
