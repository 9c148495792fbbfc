"""Who acts and who judges in a run: tools over worlds, a sampler that gets the weights of each update, judges, page readers.

:func:`opened_acting` opens them in every process of a run, in its event loop, and closes them with it. The sampler is the
trainer's own module, a copy of it in the same process, or a vLLM server, as ``rl.pipeline.placement`` says; rollouts are the
one agent loop's. Everything is checked before, by `prepare`; torch is imported when a live module is connected.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sanderling.agent.agent import Agent, Place
from sanderling.agent.journal import Journal
from sanderling.agent.opening import PlaceConfig, ReaderConfig, opened_places, opened_reader
from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, SystemClock
from sanderling.judge.book import CachedJudge, VerdictBook
from sanderling.judge.opening import JudgeConfig, opened_judges
from sanderling.judge.verdict import Code, Judge, patiently_rule_on
from sanderling.policy.budget import Spending
from sanderling.policy.contract import Gate, Policy, PolicyOutageError, WeightSync
from sanderling.policy.load import close_policy, is_endpoint, models_at, open_policy
from sanderling.rl.config import Placement, RlRecipe, Stage
from sanderling.rl.contract import Actor, Ask, Score, ScorerAwayError
from sanderling.runs.run import Run
from sanderling.tools.page_reader import OnOutage

if TYPE_CHECKING:
    from sanderling.policy.endpoint import CompletionEndpointPolicy
    from sanderling.policy.weight_sync import VllmServer

WEIGHTS = "weights"
"""Where, in a stage's directory, a server finds each version."""
NAME = "rl"
"""What records call the model that is trained."""
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
async def opened_judge(specs: Sequence[str], directory: Path, concurrency: int, rank: int = 0) -> AsyncIterator[Judge | None]:
    """The judges in their order as one, None for nobody; verdicts and spending are kept in the run of a directory."""
    if not specs:
        yield None
        return
    config, spending = JudgeConfig(judges=tuple(specs)), Spending(directory, rank=rank, locked=True)
    opening = opened_judges(config, spending, concurrency=concurrency)
    with spending.alone(), Run(directory, rank=rank, locked=True) as run:
        async with opening as (judge, _):
            yield judge and CachedJudge(judge, VerdictBook(run.table("verdicts")))


def place_config(recipe: RlRecipe, directory: Path) -> PlaceConfig:
    """Where a run's agents search and read; an outage of the page reader leaves a rollout unscored."""
    reader = ReaderConfig(model=recipe.reader, cache=directory / "extracts", on_outage=OnOutage.REFUSE)
    return PlaceConfig(worlds=recipe.worlds, faults=recipe.faults, world_seed=recipe.world_seed, reader=reader)


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
    if not isinstance(policy, CompletionEndpointPolicy):
        raise UserError(f"{recipe.sampler.endpoint} is no server that takes weights: write http://host:port/v1.")
    root = HttpClient(recipe.sampler.endpoint.rstrip("/").removesuffix("/v1"), os.environ.get("OPENAI_API_KEY"))
    closing.push_async_callback(root.aclose)
    files = WeightFiles((directory / WEIGHTS).resolve(), like=model_dir)
    return policy, VllmServer(root, policy, files, sleeps=recipe.sampler.sleeps)


async def check_room(recipe: RlRecipe, stage: Stage) -> None:
    """Raises UserError where the server serves other models, or takes shorter contexts than rollouts may have.

    What a server does not tell is not held against it: each rollout that it refused would end unscored.
    """
    sampler, needed = recipe.sampler, stage.profile.budgets.max_context_tokens
    try:
        served = await models_at(sampler.endpoint)
    except PolicyOutageError:  # whoever hands it weights will say so, after more patience
        return
    if served and sampler.served not in served:
        raise UserError(f"{sampler.endpoint} serves {', '.join(served)} and no {sampler.served!r}: name one of them.")
    room = served.get(sampler.served)
    if room is not None and room < needed:
        raise UserError(
            f"{sampler.endpoint} takes contexts of {room:,} tokens (max_model_len), and rollouts may have {needed:,}: "
            f"start it with --max-model-len {needed}, or set {stage.context_name}={room}."
        )


