"""Who researches, and where: the one section of settings from which every stage opens its agent.

    class EvalConfig(Frozen):
        agent: AgentConfig

    async with opened_agent(config.agent, questions) as agent:
        trajectory = await agent.run(question)

A model is a directory, an endpoint, or a script; a place is one world, several that questions name in ``meta.world``, or the
live web. Nothing here loads torch unless a model is opened in this process.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, field_validator, model_validator

from sanderling.agent.agent import WORLD, Agent, Place
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, check_all
from sanderling.core.plugins import is_outside, load_outside
from sanderling.core.profiles import PROFILES, TINY, Profile, get_profile
from sanderling.core.record import Question
from sanderling.core.types import Clock, SystemClock, placed
from sanderling.policy.budget import BudgetConfig, MeteredPolicy, Prices, Spending, read_prices
from sanderling.policy.contract import Policy
from sanderling.policy.load import check_model, close_policy, is_endpoint, open_policy, place_of, weights_of
from sanderling.tools.contract import OnOutage, Reader, Tool
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import World
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_as_met, read_manifest
from sanderling.world.filters import filtered

if TYPE_CHECKING:
    from sanderling.world.guard import Guard

SCRIPTS = {"teacher": "sanderling.synth.chains:scripted"}
"""Scripted models, by prefix (``teacher:…``): the function that builds the policy from the rest of the name and questions."""
_READINGS = 4  # replies of a page reader waited for at the same time, over all pages
_NO_PLACE = "Name one place to search: a world with --world DIRECTORY, or the live web with --web."
Notice = Callable[[str], None]
"""Called with one log line."""
Made = TypeVar("Made")


class ReaderConfig(Frozen):
    """A model that reads visited pages for the agent (see `tools.page_reader`)."""

    model: str = ""
    """``http://host:port/v1#model``, or a reader of one's own, ``file.py:name``; empty: pages are cut without a model."""
    cache: Path | None = None
    """Where its replies are kept; in the user's cache directory by default."""
    on_outage: OnOutage | None = None
    """When it cannot be reached: do without it (``fall-back``, so ``ask``), or end the episode unscored (``refuse``)."""

    @field_validator("model")
    @classmethod
    def _is_known(cls, model: str) -> str:
        if model and not is_endpoint(model) and not is_outside(model):
            raise ValueError(f"there is no page reader {model!r}: write http://host:port/v1#model, or file.py:name")
        return model


class PlaceConfig(Frozen):
    """Where an agent searches and reads, and how the place behaves."""

    worlds: tuple[Path, ...] = ()
    """The directory of a world, or of several whose names questions have in ``meta.world``."""
    web: bool = False
    """Ask the live web instead, through Serper and Jina Reader."""
    search_url: str = ""
    """Of the live web: another service that answers as Serper does (SERPER_API_KEY)."""
    reader_url: str = ""
    """Of the live web: another service that answers as Jina Reader does (JINA_API_KEY)."""
    search: SearchMode = SearchMode.LEXICAL
    """How a world ranks: by words, by nearness, or by both fused; the last two want ``world embed``."""
    faults: str = ""
    """Delays and failures of a world: a profile's name or a TOML file; empty: none."""
    world_seed: int = 0
    """Equal seeds give equal delays and failures."""
    prompt_injection: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of a world's pages that order their reader about."""
    tools: tuple[str, ...] = ()
    """Further tools beside search and visit: ``file.py:name`` or ``package.module:name``."""
    filters: tuple[str, ...] = ()
    """What hides pages from the agent, in a world or on the live web: ``file.py:name``, called with the place as a `World`."""
    reader: ReaderConfig = ReaderConfig()

    @model_validator(mode="after")
    def _goes_together(self) -> "PlaceConfig":
        if self.web and self.worlds:
            raise ValueError("name one place to search: a world with --world DIRECTORY, or the live web with --web")
        if self.web and (self.faults or self.prompt_injection or self.search is not SearchMode.LEXICAL):
            raise ValueError("faults, prompt injection and ranking are a world's: leave them out with --web")
        if not self.web and (self.search_url or self.reader_url):
            raise ValueError("search_url and reader_url are the live web's: give --web with them, and no --world")
        return self


