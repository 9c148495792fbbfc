"""``sanderling world visit``: read a page as a person, or as an agent would. Thin."""

import asyncio
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sanderling.cli import exits
from sanderling.cli.extractor import (
    ExtractorCache,
    ExtractorChoice,
    ExtractorOutage,
    ExtractorSpec,
    opened_extractor,
)
from sanderling.cli.world_dynamics import Dynamics, WorldSeed
from sanderling.cli.world_shown import AsProfile, Where, changed, plain, readable
from sanderling.core.profiles import Profile, ResultLayout, get_profile
from sanderling.core.text import visible
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolResult
from sanderling.tools.layouts import parts_note, visit_miss
from sanderling.tools.page_reader import OnOutage
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import VisitReply, World
from sanderling.world.opening import open_as_met

_WORDS = 2_000
_LONGEST_ADDRESS = 300


def visit(
    directory: Where,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a page; URL#page=2: the second part of a long one.")],
    goal: Annotated[str, typer.Option(help="What to look for; without one, the page from its top.")] = "",
    words: Annotated[int | None, typer.Option(min=1, help="Most words shown; 2,000, or the profile's number.")] = None,
    profile: AsProfile = None,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    extractor: ExtractorSpec = None,
    extractor_cache: ExtractorCache = None,
    extractor_outage: ExtractorOutage = OnOutage.FALL_BACK,
) -> None:
    """Show the passages of a page that serve a goal, or a part of it. Exit status 1: the page cannot be read."""
    choice = None if extractor is None else ExtractorChoice(extractor, extractor_cache, extractor_outage)
    with readable(directory):
        opened = open_as_met(directory, dynamics, world_seed)
        if profile is not None:
            chosen = changed(get_profile(profile), visit_words=words)
            result = asyncio.run(_as_agent(opened, chosen, url, goal, choice))
            Console().print(Text(visible(result.text)), soft_wrap=True)
            status = result.status
        else:
            reply = asyncio.run(_as_person(opened, url, goal, words or _WORDS, choice))
            _show(url, reply)
            status = reply.status
    if status is not ToolStatus.OK:
        raise typer.Exit(exits.NO_ANSWER)


async def _as_agent(world: World, profile: Profile, url: str, goal: str, choice: ExtractorChoice | None) -> ToolResult:
    console = Console(stderr=True)
    async with opened_extractor(choice, console) as extractor:
        tool = world_tools(world, profile, extractor)[profile.tools.visit]
        return await tool({profile.tools.visit_url: [url], profile.tools.visit_goal: goal}, ToolContext())


async def _as_person(world: World, url: str, goal: str, words: int, choice: ExtractorChoice | None) -> VisitReply:
    console = Console(stderr=True)
    reply = await world.visit(url, goal, max_words=words)

    async def again(address: str, most: int) -> VisitReply:
        return await world.visit(address, goal, max_words=most)

    async with opened_extractor(choice, console) as extractor:
        if extractor is None:
            return reply
        (read,) = await extractor.read_visits(again, [(url, reply)], goal, words, None)
        return read


def _show(url: str, reply: VisitReply) -> None:
    """The page, or one sentence on standard error."""
    if reply.status is not ToolStatus.OK:
        address = url if len(url) <= _LONGEST_ADDRESS else f"{url[:_LONGEST_ADDRESS]}…"
        said = f"{plain(address) or 'No address'}: {plain(visit_miss(reply, ResultLayout.MARKDOWN))}"
        Console(stderr=True).print(said, soft_wrap=True, highlight=False)
        return
    show = partial(Console().print, highlight=False, soft_wrap=True)
    show(f"[bold]{plain(reply.title)}[/]\n[cyan]{plain(reply.url)}[/]\n")
    show(plain(reply.text))
    if reply.summary:
        show(f"\n[bold]Summary[/] {plain(reply.summary)}")
    if note := parts_note(reply):
        show(f"\n[dim]{plain(note)}[/]")
