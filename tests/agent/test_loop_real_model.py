"""The loop over a real, randomly initialised Qwen3 in this process: deltas are all it computes, and seeds decide the bytes."""

from pathlib import Path
from typing import Any

import pytest
from loop_fakes import CLOCK_DAY, ByteTokenizer, echo, fake_profile

from sanderling.agent.agent import Agent, Job
from sanderling.agent.events import Event
from sanderling.agent.journal import Journal
from sanderling.core.record import NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import Ending, FixedClock
from sanderling.policy.contract import Policy
from sanderling.runs.run import Run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PROFILE = fake_profile(budgets={"max_turns": 3}, guards={"max_malformed": 9}, max_tokens=24)
JOBS = [Job(Question(id=f"q{n}", text=f"Which river? {n}"), Seeds(run=4, attempt=n), f"t{n}") for n in range(4)]


@pytest.fixture(scope="module")
def policy() -> Any:
    from sanderling.policy.transformers_policy import TransformersPolicy

    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=258,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=4096,
    )
    return TransformersPolicy(transformers.Qwen3ForCausalLM(config).eval(), ByteTokenizer())


async def run(policy: Policy, **changed: Any) -> list[Trajectory]:
    profile, concurrency = changed.get("profile", PROFILE), changed.get("concurrency", 4)
    return await Agent(policy, {"search": echo()}, profile, FixedClock(CLOCK_DAY)).run_many(JOBS, concurrency=concurrency)


async def test_a_turn_computes_only_what_is_new(policy: Any) -> None:
    for done in await run(policy, concurrency=1):
        branch = done.branch()
        assert done.ending is Ending.NO_ANSWER and sum(node.kind is NodeKind.TURN for node in branch) == 4
        for index, node in enumerate(branch):
            if node.kind is not NodeKind.TURN or index < 3:
                continue
            new = len(branch[index - 1].token_ids or ())
            assert new <= node.prefilled_tokens <= new + 1  # and the token sampled last, which was never computed


class Killed(Exception):
    """The process is gone."""


async def test_a_killed_episode_goes_on_with_the_same_ids(policy: Any, tmp_path: Path) -> None:
    """What was sampled before the kill comes from the journal to the last bit; later logits may round otherwise."""
    guards = PROFILE.guards.model_copy(update={"max_retries": 1})
    profile = PROFILE.model_copy(update={"guards": guards})
    left = 0

    def dying(event: Event) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    async def live(length: int, journal: Journal | None) -> Trajectory:
        nonlocal left
        left = length
        agent = Agent(policy, {}, profile, FixedClock(CLOCK_DAY))
        return await agent.run(JOBS[0].question, Seeds(run=4), id="t", on_event=dying, journal=journal)

    whole = await live(10_000, None)
    events = 10_000 - left
    assert sum(node.rejected for node in whole.nodes) == 3
    turns = [index for index, node in enumerate(whole.nodes) if node.kind is NodeKind.TURN]
    recorded: list[int] = []
    for length in range(3, events, 9):
        with Journal(tmp_path / str(length)) as journal:
            with pytest.raises(Killed):
                await live(length, journal)
            with Run(tmp_path / str(length)) as run:
                recorded.append(sum(place.startswith("turn ") for place in run.table("episode t").keys()))  # noqa: SIM118
            done = await live(10_000, journal)
        for ours, theirs in zip(done.nodes, whole.nodes, strict=True):
            assert ours.model_copy(update={"logprobs": None}) == theirs.model_copy(update={"logprobs": None})
            assert ours.logprobs == (None if theirs.logprobs is None else pytest.approx(theirs.logprobs, abs=1e-4))
        assert done.leaf == whole.leaf and done.ending is whole.ending
        for index in turns[: recorded[-1]]:
            assert done.nodes[index].logprobs == whole.nodes[index].logprobs
    assert set(recorded) >= set(range(len(turns)))
