"""Who researches: the one section of settings from which every stage opens its agent.

    class EvalConfig(Frozen):
        agent: AgentConfig

    async with opened_agent(config.agent, questions) as agent:
        trajectory = await agent.run(question)

A model is a directory, an endpoint, or a script; where it searches is in `places`. Nothing here loads torch unless a model is
opened in this process.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from sanderling.agent.agent import Agent
from sanderling.agent.places import (
    NO_PLACE,
    Notice,
    PlaceConfig,
    opened_places,
    opened_reader,
    reader_identity,
    world_directories,
)
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, check_all
from sanderling.core.plugins import code_of, load_outside
from sanderling.core.profiles import TINY, Profile, get_profile
from sanderling.core.record import Question
from sanderling.core.types import Clock, SystemClock
from sanderling.policy.budget import BudgetConfig, MeteredPolicy, Prices, Spending, known_price, read_prices
from sanderling.policy.contract import Policy
from sanderling.policy.load import check_model, close_policy, is_endpoint, open_policy, place_of, weights_of
from sanderling.tools.contract import OnOutage
from sanderling.world.disk.store import read_manifest

if TYPE_CHECKING:
    from sanderling.agent.evidence import Evidence
    from sanderling.world.guard import Guard
    from sanderling.world.together import Outgoing

SCRIPTS = {"teacher": "sanderling.synth.teacher:scripted"}
"""Scripted models, by prefix (``teacher:…``): the function that builds the policy from the rest of the name and questions."""


class AgentConfig(PlaceConfig):
    """Who researches, and where."""

    model: str = ""
    """A model's directory, ``http://host:port/v1#model``, ``file.py:name``, or ``teacher:SIZE/SEED`` for questions of the
    generated ``encyclopedia:SIZE/SEED`` (either with ``/registers``)."""
    profile: str = ""
    """Prompt, tools and budgets that the model was trained with; empty: ``general`` for an endpoint, else ``tiny``."""
    max_turns: int | None = Field(default=None, ge=1)
    """Most turns of an episode, in place of the profile's."""
    max_context: int | None = Field(default=None, ge=1)
    """Most tokens of context, in place of the profile's."""
    temperature: float | None = Field(default=None, ge=0.0)
    """Of sampling, in place of the profile's; ``general`` leaves it to the server."""
    seed: int = 0
    """Equal seeds give equal episodes."""
    concurrency: int = Field(default=8, ge=1)
    """Episodes at the same time."""
    price: str = ""
    """Price of a million prompt tokens and of a million sampled tokens: ``0.15,0.60``; else as ``prices.toml`` has it."""
    device: str = Field(default="cpu", pattern=r"^(cpu|mps|cuda(:\d+)?)$")
    """Device of a model in this process: ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    dtype: str = Field(default="float32", pattern="^(float32|bfloat16)$")
    """Its precision: ``float32`` or ``bfloat16``."""

    @field_validator("price")
    @classmethod
    def _is_price(cls, price: str) -> str:
        try:
            Prices.read(price or "0,0")
        except UserError as error:
            raise ValueError(str(error).removesuffix(".")) from error
        return price

    @model_validator(mode="after")
    def _is_here(self) -> "AgentConfig":
        if is_endpoint(self.model) and (self.device, self.dtype) != ("cpu", "float32"):
            raise ValueError("device and dtype are of a model in this process: leave them out for a server")
        return self


class AskConfig(Frozen):
    """Settings of ``sanderling ask``."""

    agent: AgentConfig = AgentConfig()
    spend: str = ""
    """What an answer may take, closing turn included: ``0.20usd``, ``5min``, ``200ktok``, or several with commas."""
    budget: BudgetConfig = BudgetConfig()
    """What the models of this process may take together."""
    out: Path | None = None
    """JSONL file to which the trajectory is appended; an interrupted episode is kept beside it, and resumed."""
    report: Path | None = None
    """Write a report instead of an answer, part by part, to this file: ``.md`` or ``.html``."""
    save: bool = True
    """Keep the question as a session, which can be shown, resumed, continued and exported."""
    record: Path | None = None
    """JSONL file to which every tool call is appended, with its result, status and latency."""

    @field_validator("spend")
    @classmethod
    def _is_spend(cls, spend: str) -> str:
        from sanderling.agent.spend import Limits  # brings the loop, which settings do without

        try:
            Limits.read(spend)
        except UserError as error:
            raise ValueError(str(error).removesuffix(".")) from error
        return spend

    @model_validator(mode="after")
    def _report_is_kept(self) -> "AskConfig":
        if self.report is not None and self.report.suffix not in (".md", ".html"):
            raise ValueError(f"a report is written to a file that ends in .md or .html, not to {self.report}")
        if self.report is not None and not (self.save and self.out is None):
            raise ValueError("a report is kept as a session: leave --no-save and --out out, and export its records afterwards")
        return self


def price_of(config: AgentConfig) -> Prices | None:
    """What the model costs, nothing if it runs in this process; None: unknown. Raises UserError."""
    return known_price(config.price, config.model.rpartition("#")[2]) or (None if is_endpoint(config.model) else Prices())


def profile_of(config: AgentConfig) -> Profile:
    """The profile that an agent speaks, with its budgets. Raises UserError."""
    profile = get_profile(config.profile or ("general" if is_endpoint(config.model) else TINY.name))
    asked = {"max_turns": config.max_turns, "max_context_tokens": config.max_context}
    budgets = profile.budgets.model_copy(update={name: most for name, most in asked.items() if most})
    if budgets.max_context_tokens <= budgets.answer_reserve_tokens:
        raise UserError(
            f"A context of {budgets.max_context_tokens} tokens leaves no room: {profile.name} keeps "
            f"{budgets.answer_reserve_tokens} for an answer, so give more than that with --set agent.max_context."
        )
    sampling = {} if config.temperature is None else {"temperature": config.temperature}
    return profile.model_copy(update={"budgets": budgets, "sampling": profile.sampling.model_copy(update=sampling)})


def fitted(profile: Profile, context: int | None) -> Profile:
    """A general profile for a model that sees so many tokens: turns, pages and the kept answer take their share of few."""
    if not profile.general or context is None:
        return profile
    most = min(context, profile.budgets.max_context_tokens)
    reserve = min(profile.budgets.answer_reserve_tokens, most // 8)
    budgets = profile.budgets.model_copy(update={"max_context_tokens": most, "answer_reserve_tokens": reserve})
    sampling = profile.sampling.model_copy(update={"max_tokens": min(profile.sampling.max_tokens, most // 4)})
    words = min(profile.visit_words, most // 16)
    return profile.model_copy(update={"budgets": budgets, "sampling": sampling, "visit_words": words})


def check_agent(config: AgentConfig, questions: Sequence[Question] = ()) -> None:
    """Refuse all that is wrong before anything is opened: no model, no such profile, no world to search. Raises UserError."""

    def check_it() -> None:
        if not config.model:
            raise UserError("There is no model to ask: give --model, a directory, http://host:port/v1#model, or file.py:name.")
        if config.model.partition(":")[0] not in SCRIPTS:
            check_model(config.model)

    def check_place() -> None:
        for folder in config.docs:
            if not folder.is_dir():
                its = ", not one of them" if folder.is_file() else ""
                raise UserError(f"There is no folder {str(folder)!r}: give --docs the folder that holds your documents{its}.")
        if config.docs or config.web or config.mcp or config.dock or len(config.worlds) == 1 or not questions:
            for world in config.worlds:
                read_manifest(world)
            if not (config.docs or config.web or config.worlds or config.mcp or config.dock):
                raise UserError(NO_PLACE)
        else:
            world_directories(config.worlds, questions)  # refuses questions that name none

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
    notice: Notice = lambda line: None,
    on_outgoing: "Callable[[Outgoing], None] | None" = None,
    consent: "Callable[[Outgoing], bool]" = lambda call: False,
    evidence: "Evidence | None" = None,
) -> AsyncIterator[Agent]:
    """The agent of a section of settings; at the end its connections are closed. Raises UserError.

    ``questions``: what it will be asked, where worlds or a script depend on it. ``spending``: the run's account, from which its
    tokens are paid. ``policy``: instead of the settings' model, closed by whoever opened it. ``guard`` hides what gives a
    question away; what is read for ``private`` questions is kept for its owner alone. ``on_outage``: of the page reader, where
    the settings leave it open. ``notice`` hears how documents are read, and at the end what the page reader did;
    ``on_outgoing`` what is sent to the web, and ``consent`` says whether something private is. ``evidence`` takes down what
    places say.
    """
    if policy is None:
        check_agent(config, questions)
    most = None if spending is None else spending.config.max_cost
    price = price_of(config) or read_prices([], 1, most)[0]
    async with AsyncExitStack() as stack:
        script, _, rest = config.model.partition(":")
        if policy is None and script in SCRIPTS:
            policy, price = load_outside(SCRIPTS[script])(rest, questions), Prices()
        if policy is None:
            policy = open_policy(config.model, device=config.device, dtype=config.dtype)
            stack.push_async_callback(close_policy, policy)
        if spending is not None:
            stack.enter_context(spending.alone())
            policy = MeteredPolicy(policy, spending.ledger, price)
        profile = fitted(profile_of(config), policy.context_length)
        reader = opened_reader(config.reader, private=private, on_outage=on_outage, on_close=notice)
        reading = await stack.enter_async_context(reader)
        how = {"reader": reading, "guard": guard, "notice": notice}
        how |= {"on_outgoing": on_outgoing, "consent": consent, "evidence": evidence}
        how |= {"charge": None if spending is None else spending.ledger.pay}
        places = await stack.enter_async_context(opened_places(config, profile, questions, **how))
        first, several = next(iter(places.values())), places if len(places) > 1 else {}
        where = config.model if script in SCRIPTS else place_of(config.model)
        about = first.name, first.fingerprint, where, reader_identity(config.reader, on_outage)
        yield Agent(policy, first.tools, profile, clock or SystemClock(config.as_of), *about, several, code_of(config))


def journal_identity(config: AgentConfig, agent: Agent) -> str:
    """What episodes depend on and no record shows, for a `Journal`: which weights answer, over which pages, read by whom."""
    model = config.model if config.model.partition(":")[0] in SCRIPTS else weights_of(config.model)
    if is_endpoint(model):  # how it is asked, how often and how long it is waited for, may change
        model = f"{place_of(model)}#{config.model.rpartition('#')[2]}"
    over = " ".join(place.fingerprint for place in agent.places.values()) or agent.fingerprint
    reader = f" read by {config.reader.model}" if config.reader.model else ""
    code = f" by {json.dumps(agent.code)}" if agent.code else ""
    settings = f" with {json.dumps(settings)}" if (settings := agent.tool_settings()) else ""
    return f"{model} over {over}{reader}{settings}{code}"


@contextmanager
def stop_on_interrupt(first: Callable[[], None] | None = None) -> Iterator[asyncio.Event]:
    """An event that the first SIGINT sets; where something is to be done at the ``first``, the second.

    The next one is `asyncio.run`'s own, which cancels the task and interrupts.
    """
    stop, loop, before = asyncio.Event(), asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    deeds = [] if first is None else [first]

    def leave() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    def interrupted() -> None:
        if deeds:
            deeds.pop()()
            return
        stop.set()
        leave()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        leave()
