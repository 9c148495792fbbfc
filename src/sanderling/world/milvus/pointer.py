"""A directory that stands for a world on Milvus, and is accepted wherever a world's directory is.

Beside this manifest lie copies of the world's own manifest, near-duplicates and blocklist (masks need no server), the
settings of its vectors, and the table of words. Knows its shape only.
"""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file

FILE_NAME = "milvus.json"
WORDS = "words.sqlite"


class Pointer(BaseModel):
    """`milvus.json`; written when everything was pushed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    collection: str
    name: str
    """Of the world."""
    fingerprint: str
    """Of its pages."""
    pages: int
    passages_collection: str
    """Empty: without vectors."""
    passages: int = 0


def is_pointer(directory: Path) -> bool:
    """Whether a directory stands for a world on Milvus."""
    return (directory / FILE_NAME).is_file()


def read_pointer(directory: Path) -> Pointer:
    """Raises UserError when it is damaged."""
    try:
        return Pointer.model_validate(json.loads((directory / FILE_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise UserError(f"{directory / FILE_NAME} is damaged: push the world again.") from error


def write_pointer(directory: Path, pointer: Pointer) -> None:
    """Write it, whole or not at all. Raises OSError."""
    replace_file(directory / FILE_NAME, pointer.model_dump_json(indent=2) + "\n", durable=True)
