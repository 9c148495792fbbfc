"""Who acts and who judges in a run: tools over worlds, a sampler that gets the weights of each update, judges, page readers.

:func:`opened_acting` opens them in every process of a run, in its event loop, and closes them with it. The sampler is the
trainer's own module, a copy of it, or a vLLM server, as ``rl.pipeline.placement`` says; rollouts are the
one agent loop's. Everything is checked before, by `prepare`; torch is imported when a live module is connected.
"""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.agent.places import opened_places, opened_reader
from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, SystemClock
from sanderling.judge.verdict import Code, Judge, patiently_rule_on
from sanderling.policy.budget import Spending
from sanderling.policy.contract import Gate, Policy, PolicyOutageError, WeightSync
from sanderling.policy.load import close_policy, is_endpoint, models_at, open_policy, place_of
from sanderling.rl.config import Placement, RlRecipe
from sanderling.rl.rollouts import Actor, Ask, Score, ScorerAwayError
from sanderling.runs.run import Run, Table

if TYPE_CHECKING:
    from sanderling.policy.endpoint import CompletionEndpointPolicy
    from sanderling.policy.weight_sync import VllmServer
    from sanderling.train.team import Team

WEIGHTS = "weights"
"""Where, in a run's directory, a server finds each version."""
_AWAY = frozenset({Code.OUTAGE, Code.BUDGET})


def score_by(judge: Judge, pauses: Sequence[float] = (1.0, 2.0)) -> Score:
    """A rollout's outcome by a judge: 1 right, 0 wrong, None unscored; asked again after each pause while that may help.

    Raises ScorerAwayError when the judge was not reached.
    """

    async def score(trajectory: Trajectory) -> float | None:
        verdict = await patiently_rule_on(trajectory, judge, pauses)
        if verdict.code in _AWAY:
            raise ScorerAwayError(verdict.reason)
        return None if verdict.correct is None else float(verdict.correct)

    return score


@asynccontextmanager
async def opened_judge(
    specs: Sequence[str], spending: "Spending", verdicts: Table, concurrency: int
) -> AsyncIterator[Judge | None]:
    """The judges in their order as one, None for nobody, and where their verdicts are kept; the account is open."""
    if not specs:
        yield None
        return
    from sanderling.judge.book import CachedJudge, VerdictBook
    from sanderling.judge.opening import JudgeConfig, opened_judges

    async with opened_judges(JudgeConfig(judges=tuple(specs)), spending, concurrency=concurrency) as (judge, _):
        yield judge and CachedJudge(judge, VerdictBook(verdicts))


async def check_served(spec: str, name: str, needed: int = 0) -> None:
    """Raises UserError where a server has other models than ``name``, or takes contexts shorter than ``needed`` tokens.

    One that does not answer yet is warned of: it is waited for. What it does not say is not held against it.
    """
    try:
        served = await models_at(spec)
    except PolicyOutageError as error:
        reason = str(error).removesuffix(".")
        warnings.warn(f"The model {name} does not answer yet ({reason}): rollouts will wait for it.", stacklevel=2)
        return
    if served and name not in served:
        raise UserError(f"{place_of(spec)} serves {', '.join(served)} and no {name!r}: name one of them.")
    room = served.get(name)
    if room is not None and room < needed:
        raise UserError(
            f"{place_of(spec)} takes contexts of {room:,} tokens (max_model_len), and rollouts may have {needed:,}: "
            f"start it with --max-model-len {needed}, or set rollout.context_tokens={room}."
        )


# -- samplers --------------------------------------------------------------------------------------------------------------


def served_spec(recipe: RlRecipe, model_dir: Path) -> str:
    """A served model, token by token, as policies are named. Raises UserError where the settings do not name it."""
    sampler = recipe.sampler
    if not sampler.endpoint or not sampler.served:
        raise UserError(
            "The model is to be served, and nobody says where: give --endpoint http://host:port/v1#model, "
            "or set rl.pipeline.placement=turns."
        )
    if not is_endpoint(sampler.endpoint) or set("?#") & set(sampler.endpoint):
        raise UserError(f"{sampler.endpoint!r} is no address of a server: write http://host:port/v1.")
    return f"{sampler.endpoint}?tokenizer={model_dir}#{sampler.served}"


