"""Writing ``.eval``, Inspect's log as a zip: samples one by one, then their summaries, then the head.

Inspect's own writer wants all samples of a log at once; a run may hold more than the memory does. The layout is that of its
format: ``samples/ID_epoch_N.json``, ``summaries.json``, ``reductions.json``, ``header.json``. Never more than one sample is in
memory. The file appears whole or not at all. What stands in the members is the affair of `package`.
"""

import json
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sanderling.runs.files import refuse_device

Json = dict[str, Any]
_LEVEL = 1
"""Of compression: zip's own default takes seven times as long, for a fifth less."""


class EvalArchive:
    """An ``.eval`` file under way; leaving it by an exception leaves what stood there before.

    Example: ``with EvalArchive(path) as archive: archive.add(...); archive.finish(header, reductions)``
    """

    def __init__(self, path: Path) -> None:
        refuse_device(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._names: set[str] = set()

    def __enter__(self) -> Self:
        self._summaries = tempfile.TemporaryFile()
        self._zip = ZipFile(self._partial, "w", ZIP_DEFLATED)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._summaries.close()
        try:
            self._zip.close()
            if kind is None:
                self._partial.replace(self._path)
        finally:
            self._partial.unlink(missing_ok=True)

    def add(self, id: str, epoch: int, sample: bytes, summary: bytes) -> None:
        """Write a sample. Raises ValueError for one that is there: a reader would find only one of the two."""
        name = f"samples/{id}_epoch_{epoch}.json"
        if name in self._names:
            raise ValueError(f"two samples are called {name!r}")
        self._summaries.write((b"," if self._names else b"[") + summary)
        self._names.add(name)
        self._zip.writestr(_member(name), sample, compresslevel=_LEVEL)

    def finish(self, header: bytes, reductions: bytes) -> None:
        """Write everything that is known only at the end."""
        self._summaries.write(b"]" if self._names else b"[]")
        info = _member("summaries.json")
        info.file_size = self._summaries.tell()  # tells zip whether its 32-bit form will do
        self._summaries.seek(0)
        with self._zip.open(info, "w") as member:
            shutil.copyfileobj(self._summaries, member)
        self._zip.writestr(_member("reductions.json"), reductions)
        self._zip.writestr(_member("header.json"), header)


def encoded(value: Any) -> bytes:
    """JSON as Inspect reads it: NaN is a word of it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _member(name: str) -> ZipInfo:
    """The same bytes whenever it is written; compressed, which a member of its own does not take from its archive."""
    info = ZipInfo(name)
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info
