"""Rows whose texts are encrypted. Knows no benchmark.

That a file is decrypted already is told by its columns: it has no canary. Nothing is decrypted on trial; what then still looks
encrypted is no question, and the loader leaves it out.
"""

from collections.abc import Callable

from sanderling.data.fields import Fields, plain_text
from sanderling.evaluate.benchmarks.contract import Options, Row
from sanderling.evaluate.benchmarks.decrypt import CIPHERS, Cipher, UndecodableError


def hidden_row(
    cipher: Cipher, question: str, answer: str, *, id: str = "id", topic: str = "", topic_is_hidden: bool = False
) -> Callable[[Fields, Options], Row]:
    """How a record is read whose question and answer stand encrypted in these columns, the canary beside them."""

    def row(found: Fields, options: Options) -> Row:
        asked, accepted = (plain_text(found.need(*column)) for column in (("question", question), ("answer", answer)))
        canary = _canary(found, options)
        decrypted = _opener(cipher, canary)
        topics = found.texts("topic", *filter(None, [topic]))
        return Row(
            native_id=found.text("id", id),
            text=decrypted(asked),
            answers=tuple(filter(None, [decrypted(accepted)])),
            level=found.text("level"),
            topics=tuple(map(decrypted, topics)) if topic_is_hidden else topics,
            canary=canary,
        )

    return row


def _canary(found: Fields, options: Options) -> str:
    """What opens a record: a person's canary, or the record's own; empty for a file without."""
    canary = options.canary or found.text("canary", "canary")
    if not canary and found.has("canary"):
        raise UndecodableError("its canary is empty")
    return canary


def _opener(cipher: Cipher, canary: str) -> Callable[[str], str]:
    decrypt = CIPHERS[cipher]
    return (lambda text: decrypt(text, canary).strip()) if canary else (lambda text: text)