def server_of(
    recipe: RlRecipe, model_dir: Path, directory: Path, closing: AsyncExitStack
) -> "tuple[CompletionEndpointPolicy, VllmServer]":
    """The served model, and how it gets weights through files in a directory; ``closing`` closes both. Raises UserError."""
    from sanderling.policy.endpoint import CompletionEndpointPolicy, HttpClient
    from sanderling.policy.weight_sync import VllmServer, WeightFiles

    policy = open_policy(served_spec(recipe, model_dir))
    closing.push_async_callback(close_policy, policy)
    assert isinstance(policy, CompletionEndpointPolicy), "a tokenizer is named"
    root = HttpClient(recipe.sampler.endpoint.rstrip("/").removesuffix("/v1"), os.environ.get("OPENAI_API_KEY"))
    closing.push_async_callback(root.aclose)
    files = WeightFiles((directory / WEIGHTS).resolve(), like=model_dir)
    return policy, VllmServer(root, policy, files, sleeps=recipe.sampler.sleeps)


class Together:
    """One server of many processes: it sleeps and takes weights only when all of them are ready.

    Rank 0 speaks to the server. The others keep their turns back until it says, over the team, that the server is asleep, awake
    again, or has the new weights. See `policy.contract.WeightSync`.
    """

    def __init__(self, server: WeightSync, gate: Gate, team: "Team", *, sleeps: bool) -> None:
        """``gate``: the one that this process' turns pass on their way to the server."""
        self._server, self._gate, self._team, self._sleeps = server, gate, team, sleeps
        self._leads = team.rank == 0

    @property
    def version(self) -> int:
        return self._server.version

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        """Nothing, or where the server sleeps: it is put to sleep once no rank has a turn under way."""
        if not self._sleeps:
            yield
            return
        async with self._gate.closed(empty=True):
            await self._all()
            async with self._server.training() if self._leads else nullcontext():
                await self._all()
                yield
                await self._all()
            await self._all()  # it is awake

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Every rank hears the version when the server has it; turns sent before carry the one before."""
        if self._leads:
            await self._server.publish(weights, version)
        await self._all()
        if not self._leads:
            await self._server.publish(None, version)

    async def _all(self) -> None:
        """Until every rank is here; tools go on meanwhile."""
        await asyncio.to_thread(self._team.gather, None)


def acting(agent: Agent, sync: WeightSync, journal: Journal, seed: int, score: Score | None = None) -> Actor:
    """The actor that an agent is, whose rollouts under way a journal keeps."""

    async def rollout(ask: Ask) -> Trajectory:
        seeds = Seeds(run=seed, episode=ask.seed, attempt=ask.attempt)
        return await agent.run(ask.question, seeds, journal=journal, finish_early=ask.finish_early)

    return Actor(rollout, sync, journal.stored, score, journal.forget)


# -- all of them together --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened_acting(
    recipe: RlRecipe, profile: Profile, questions: Sequence[Question], model_dir: Path, directory: Path, team: Any
) -> AsyncIterator[Callable[[Any], Actor]]:
    """Everything that this process acts with: what makes the actor of a live module. Raises UserError."""
    rl, sampler = recipe.rl, recipe.sampler
    served = rl.pipeline.placement is Placement.SERVED
    under_way = rl.under_way(team.size)
    if served:
        await check_served(sampler.endpoint, sampler.served, profile.budgets.max_context_tokens)
    async with AsyncExitStack() as stack:
        spending = Spending(directory, rank=team.rank, locked=True)
        stack.enter_context(spending.alone())
        run = stack.enter_context(Run(directory, rank=team.rank, locked=True))
        judging = opened_judge(recipe.judges, spending, run.table("verdicts"), under_way)
        judge = await stack.enter_async_context(judging)
        reading = recipe.reader.model_copy(update={"cache": recipe.reader.cache or directory / "extracts"})
        reader = await stack.enter_async_context(opened_reader(reading))
        how = {"reader": reader, "charge": spending.ledger.pay}
        places = await stack.enter_async_context(opened_places(recipe, profile, questions, **how))
        journal = stack.enter_context(Journal(directory, across_versions=True, rank=team.rank, locked=True))
        clock, one = SystemClock(recipe.as_of) if recipe.date is None else FixedClock(recipe.date), next(iter(places.values()))

        def connect(model: Any) -> Actor:
            from sanderling.policy.transformers_policy import TransformersPolicy
            from sanderling.policy.weight_sync import Copying, InPlace, copied

            policy: Policy
            sync: WeightSync
            if served:
                policy, sync = server_of(recipe, model_dir, directory, stack)
                if team.size > 1:
                    sync = Together(sync, policy.gate, team, sleeps=sampler.sleeps)
            else:
                beside = rl.pipeline.placement is Placement.BESIDE
                module, batch = copied(model) if beside else model, sampler.sessions or under_way
                policy = TransformersPolicy(module, load_tokenizer(model_dir), name="rl", max_batch=batch)
                sync = Copying(policy) if beside else InPlace(policy)
            named = {} if "" in places else places
            agent = Agent(policy, one.tools, profile, clock, one.name, one.fingerprint, places=named)
            return acting(agent, sync, journal, rl.seed, score_by(judge) if judge else None)

        yield connect