class AgentConfig(PlaceConfig):
    """Who researches, and where."""

    model: str = ""
    """A model's directory, ``http://host:port/v1#model``, ``file.py:name``, or ``teacher:SIZE/SEED`` for questions of the
    generated ``encyclopedia:SIZE/SEED``."""
    profile: str = ""
    """Prompt, tools and budgets that the model was trained with; empty: ``tiny``, but not for an endpoint."""
    max_turns: int | None = Field(default=None, ge=1)
    """Most turns, instead of the profile's number."""
    max_context: int | None = Field(default=None, ge=1)
    """Most tokens of context, instead of the profile's number."""
    seed: int = 0
    """Equal seeds give equal episodes."""
    concurrency: int = Field(default=8, ge=1)
    """Episodes at the same time."""
    price: str = ""
    """What a million prompt and sampled tokens cost: ``0.15,0.60``."""
    device: str = Field(default="cpu", pattern=r"^(cpu|mps|cuda(:\d+)?)$")
    """Where a model of this process runs: ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    dtype: str = "float32"
    """What it computes in: ``float32`` or ``bfloat16``."""

    @field_validator("price")
    @classmethod
    def _is_price(cls, price: str) -> str:
        try:
            Prices.read(price or "0,0")
        except UserError as error:
            raise ValueError(str(error).removesuffix(".")) from error
        return price


class AskConfig(Frozen):
    """Settings of ``sanderling ask``."""

    agent: AgentConfig = AgentConfig()
    budget: BudgetConfig = BudgetConfig()
    """What the models of this process may take together."""
    out: Path | None = None
    """The JSONL store that the trajectory is appended to; beside it, until the end, what an interrupted one goes on with."""
    record: Path | None = None
    """The JSONL file that every tool call is appended to, with its result, status and latency."""


def profile_of(config: AgentConfig) -> Profile:
    """The profile that an agent speaks, with its budgets. Raises UserError, also where an endpoint has none."""
    if not config.profile and is_endpoint(config.model):
        raise UserError(f"Name the profile that {config.model} was trained with: --profile with one of {', '.join(PROFILES)}.")
    profile = get_profile(config.profile or TINY.name)
    asked = {"max_turns": config.max_turns, "max_context_tokens": config.max_context}
    budgets = profile.budgets.model_copy(update={name: most for name, most in asked.items() if most})
    if budgets.max_context_tokens <= budgets.answer_reserve_tokens:
        raise UserError(
            f"A context of {budgets.max_context_tokens} tokens leaves no room: {profile.name} keeps "
            f"{budgets.answer_reserve_tokens} for an answer, so give more than that with --set agent.max_context."
        )
    return profile.model_copy(update={"budgets": budgets})


def check_agent(config: AgentConfig, questions: Sequence[Question] = ()) -> None:
    """Refuse all that is wrong before anything is opened: no model, no such profile, no world to search. Raises UserError."""

    def check_it() -> None:
        if not config.model:
            raise UserError("There is no model to ask: give --model, a directory, http://host:port/v1#model, or file.py:name.")
        if config.model.partition(":")[0] not in SCRIPTS:
            check_model(config.model)

    def check_place() -> None:
        if len(config.worlds) == 1:
            read_manifest(config.worlds[0])
        elif not config.web and not world_directories(config.worlds, questions):
            raise UserError(_NO_PLACE)

    check_all(check_it, lambda: profile_of(config), check_place)


@asynccontextmanager
async def opened_agent(
    config: AgentConfig,
    questions: Sequence[Question] = (),
    *,
    spending: Spending | None = None,
    policy: Policy | None = None,
    clock: Clock | None = None,
    guard: "Guard | None" = None,
    private: bool = False,
    on_outage: OnOutage = OnOutage.REFUSE,
    on_close: Notice | None = None,
) -> AsyncIterator[Agent]:
    """The agent of a section of settings; at the end its connections are closed. Raises UserError.

    ``questions``: what it will be asked, where worlds or a script depend on it. ``spending``: the run's account, from which its
    tokens are paid. ``policy``: instead of the settings' model, closed by whoever opened it. ``guard`` hides what gives a
    question away; what is read for ``private`` questions is kept for its owner alone. ``on_outage``: of the page reader, where
    the settings leave it open. ``on_close`` hears what the page reader did.
    """
    if policy is None:
        check_agent(config, questions)
    profile = profile_of(config)
    most = None if spending is None else spending.config.max_cost
    price = read_prices([config.price] if config.price else [], 1, most)[0]
    async with AsyncExitStack() as stack:
        reader = opened_reader(config.reader, private=private, on_outage=on_outage, on_close=on_close)
        reading = await stack.enter_async_context(reader)
        places = await stack.enter_async_context(opened_places(config, profile, questions, reader=reading, guard=guard))
        script, _, rest = config.model.partition(":")
        if policy is None and script in SCRIPTS:
            policy, price = load_outside(SCRIPTS[script])(rest, questions), Prices()
        if policy is None:
            policy = open_policy(config.model, device=config.device, dtype=config.dtype)
            stack.push_async_callback(close_policy, policy)
        if spending is not None:
            stack.enter_context(spending.alone())
            policy = MeteredPolicy(policy, spending.ledger, price)
        first = next(iter(places.values()))
        yield Agent(
            policy,
            first.tools,
            profile,
            clock or SystemClock(),
            first.name,
            first.fingerprint,
            config.model if script in SCRIPTS else place_of(config.model),
            reader_identity(config.reader, on_outage),
            places if len(places) > 1 else {},
        )


def journal_identity(config: AgentConfig, agent: Agent) -> str:
    """What episodes depend on and no record shows, for a `Journal`: which weights answer, over which pages, read by whom."""
    model = config.model if config.model.partition(":")[0] in SCRIPTS else weights_of(config.model)
    over = " ".join(place.fingerprint for place in agent.places.values()) or agent.fingerprint
    return f"{model} over {over}" + (f" read by {config.reader.model}" if config.reader.model else "")


def reader_identity(config: ReaderConfig, on_outage: OnOutage = OnOutage.REFUSE) -> Any:
    """The page reader as records name it; None: there is none."""
    if not config.model:
        return None
    name = f"{config.model.rpartition('#')[2]}, {(config.on_outage or on_outage).value}"
    return placed(name, [place_of(config.model)])


@asynccontextmanager
async def opened_reader(
    config: ReaderConfig,
    *,
    private: bool = False,
    on_outage: OnOutage = OnOutage.REFUSE,
    on_close: Notice | None = None,
) -> AsyncIterator[Reader | None]:
    """What reads pages for the agent, if anything does; see :func:`opened_agent`. Raises UserError."""
    if not config.model:
        yield None
        return
    if not is_endpoint(config.model):
        yield _outside(config.model, Reader, "page reader: give an object after Reader in tools/contract.py")
        return
    from sanderling.policy.load import opened_clients
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
    guard: "Guard | None" = None,
) -> AsyncIterator[Mapping[str, Place]]:
    """Where an agent searches, by the names that questions have in ``meta.world``; of one place for all, under an empty name.

    Each world is opened once. Raises UserError.
    """
    further = [
        _outside(name, Tool, "tool: give a function under @tool, or an object after tools/contract.py") for name in config.tools
    ]

    def place(world: World) -> Place:
        tools = world_tools(world, profile, reader) | {tool.spec.name: tool for tool in further}
        return Place(world.name, world.fingerprint, tools)

    if config.web:
        from sanderling.world.live import READER_URL, SEARCH_URL, LiveWeb, web_settings

        asked = web_settings(config.search_url or SEARCH_URL, config.reader_url or READER_URL, env=os.environ)
        async with LiveWeb(asked) as web:
            yield {"": place(filtered(web, guard=guard, filters=config.filters))}
        return
    found = world_directories(config.worlds, questions)
    if not found:
        raise UserError(_NO_PLACE)
    opened: dict[Path, Place] = {}
    for path in dict.fromkeys(found.values()):
        world = open_as_met(
            path,
            config.faults or None,
            config.world_seed,
            config.search,
            config.prompt_injection,
            guard=guard,
            filters=config.filters,
        )
        opened[path] = place(world)
    yield {name: opened[path] for name, path in found.items()}


def world_directories(worlds: Sequence[Path], questions: Iterable[Question]) -> dict[str, Path]:
    """Each question's world by the name that its ``meta`` has; a single given world is everybody's, under an empty name.

    Raises UserError for a question without a world, a world that is not there, and two worlds of one name.
    """
    if len(worlds) == 1:
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


def _outside(name: str, kind: type[Made], what: str) -> Made:
    """An object from outside that has what its protocol asks for, made where a class is named. Raises UserError."""
    found = load_outside(name)
    made = found() if isclass(found) else found
    if not isinstance(made, kind):
        raise UserError(f"{name} is no {what}.")
    return made


@contextmanager
def stop_on_interrupt() -> Iterator[asyncio.Event]:
    """An event that the first SIGINT sets; the second one is `asyncio.run`'s own, which cancels the task and interrupts."""
    stop, loop, before = asyncio.Event(), asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)

    def leave() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    def interrupted() -> None:
        stop.set()
        leave()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        leave()
