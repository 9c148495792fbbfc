"""Who acts in a run: a sampler that gets the weights of each update, tools over worlds, judges, and what was begun before.

Opened in every process of a run, in its event loop, and closed with it. The sampler is the trainer's own module, a copy of it
in the same process, or a vLLM server, as ``rl.pipeline.placement`` says; rollouts are the one agent loop's. Knows no training.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Clock, FixedClock, SystemClock
from sanderling.policy.contract import Policy, PolicyOutageError, WeightSync
from sanderling.policy.load import close_policy, is_endpoint, models_at, open_policy
from sanderling.policy.request_client import ReplyCache
from sanderling.recipes.rl.config import RlRecipe, Stage
from sanderling.recipes.rl.judging import opened_judge, score_by
from sanderling.recipes.rl.places import Dynamics, Places, directories
from sanderling.recipes.rl.plan import context_name
from sanderling.recipes.rl.seldom import Seldom
from sanderling.rl.config import Placement
from sanderling.rl.contract import Actor, Ask, Score
from sanderling.tools.page_reader import OnOutage, PageReader, reader_over

if TYPE_CHECKING:
    from sanderling.policy.endpoint import CompletionEndpointPolicy
    from sanderling.policy.weight_sync import VllmServer

WEIGHTS = "weights"
"""Where, in a stage's directory, a server finds each version."""
NAME = "rl"
"""What records call the model that is trained."""


@dataclass(frozen=True)
class Acting:
    """What a process of a run acts with."""

    recipe: RlRecipe
    stage: Stage
    model_dir: Path
    directory: Path
    """The stage's."""
    places: Places
    journal: Journal
    score: Score | None
    batch: int
    """Turns sampled together at most, in this process."""
    team: Any
    closing: AsyncExitStack

    def connect(self, model: Any) -> Actor:
        """The actor of a live module."""
        policy, sync = self._sampler(model)
        clock, seed = clock_of(self.recipe), self.stage.rl.seed

        async def rollout(ask: Ask) -> Trajectory:
            place = self.places.of(ask.question)
            agent = Agent(policy, place.tools, self.stage.profile, clock, place.name, place.fingerprint)
            seeds = Seeds(run=seed, episode=ask.seed, attempt=ask.attempt)
            return await agent.run(ask.question, seeds, journal=self.journal, finish_early=ask.finish_early)

        return Actor(rollout, sync, self.journal.stored, self.score, self.journal.forget)

    def _sampler(self, model: Any) -> tuple[Policy, WeightSync]:
        from sanderling.policy.transformers_policy import TransformersPolicy
        from sanderling.policy.weight_sync import Copying, InPlace, copied

        placement, again = self.stage.rl.pipeline.placement, self.recipe.sampler.reprefill_stale
        if placement is Placement.SERVED:
            return self._served()
        module = copied(model) if placement is Placement.BESIDE else model
        tokenizer = load_tokenizer(self.model_dir)
        policy = TransformersPolicy(module, tokenizer, name=NAME, max_batch=self.batch, reprefill_stale=again)
        return policy, Copying(policy) if placement is Placement.BESIDE else InPlace(policy)

    def _served(self) -> tuple[Policy, WeightSync]:
        from sanderling.recipes.rl.together import Together

        policy, server = server_of(self.recipe, self.model_dir, self.directory, self.closing)
        if self.team.size == 1:
            return policy, server
        return policy, Together(server, policy.gate, self.team, sleeps=self.recipe.sampler.sleeps)


def server_of(
    recipe: RlRecipe, model_dir: Path, directory: Path, closing: AsyncExitStack
) -> "tuple[CompletionEndpointPolicy, VllmServer]":
    """The served model, and how it gets weights through files in a directory; ``closing`` closes both. Raises UserError."""
    from sanderling.policy.endpoint import CompletionEndpointPolicy, HttpClient
    from sanderling.policy.weight_sync import VllmServer, WeightFiles

    policy = open_policy(served_spec(recipe, model_dir), on_retry=Seldom())
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
            f"start it with --max-model-len {needed}, or set {context_name(stage)}={room}."
        )


def served_spec(recipe: RlRecipe, model_dir: Path) -> str:
    """A served model, token by token, as policies are named. Raises UserError where the settings do not name it."""
    sampler = recipe.sampler
    if not sampler.endpoint or not sampler.served:
        raise UserError(
            "The model is to be served, and nobody says where: give --endpoint http://host:port/v1 and --model-served NAME, "
            "or set rl.pipeline.placement=turns."
        )
    if not is_endpoint(sampler.endpoint) or set("?#") & set(sampler.endpoint):
        raise UserError(f"{sampler.endpoint!r} is no address of a server: write http://host:port/v1.")
    return f"{sampler.endpoint}?tokenizer={model_dir}#{sampler.served}"


def clock_of(recipe: RlRecipe) -> Clock:
    """The date that agents see."""
    return SystemClock() if recipe.date is None else FixedClock(recipe.date)


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
        extractor = await stack.enter_async_context(opened_reader(recipe.extractor, directory))
        found = directories(recipe.worlds, questions)
        places = Places(found, stage.profile, Dynamics(recipe.dynamics, recipe.world_seed), extractor)
        journal = stack.enter_context(Journal(directory, across_versions=True, rank=team.rank, locked=True))
        score = None if judge is None else score_by(judge)
        batch = recipe.sampler.sessions or under_way
        yield Acting(recipe, stage, model_dir, directory, places, journal, score, batch, team, stack)


@asynccontextmanager
async def opened_reader(spec: str, directory: Path) -> AsyncIterator[PageReader | None]:
    """The model that reads pages; its replies are kept in the run's directory. An outage of it leaves a rollout unscored."""
    if not spec:
        yield None
        return
    check_reader(spec)
    policy = open_policy(spec, on_retry=Seldom())
    try:
        yield reader_over(policy, ReplyCache(directory / "extracts"), OnOutage.REFUSE)
    finally:
        await close_policy(policy)


def check_reader(spec: str) -> None:
    """Raises UserError for what cannot read pages."""
    if not is_endpoint(spec):
        raise UserError(f"--extractor {spec!r} is no endpoint: write http://host:port/v1#model.")
