"""What a world says of itself: `manifest.json`, written last and read first. Knows its shape only.

The manifest names the files that make up the world. They never change once it names them: adding pages writes new files and
then replaces the manifest, so a reader has the world as it was before or as it is after, and nothing between.
"""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file

FORMAT_VERSION = 2
FILE_NAME = "manifest.json"


class WorldCounts(BaseModel):
    """What became of the pages that were given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: int = 0
    kept: int = 0
    not_text: int = 0
    """Of those kept: binary noise, kept by address without a body."""
    empty: int = 0
    duplicate: int = 0
    no_url: int = 0

    def __add__(self, other: "WorldCounts") -> "WorldCounts":
        return WorldCounts(**{name: getattr(self, name) + getattr(other, name) for name in WorldCounts.model_fields})


class LinkCounts(BaseModel):
    """Where the links of pages lead; a link that two pages have counts twice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inside: int = 0
    """To pages of the world."""
    dead: int = 0
    """To pages that the world does not hold, on sites of which it holds others."""
    outside: int = 0
    """To other sites."""

    def __add__(self, other: "LinkCounts") -> "LinkCounts":
        return LinkCounts(**{name: getattr(self, name) + getattr(other, name) for name in LinkCounts.model_fields})


class SourceAccount(BaseModel):
    """What became of the documents of one source; counted up while it is read."""

    model_config = ConfigDict(extra="forbid")

    name: str
    documents: int = 0
    pages: int = 0
    skipped: dict[str, int] = {}
    """By reason (`sources.contract.Reason`)."""
    examples: dict[str, list[str]] = {}
    """Where the first few of each reason are."""


class PagePart(BaseModel):
    """One file of pages, numbered on from the part before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    pages: int
    bytes: int
    """Size of the file, so that a torn copy is noticed."""


class WorldInfo(BaseModel):
    """The manifest of a world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT_VERSION
    name: str
    source: str
    """The builder, and what it was given; what was added later follows."""
    seed: int | None = None
    package: str
    """Version of sanderling that wrote it last."""
    counts: WorldCounts
    links: LinkCounts
    """Each page's as they led when it came in; `links.survey` counts anew."""
    accounts: tuple[SourceAccount, ...] = ()
    """Of each source that was read document by document."""
    generation: int = 0
    """How often pages were added since the build."""
    parts: tuple[PagePart, ...]
    index: str
    """Directory of the full-text index."""
    fingerprint: str
    """SHA-256 over the pages in order, chained: see `pages.Intake`."""

    @property
    def page_count(self) -> int:
        """Pages in all parts."""
        return sum(part.pages for part in self.parts)


def write_manifest(directory: Path, info: WorldInfo) -> None:
    """Write the manifest of a world in place of the one before; it is on the disk when this returns."""
    text = json.dumps(info.model_dump(), ensure_ascii=False, indent=2)
    replace_file(directory / FILE_NAME, text + "\n", durable=True)


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
    except (OSError, ValueError, RecursionError) as error:
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
