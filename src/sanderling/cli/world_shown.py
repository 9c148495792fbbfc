"""What the commands that read a world have in common: options, and how its texts are shown. Thin."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, Profile
from sanderling.core.text import visible
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.page_reader import ReaderOutageError

Where = Annotated[Path, typer.Argument(metavar="WORLD", help="Directory of a world.")]
AsProfile = Annotated[
    str | None, typer.Option("--profile", help=f"Show what an agent of this profile reads: {', '.join(PROFILES)}.")
]


def changed(profile: Profile, **limits: int | None) -> Profile:
    """The profile with the limits that were given."""
    return profile.model_copy(update={name: value for name, value in limits.items() if value is not None})


@contextmanager
def readable(directory: Path) -> Iterator[None]:
    """A store that breaks while it is read, or a reader that cannot be reached, is told in one sentence."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ToolOutageError, ReaderOutageError) as error:
        if isinstance(error, ReaderOutageError) or isinstance(error.__cause__, ReaderOutageError):
            raise UserError(f"The extractor cannot be reached ({error}): start its server, or leave it out.") from error
        raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error


def plain(text: str) -> str:
    """Text from a world: neither markup nor control characters."""
    return escape(visible(text))
