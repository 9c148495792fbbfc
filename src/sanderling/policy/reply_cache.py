"""A model's replies on disk, each under the hash of all that it answers: model, conversation, and how it was sampled.

Any change of a letter is another conversation, and so another key. A reply appears whole or not at all, whoever else writes at
the same time and whenever it is killed; a file that cannot be read is no reply. Knows no format of replies.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.types import Message
from sanderling.runs.files import close_directory

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A reply, and what it took when it was made."""

    text: str
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cut: bool = False
    """It ended for its length."""
    is_estimated: bool = False
    """The server did not say what it took: these are the most that it may have been."""


class ReplyCache:
    """Replies below a directory, which may be shared by processes."""

    def __init__(self, directory: Path, *, private: bool = False) -> None:
        """``private``: the directory is for its owner alone from now on. Raises UserError when it cannot be written."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if private:
                close_directory(directory)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise UserError(f"Replies cannot be kept in {directory} ({error.strerror}): choose another directory.") from error
        self._directory = directory

    def get(self, model: str, messages: Sequence[Message]) -> str | None:
        """The text of the one reply to a conversation, if it is known."""
        found = self.find(model, messages)
        return None if found is None else found.text

    def put(self, model: str, messages: Sequence[Message], reply: str) -> None:
        """Keep the one reply to a conversation. Raises OSError when the disk does not take it."""
        self.keep(model, messages, Kept(reply))

    def find(self, model: str, messages: Sequence[Message], *settings: float) -> Kept | None:
        """The reply that was sampled so, if it is known. ``settings``: temperature, lengths, which of several samples."""
        key = _key(model, messages, settings)
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or found.get("key") != key or not isinstance(found.get("reply"), str):
            return None
        prompt, sampled = found.get("prompt_tokens", 0), found.get("sampled_tokens", 0)
        if not isinstance(prompt, int) or not isinstance(sampled, int):
            return None
        return Kept(found["reply"], prompt, sampled, found.get("cut") is True, found.get("estimated") is True)

    def keep(self, model: str, messages: Sequence[Message], kept: Kept, *settings: float) -> None:
        """Keep a reply. Raises OSError when the disk does not take it."""
        key = _key(model, messages, settings)
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        record: dict[str, str | int | bool] = {"key": key, "model": model, "reply": kept.text}
        if kept.prompt_tokens or kept.sampled_tokens:
            record |= {"prompt_tokens": kept.prompt_tokens, "sampled_tokens": kept.sampled_tokens}
        if kept.cut:
            record["cut"] = True
        if kept.is_estimated:
            record["estimated"] = True
        handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                json.dump(record, file, ensure_ascii=False)
            Path(partial).replace(path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key[2:]}.json"


def _key(model: str, messages: Sequence[Message], settings: Sequence[float]) -> str:
    record = [_FORMAT, model, [[message.role.value, message.content] for message in messages], *settings]
    return hashlib.sha256(json.dumps(record).encode("ascii")).hexdigest()
