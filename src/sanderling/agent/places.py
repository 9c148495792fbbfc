"""Where an agent searches and reads: the section of settings, and the places it opens.

A place is one world, several that questions name in ``meta.world``, or the live web; a page reader may stand before it.
"""

import datetime
import hashlib
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

from sanderling.agent.agent import WORLD, Place
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, load_outside
from sanderling.core.profiles import Profile
from sanderling.core.record import Question
from sanderling.core.text import visible
from sanderling.core.types import SystemClock, placed
from sanderling.policy.load import is_endpoint, place_of
from sanderling.tools.contract import OnOutage, Reader, Tool, tool_roles
from sanderling.tools.mcp.config import ServerConfig, opened_servers
from sanderling.tools.python.sandbox import Rung, SandboxLimits
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Leaks, World
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_as_met, read_manifest
from sanderling.world.filters import AsOfWorld, filtered
from sanderling.world.web.config import LiveConfig

if TYPE_CHECKING:
    from sanderling.agent.evidence import Evidence
    from sanderling.tools.mcp.tools import McpTool
    from sanderling.world.guard import Guard
    from sanderling.world.together import Outgoing
    from sanderling.world.web.live import Charge

_READINGS = 4  # replies of a page reader waited for at the same time, over all pages
NO_PLACE = (
    "Name a place to search: documents with --docs FOLDER, a world with --world DIRECTORY, the web with --web, a tool "
    "server with --mcp, or a dock with --dock."
)
Notice = Callable[[str], None]
"""Called with one log line."""


class ReaderConfig(Frozen):
    """A model that reads visited pages for the agent (see `tools.page_reader`)."""

    model: str = ""
    """``http://host:port/v1#model``, or your own, ``file.py:name``; empty: passages are chosen without a model."""
    cache: Path | None = None
    """Where its replies are kept; in the user's cache directory by default."""
    on_outage: OnOutage | None = None
    """If it cannot be reached: go on without it (``fall-back``, as in ``ask``) or end the episode unscored (``refuse``)."""

    @field_validator("model")
    @classmethod
    def _is_known(cls, model: str) -> str:
        if model and not is_endpoint(model) and not is_outside(model):
            raise ValueError(f"there is no page reader {model!r}: write http://host:port/v1#model, or file.py:name")
        return model


class PlaceConfig(Frozen):
    """Where an agent searches and reads, and how the place behaves."""

    docs: tuple[Path, ...] = ()
    """Folders of documents; each is made a world in the user's cache, and anew when its files have changed."""
    worlds: tuple[Path, ...] = ()
    """A world's directory, or several: all of them are searched, or of each question the one it names in ``meta.world``."""
    web: bool = False
    """Search the live web, as ``live`` says."""
    live: LiveConfig = LiveConfig()
    as_of: datetime.date | None = None
    """Research on this day, ``2024-03-05``: the prompt has its date, and pages that give a later one do not exist."""
    only: str = ""
    """Of several places, ask these alone: ``docs``, ``worlds``, ``web``, or one by its name."""
    prefer: str = ""
    """Of several places, ask these first, and the others where they find nothing; otherwise all are asked together."""
    leaks: Leaks = Leaks.HOLD
    """A query for the web that repeats words of documents or worlds, or a call of a tool on another machine that does of
    documents: ``hold`` it back, ``ask`` whoever waits for the answer, or ``allow`` it."""
    search: SearchMode = SearchMode.LEXICAL
    """Ranking of a world: by words, by embeddings, or by both fused; the last two need ``world embed``."""
    faults: str = ""
    """Simulated delays and failures: a profile's name or a TOML file; empty: none."""
    world_seed: int = 0
    """Equal seeds give equal delays and failures."""
    prompt_injection: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of a world's pages that carry a prompt injection."""
    tools: tuple[str, ...] = ()
    """Tools besides search and visit: ``file.py:name`` or ``package.module:name``."""
    mcp: dict[str, ServerConfig] = Field(default_factory=dict)
    """Tool servers that speak MCP, by name; a world among them is searched as any other."""
    dock: str = ""
    """Address of a dock of tool servers (``sanderling dock up``): its worlds and tools are used."""
    python: Rung = Rung.OFF
    """Where programs of the model run, as a tool ``python``: ``auto``, ``bubblewrap``, ``monty``, ``oci``; ``off``: nowhere."""
    read_file: bool = False
    """A tool ``read_file``, for the files of questions and for those that programs wrote."""
    files: Path | None = None
    """Folder of the files that questions name in ``meta.files``; brings ``read_file``. In ``eval run``, the benchmark's own; in
    ``ask``, all that lie in it."""
    keep: Path | None = None
    """Folder to which files that programs wrote are copied when an episode ends, a folder for each."""
    sandbox: SandboxLimits = SandboxLimits()
    filters: tuple[str, ...] = ()
    """Filters that hide pages from the agent, in a world or on the live web: ``file.py:name``, called with a `World`."""
    reader: ReaderConfig = ReaderConfig()

    @field_validator("dock")
    @classmethod
    def _is_address(cls, dock: str) -> str:
        if dock and not dock.startswith(("http://", "https://")):
            raise ValueError(f"the dock's address {dock!r} has to begin with http:// or https://")
        return dock

    @model_validator(mode="after")
    def _goes_together(self) -> "PlaceConfig":
        if (
            self.web
            and not (self.docs or self.worlds)
            and (self.faults or self.prompt_injection or self.search is not SearchMode.LEXICAL)
        ):
            raise ValueError("faults, prompt injection and ranking are a world's: leave them out without --world")
        if not self.web and self.live != LiveConfig():
            raise ValueError("live is the live web's: give --web with it")
        return self


