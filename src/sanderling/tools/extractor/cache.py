"""A model's replies on disk, each under the hash of all that it answers: model, prompt and page.

Any change of the prompt's words, the page's text or the goal is another conversation, and so another key. A reply appears whole
or not at all, whoever else writes at the same time and whenever it is killed; a file that cannot be read is no reply. Knows no
format of replies.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sanderling.errors import UserError
from sanderling.protocol.messages import Message

_FORMAT = 1


class ReplyCache:
    """Replies below a directory, which may be shared by processes."""

    def __init__(self, directory: Path) -> None:
        """Raises UserError when the directory cannot be written."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise UserError(f"Extracts cannot be kept in {directory} ({error.strerror}): choose another directory.") from error
        self._directory = directory

    def get(self, model: str, messages: Sequence[Message]) -> str | None:
        """The reply to a conversation, if it is known."""
        key = _key(model, messages)
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        reply = found.get("reply") if isinstance(found, dict) and found.get("key") == key else None
        return reply if isinstance(reply, str) else None

    def put(self, model: str, messages: Sequence[Message], reply: str) -> None:
        """Keep a reply. Raises OSError when the disk does not take it."""
        key = _key(model, messages)
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                json.dump({"key": key, "model": model, "reply": reply}, file, ensure_ascii=False)
            Path(partial).replace(path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key[2:]}.json"


def _key(model: str, messages: Sequence[Message]) -> str:
    record = [_FORMAT, model, [[message.role.value, message.content] for message in messages]]
    return hashlib.sha256(json.dumps(record).encode("ascii")).hexdigest()