class Meeting(Protocol):
    """The part of a team that a shared server needs."""

    @property
    def rank(self) -> int: ...

    def gather(self, value: Any) -> list[Any]:
        """Collective: what every rank hands over."""
        ...


class Together:
    """One server of many processes: it sleeps and takes weights only when all of them are ready.

    Rank 0 speaks to the server. The others keep their turns back until it says, over the team, that the server is asleep, awake
    again, or has the new weights. See `policy.contract.WeightSync`.
    """

    def __init__(self, server: WeightSync, gate: Gate, team: Meeting, *, sleeps: bool) -> None:
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
            if not self._leads:
                await self._all()
                yield
                await self._all()
            else:
                async with self._server.training():
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


# -- all of them together --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Acting:
    """What a process of a run acts with."""

    recipe: RlRecipe
    stage: Stage
    model_dir: Path
    directory: Path
    """The stage's."""
    places: Mapping[str, Place]
    """By the name that questions have in ``meta.world``; of one for all, an empty name."""
    journal: Journal
    score: Score | None
    batch: int
    """Turns sampled together at most, in this process."""
    team: Any
    closing: AsyncExitStack

    def connect(self, model: Any) -> Actor:
        """The actor of a live module."""
        return self.over(*self._sampler(model))

    def over(self, policy: Policy, sync: WeightSync) -> Actor:
        """The actor that samples with a policy."""
        clock = SystemClock() if self.recipe.date is None else FixedClock(self.recipe.date)
        one = next(iter(self.places.values()))
        places = {} if "" in self.places else self.places
        agent = Agent(policy, one.tools, self.stage.profile, clock, one.name, one.fingerprint, places=places)

        async def rollout(ask: Ask) -> Trajectory:
            seeds = Seeds(run=self.stage.rl.seed, episode=ask.seed, attempt=ask.attempt)
            return await agent.run(ask.question, seeds, journal=self.journal, finish_early=ask.finish_early)

        return Actor(rollout, sync, self.journal.stored, self.score, self.journal.forget)

    def _sampler(self, model: Any) -> tuple[Policy, WeightSync]:
        from sanderling.policy.transformers_policy import TransformersPolicy
        from sanderling.policy.weight_sync import Copying, InPlace, copied

        placement, again = self.stage.rl.pipeline.placement, self.recipe.sampler.reprefill_stale
        if placement is Placement.SERVED:
            policy, server = server_of(self.recipe, self.model_dir, self.directory, self.closing)
            sleeps = self.recipe.sampler.sleeps
            return policy, server if self.team.size == 1 else Together(server, policy.gate, self.team, sleeps=sleeps)
        module = copied(model) if placement is Placement.BESIDE else model
        tokenizer = load_tokenizer(self.model_dir)
        policy = TransformersPolicy(module, tokenizer, name=NAME, max_batch=self.batch, reprefill_stale=again)
        return policy, Copying(policy) if placement is Placement.BESIDE else InPlace(policy)


@asynccontextmanager
async def opened_acting(
    recipe: RlRecipe, stage: Stage, questions: Sequence[Question], model_dir: Path, directory: Path, team: Any
) -> AsyncIterator[Acting]:
    """Everything that this process acts with. Raises UserError."""
    rl = stage.rl
    own = -(-rl.questions_per_step // team.size)
    under_way = rl.pipeline.groups_at_once(own, rl.questions_per_step) * rl.group_size
    if rl.pipeline.placement is Placement.SERVED:
        await check_room(recipe, stage)
    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(opened_judge(recipe.judges, directory, under_way, team.rank))
        config = place_config(recipe, directory)
        reader = await stack.enter_async_context(opened_reader(config.reader))
        opening = opened_places(config, stage.profile, questions, reader=reader)
        places = await stack.enter_async_context(opening)
        journal = stack.enter_context(Journal(directory, across_versions=True, rank=team.rank, locked=True))
        score = None if judge is None else score_by(judge)
        batch = recipe.sampler.sessions or under_way
        yield Acting(recipe, stage, model_dir, directory, places, journal, score, batch, team, stack)