def reader_identity(config: ReaderConfig, on_outage: OnOutage = OnOutage.REFUSE) -> Any:
    """The page reader as records name it; None: there is none."""
    if not config.model:
        return None
    name = f"{config.model.rpartition('#')[2]}, {(config.on_outage or on_outage).value}"
    return placed(name, [place_of(config.model)])


@asynccontextmanager
async def opened_reader(
    config: ReaderConfig, *, private: bool = False, on_outage: OnOutage = OnOutage.REFUSE, on_close: Notice | None = None
) -> AsyncIterator[Reader | None]:
    """What reads pages for the agent, if anything does; see :func:`opened_agent`. Raises UserError."""
    if not config.model:
        yield None
        return
    if not is_endpoint(config.model):
        yield load_outside(config.model, "page reader", Reader)
        return
    from sanderling.policy.budget import BudgetConfig, Spending
    from sanderling.policy.clients import opened_clients
    from sanderling.tools.page_reader import PageReader, ReadingLimits

    spending = Spending(None, BudgetConfig(cache=config.cache), private=private)
    async with opened_clients([config.model], (), spending, concurrency=_READINGS) as (client,):
        limits = ReadingLimits.within(client.context_length)
        reader = PageReader(client, limits=limits, on_outage=config.on_outage or on_outage)
        try:
            yield reader
        finally:
            if on_close is not None:
                on_close(str(reader.counts))


@asynccontextmanager
async def opened_places(
    config: PlaceConfig,
    profile: Profile,
    questions: Iterable[Question] = (),
    *,
    reader: Reader | None = None,
    evidence: "Evidence | None" = None,
    **how: Any,
) -> AsyncIterator[Mapping[str, Place]]:
    """Where an agent searches, by the names that questions have in ``meta.world``; of one place for all, under an empty name.

    ``evidence`` takes down what places say; for the rest see :func:`opened_worlds`. Raises UserError.
    """
    async with opened_worlds(config, profile, questions, evidence=evidence, **how) as (worlds, further):
        if not worlds and not further:
            raise UserError(NO_PLACE)
        if further and not (profile.general or "{tools}" in profile.system_prompt):
            told = (
                f"The profile {profile.name} tells its model of no tools: it calls {', '.join(further)} if it was trained to."
            )
            warnings.warn(told, stacklevel=2)
        if not worlds:
            named = sorted(f"{tool.spec.name} {tool.spec.parameters}" for tool in further.values())
            yield {"": Place("tools", hashlib.sha256("\n".join(named).encode()).hexdigest(), further)}
            return
        asked = {name: world if evidence is None else evidence.replies_of(world) for name, world in worlds.items()}
        yield {
            name: Place(world.name, world.fingerprint, {**world_tools(world, profile, reader), **further})
            for name, world in asked.items()
        }


@asynccontextmanager
async def _programs(
    config: PlaceConfig, profile: Profile, questions: Iterable[Question], notice: Notice
) -> AsyncIterator[Callable[[bool], dict[str, Tool]]]:
    """The tools that run programs and read files, by whether their world is offline; mostly none."""
    reads = config.read_file or config.files is not None
    if config.python is Rung.OFF and not reads:
        yield lambda offline: {}
        return
    from sanderling.tools.python.opening import opened_programs
    from sanderling.tools.python.sessions import files_of

    files = {} if config.files is None else files_of(questions, config.files)
    how = config.python, reads, config.sandbox, profile, files, SystemClock(config.as_of).today(), notice, config.keep
    async with opened_programs(*how) as programs:
        yield programs


