"""``--extractor``: a model behind an endpoint reads visited pages. How it reads is in ``tools/page_reader.py``."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.watch import show_retry
from sanderling.core.errors import UserError
from sanderling.policy.request_client import ReplyCache
from sanderling.tools.page_reader import Counts, OnOutage, PageReader, reader_over

ExtractorSpec = Annotated[
    str | None,
    typer.Option("--extractor", help="A model that reads visited pages for the agent: http://host:port/v1#model."),
]
ExtractorCache = Annotated[
    Path | None, typer.Option("--extractor-cache", help="Where its replies are kept; in the user's cache directory by default.")
]
ExtractorOutage = Annotated[
    OnOutage, typer.Option("--extractor-outage", help="When it cannot be reached: do without it, or end the episode unscored.")
]


@dataclass(frozen=True)
class ExtractorChoice:
    """The three options as they were given, and whether the questions are private."""

    spec: str
    cache: Path | None = None
    on_outage: OnOutage = OnOutage.FALL_BACK
    private: bool = False
    """What is asked for is not to be published."""


@asynccontextmanager
async def opened_extractor(choice: ExtractorChoice | None, console: Console) -> AsyncIterator[PageReader | None]:
    """The extractor that was chosen, if any; at the end its connections are closed and its counts shown. Raises UserError."""
    from sanderling.policy.load import close_policy, is_endpoint, open_policy  # brings a client of HTTP

    if choice is None:
        yield None
        return
    if not is_endpoint(choice.spec):
        raise UserError(f"--extractor {choice.spec!r} is no endpoint: write http://host:port/v1#model.")
    policy = open_policy(choice.spec, on_retry=partial(show_retry, console))
    cache = ReplyCache(choice.cache or extracts_directory(), private=choice.private)
    extractor = reader_over(policy, cache, choice.on_outage)
    try:
        yield extractor
    finally:
        _show_counts(console, extractor.counts)
        await close_policy(policy)


def _show_counts(console: Console, counts: Counts) -> None:
    """One line on what the extractor did."""
    fallbacks = ", ".join(f"{count} {reason.value}" for reason, count in sorted(counts.fallbacks.items()))
    console.print(
        f"extractor: {counts.pages} pages, {counts.asked} replies asked for and {counts.remembered} remembered, "
        f"{counts.kept} quotes kept and {counts.dropped} dropped; read without it: {fallbacks or 'none'}",
        style="dim", markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip


def extracts_directory() -> Path:
    """Where replies are kept where nobody says."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "sanderling" / "extracts"
