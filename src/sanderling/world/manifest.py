"""What a world says of itself: `manifest.json`, written last and read first. Knows its shape only."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.errors import UserError

FORMAT_VERSION = 1
FILE_NAME = "manifest.json"


class WorldCounts(BaseModel):
    """What became of the pages that were given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: int
    kept: int
    not_text: int
    """Of those kept: binary noise, kept by address without a body."""
    empty: int
    duplicate: int
    no_url: int


class WorldInfo(BaseModel):
    """The manifest of a world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT_VERSION
    name: str
    source: str
    """The builder, and what it was given."""
    seed: int | None = None
    package: str
    """Version of sanderling that built it."""
    counts: WorldCounts
    pages_bytes: int
    """Size of the page store, so that a torn copy is noticed."""
    fingerprint: str
    """SHA-256 over the pages in order."""


def write_manifest(directory: Path, info: WorldInfo) -> None:
    """Write the manifest of a world."""
    text = json.dumps(info.model_dump(), ensure_ascii=False, indent=2)
    (directory / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> WorldInfo:
    """Read the manifest of a world. Raises UserError when there is none, or none of this format."""
    if not directory.is_dir():
        raise UserError(f"There is no world at {directory}: build one with `sanderling world build`.")
    try:
        data = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{directory} is not a world (it has no {FILE_NAME}): build one with `sanderling world build`."
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"The manifest of {directory} cannot be read ({error}): build the world again.") from error
    version = data.get("format") if isinstance(data, dict) else None
    if version != FORMAT_VERSION:
        raise UserError(
            f"The world {directory} has format {version}, and this version reads {FORMAT_VERSION}: build the world again."
        )
    try:
        return WorldInfo.model_validate(data)
    except ValidationError as error:
        raise UserError(
            f"The manifest of {directory} is damaged ({error.error_count()} fields): build the world again."
        ) from error