@asynccontextmanager
async def opened_worlds(
    config: PlaceConfig,
    profile: Profile,
    questions: Iterable[Question] = (),
    *,
    notice: Notice = lambda line: None,
    **how: Any,
) -> AsyncIterator[tuple[Mapping[str, World], Mapping[str, Tool]]]:
    """What is searched, by the names that questions have in ``meta.world``, and the tools besides.

    Of one world for all, it is under an empty name; where there are tools alone, there is none. Each world is opened once.
    ``notice`` hears how documents are read; ``on_outgoing`` what is sent to the web, and ``consent`` says whether something
    private is; ``charge`` pays for calls of the web (`world.web.live.Charge`). Raises UserError.
    """
    async with _programs(config, profile, questions, notice) as programs:
        taken = [*tool_roles(profile), *programs(False)]
        async with _searched(config, taken, questions, notice=notice, **how) as (worlds, further):
            still = all(world.offline for world in worlds.values()) if worlds else config.as_of is not None
            yield worlds, {**programs(still), **further}


@asynccontextmanager
async def _searched(
    config: PlaceConfig,
    taken: Iterable[str],
    questions: Iterable[Question],
    *,
    guard: "Guard | None" = None,
    notice: Notice = lambda line: None,
    on_outgoing: "Callable[[Outgoing], None] | None" = None,
    consent: "Callable[[Outgoing], bool]" = lambda call: False,
    evidence: "Evidence | None" = None,
    charge: "Charge | None" = None,
) -> AsyncIterator[tuple[Mapping[str, World], Mapping[str, Tool]]]:
    """As `opened_worlds`, with the tools that others made; those of servers have no ``taken`` name."""
    further: dict[str, Tool] = {tool.spec.name: tool for tool in (load_outside(name, "tool", Tool) for name in config.tools)}
    met = config.faults or None, config.world_seed, config.search, config.prompt_injection

    def kept(world: World) -> World:
        return world if evidence is None else evidence.pages_of(world)

    def dated(world: World) -> World:
        return world if config.as_of is None else AsOfWorld(world, config.as_of)

    def met_here(world: World) -> World:
        return kept(dated(filtered(world, guard=guard, filters=config.filters)))

    def opened(path: Path) -> World:
        return kept(dated(open_as_met(path, *met, guard=guard, filters=config.filters)))

    async with AsyncExitStack() as stack:
        remote: list[World] = []
        tools: list[McpTool] = []
        if config.mcp or config.dock:
            remote, tools = await _of_servers(config, {*taken, *further}, stack, notice)
            further |= {tool.spec.name: tool for tool in tools}
        here = config.worlds or config.docs or config.web
        if not (here or remote) and (config.mcp or config.dock or not questions):
            yield {}, further
            return
        by_name = {world.name: met_here(world) for world in remote}
        if not here and len(remote) > 1 and questions and all(str(one.meta.get(WORLD)) in by_name for one in questions):
            yield by_name, further
            return
        if config.web or config.docs or remote or (len(config.worlds) > 1 and not questions):
            from sanderling.world.together import Together

            several, preferred = await _chosen_worlds(config, remote, opened, met_here, notice, charge, stack)
            together = Together(several, preferred, config.leaks, on_outgoing, consent)
            elsewhere = [tool for tool in tools if tool.away] if config.docs else []
            for tool in elsewhere:
                together.guards_tools, tool.is_held = True, together.keeps
            plain = together.offline and not elsewhere and len(several) == 1
            yield {"": several[0] if plain else together}, further
            return
        if config.only or config.prefer:
            raise UserError("only and prefer choose among several places that every question has: leave them out here.")
        found = world_directories(config.worlds, questions)
        if not found:
            raise UserError(NO_PLACE)
        places = {path: opened(path) for path in dict.fromkeys(found.values())}
        yield {name: places[path] for name, path in found.items()}, further


