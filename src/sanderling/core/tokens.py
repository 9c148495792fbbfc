"""Tokenizers, as the protocol needs them: text to ids and back, control tokens by name, a fingerprint.

Loads the ``tokenizer.json`` of any local Hugging Face directory through the `tokenizers` library, without torch. Text from
outside (questions, pages, tool results) is encoded with control tokens *off*, so a page that contains the text ``<|im_end|>``
cannot end the turn it stands in.
"""

import hashlib
from pathlib import Path
from typing import Protocol

import tokenizers

from sanderling.core.errors import UserError


class Tokenizer(Protocol):
    """What the protocol asks of a tokenizer."""

    @property
    def fingerprint(self) -> str:
        """Says whose ids these are: equal fingerprints mean equal ids for equal text."""
        ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text from outside: control tokens in it are read as plain text."""
        ...

    def decode(self, ids: list[int] | tuple[int, ...]) -> str:
        """Text of ids, control tokens included."""
        ...

    def token_id(self, token: str) -> int:
        """Id of a control token such as ``<|im_end|>``. Raises UserError when the tokenizer lacks it."""
        ...


class FastTokenizer:
    """A `tokenizers` tokenizer from a Hugging Face directory or a ``tokenizer.json``."""

    def __init__(self, path: Path) -> None:
        """Raises UserError when there is none, or none that can be read."""
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise UserError(f"No tokenizer.json at {path}: give the directory of a Hugging Face model.")
        try:
            text = file.read_text(encoding="utf-8")
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises plain Exceptions for files that are no tokenizers
            raise UserError(f"{file} is not a readable tokenizer ({error}): copy it again from the model's source.") from error
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._fingerprint = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def vocab_size(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int] | tuple[int, ...]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def token_id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise UserError(f"The tokenizer has no token {token!r}: use the tokenizer of a Qwen3-style chat model.")
        return found


def load_tokenizer(path: Path) -> FastTokenizer:
    """The tokenizer of a model directory. Raises UserError when there is none, or none that can be read."""
    return FastTokenizer(path)