async def _chosen_worlds(
    config: PlaceConfig,
    remote: Sequence[World],
    opened: Callable[[Path], World],
    met_here: Callable[[World], World],
    notice: Notice,
    charge: "Charge | None",
    stack: AsyncExitStack,
) -> tuple[list[World], int]:
    """Documents, worlds, the web and what servers have, as far as they are asked, in order; and how many are asked first."""
    from sanderling.world.disk.documents import documents_in, documents_world  # brings all that builds worlds

    sources = {source.path: source for source in documents_in(config.docs)}
    folders = {path: source.name for path, source in sources.items()}
    chosen, preferred = chosen_places(config, folders, [world.name for world in remote])
    several: list[World] = []
    for one in chosen:
        if isinstance(one, int):
            several.append(met_here(remote[one]))
        elif one is not None:
            several.append(opened(documents_world(sources[one], notice=notice) if one in sources else one))
        else:
            from sanderling.world.web.live import LiveWeb

            web = await stack.enter_async_context(LiveWeb(config.live, as_of=config.as_of, charge=charge))
            several.append(met_here(web))
    return several, preferred


async def _of_servers(
    config: PlaceConfig, taken: set[str], stack: AsyncExitStack, notice: Notice
) -> "tuple[list[World], list[McpTool]]":
    """The worlds and the other tools of all servers; no two tools have one name, and ``notice`` hears of others than theirs."""
    from sanderling.tools.mcp.tools import found_in

    worlds: list[World] = []
    tools: list[McpTool] = []
    for connection in await stack.enter_async_context(opened_servers(config.mcp, config.dock)):
        allowed = config.mcp[connection.name].tools if connection.name in config.mcp else ()
        its_worlds, its_tools = found_in(connection, allowed, taken | {tool.spec.name for tool in tools})
        worlds += its_worlds
        tools += its_tools
        names = [(tool.spec.name, tool.own_name) for tool in its_tools]
        if any(name != own for name, own in names):
            told = ", ".join(name if name == own else f"{name} (its {own})" for name, own in names)
            notice(visible(f"The model has these tools of {connection.name}: {told}."))
    return worlds, tools


def chosen_places(
    config: PlaceConfig, folders: Mapping[Path, str], served: Sequence[str] = ()
) -> tuple[list[Path | int | None], int]:
    """Worlds of servers (by number), folders (with their names), worlds, the web (None) to ask, and how many first.

    Raises UserError for an unknown name.
    """
    named: dict[Path | int | None, set[str]] = {number: {"mcp", name} for number, name in enumerate(served)}
    named |= {folder: {"docs", folder.name, name} for folder, name in folders.items()}
    named |= {world: {"worlds", world.name, read_manifest(world).name} for world in config.worlds}
    named |= {None: {"web"}} if config.web else {}
    known = sorted(set().union(*named.values()))
    if unknown := [name for name in filter(None, (config.only, config.prefer)) if name not in known]:
        raise UserError(
            f"There is no place {unknown[0]!r} to ask: choose of {', '.join(known)}, or give it with --docs, --world or --web."
        )
    asked = [place for place, names in named.items() if not config.only or config.only in names]
    first = [place for place in asked if config.prefer in named[place]]
    return [*first, *(place for place in asked if place not in first)], len(first)


def world_directories(worlds: Sequence[Path], questions: Iterable[Question]) -> dict[str, Path]:
    """Each question's world by the name that its ``meta`` has; a single given world is everybody's, under an empty name.

    Raises UserError for a question without a world, a world that is not there, and two worlds of one name.
    """
    if len(worlds) == 1:
        own = {"", read_manifest(worlds[0]).name}
        named = dict.fromkeys(str(one.meta.get(WORLD) or "") for one in questions)
        others = [name for name in named if name not in own and Path(name).resolve() != worlds[0].resolve()]
        if others:
            told = f"Questions that were made for another world ({', '.join(others[:3])}) are asked in {worlds[0]}"
            warnings.warn(f"{told}: their answers may not be there.", stacklevel=1)
        return {"": worlds[0]}
    known: dict[str, Path] = {}
    for world in worlds:
        name = read_manifest(world).name
        if name in known:
            raise UserError(f"{known[name]} and {world} are both worlds named {name!r}: leave one out.")
        known[name] = world
    found: dict[str, Path] = {}
    for question in questions:
        name = str(question.meta.get(WORLD) or "")
        if not name:
            raise UserError(f"Question {question.id!r} names no world: give one with --world, or name it in meta.{WORLD}.")
        found[name] = known.get(name) or Path(name)
        if not found[name].is_dir():
            raise UserError(f"Question {question.id!r} is about the world {name!r}, which is not there: give it with --world.")
    return found
