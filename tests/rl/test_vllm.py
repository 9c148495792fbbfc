"""Against a real vLLM (`vllm_real`): what it says it sampled from, turns that live through an update, and RL over it."""

import asyncio
import copy
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
import torch
from rl_runs import recipe_of, silent, write_given
from sft_runs import WORDS, weights
from transformers import AutoModelForCausalLM
from vllm_real import needs_vllm, served, write_served

from sanderling.core.types import Sampling
from sanderling.policy.contract import Completion, Delta, Finish, PolicyOutageError, SampleKey
from sanderling.policy.endpoint import CompletionEndpointPolicy, HttpClient
from sanderling.policy.load import close_policy, open_policy
from sanderling.policy.weight_sync import VllmServer, WeightFiles
from sanderling.rl.launch import Order, run_rl_command
from sanderling.train.metrics import read_metrics

pytestmark = [needs_vllm, pytest.mark.slow]

PROMPT = tuple(range(20, 80))
LONG = Sampling(temperature=1.0, max_tokens=400)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world, questions and settings, with a model that vLLM can serve."""
    place = write_given(tmp_path_factory.mktemp("given"))
    write_served(place / "base", [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))])
    return place


@pytest.fixture(scope="module")
def address(given: Path) -> Iterator[str]:
    with served(given / "base", given / "vllm.log") as found:
        yield found


def key(attempt: int = 0, turn: int = 0) -> SampleKey:
    return SampleKey(seed=7, question="q", attempt=attempt, turn=turn, retry=0)


def policy_of(address: str, given: Path) -> CompletionEndpointPolicy:
    policy = open_policy(f"{address}?tokenizer={given / 'base'}#m")
    assert isinstance(policy, CompletionEndpointPolicy)
    return policy


async def say(policy: CompletionEndpointPolicy, sampling: Sampling, attempt: int = 0) -> Completion:
    return await policy.open(key(attempt)).generate(Delta((), PROMPT), sampling, key(attempt))


async def heard_of(heard: list[str], pieces: int) -> None:
    """Wait for so many pieces of streamed turns."""
    for _ in range(20_000):
        if len(heard) >= pieces:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(heard)


@torch.no_grad()
def expected(model: torch.nn.Module, done: Completion, sampling: Sampling) -> list[float]:
    """By one forward over all of it, in double precision, each token under what is said to be sampled from."""
    ids = done.token_ids
    assert ids is not None
    rows = model(torch.tensor([[*PROMPT, *ids]])).logits[0, len(PROMPT) - 1 : -1].double()
    found = []
    for at, row in enumerate(rows):
        row = row.clone()
        row[list(set(ids[:at]))] -= sampling.presence_penalty
        row /= sampling.temperature or 1.0
        if sampling.top_k:
            row[row < row.topk(sampling.top_k).values[-1]] = -torch.inf
        values, order = row.softmax(-1).sort(descending=True)
        row[order[values.cumsum(-1) - values >= sampling.top_p]] = -torch.inf
        found.append(float(row.log_softmax(-1)[ids[at]]))
    return found


def far(done: Completion, model: torch.nn.Module, sampling: Sampling) -> list[float]:
    assert done.logprobs is not None
    return [abs(ours - theirs) for ours, theirs in zip(done.logprobs, expected(model, done, sampling), strict=True)]


def model_of(given: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(given / "base", dtype=torch.float32).eval()


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, max_tokens=80),
        Sampling(temperature=0.0, max_tokens=80),
        Sampling(temperature=0.7, top_p=0.9, max_tokens=80),
        Sampling(temperature=0.7, top_k=20, top_p=0.95, presence_penalty=0.5, max_tokens=80),
    ],
)
async def test_log_probabilities_are_those_of_what_was_sampled_from(address: str, given: Path, sampling: Sampling):
    policy = policy_of(address, given)
    turns = await asyncio.gather(*[say(policy, sampling, attempt) for attempt in range(6)])
    again = await asyncio.gather(*[say(policy, sampling, attempt) for attempt in range(6)])
    await close_policy(policy)
    model = model_of(given)
    assert max(gap for done in turns for gap in far(done, model, sampling)) < 1e-4
    assert [done.token_ids for done in again] == [done.token_ids for done in turns], "its draws follow the seed"
    assert len({done.token_ids for done in turns}) == (6 if sampling.temperature else 1)
    assert all(done.finish is Finish.END or len(done.token_ids or ()) == 80 for done in turns)


async def test_streamed_it_is_the_same_turn_and_the_prefix_stays_cached(address: str, given: Path):
    policy, heard = policy_of(address, given), []
    session, sampling = policy.open(key(3)), Sampling(temperature=0.8, max_tokens=60)
    prompt = PROMPT * 5
    streamed = await session.generate(Delta((), prompt), sampling, key(3), heard.append)
    plain = await policy.open(key(3)).generate(Delta((), prompt), sampling, key(3))
    more = await session.generate(Delta((), (21, 22, 23)), sampling, key(3, 1))
    await close_policy(policy)
    assert streamed.token_ids == plain.token_ids and streamed.logprobs == pytest.approx(plain.logprobs, abs=1e-5)
    assert "".join(heard).startswith(streamed.text[:20]) and len(heard) > 1
    assert more.prompt_tokens == len(prompt) + len(streamed.token_ids or ()) + 3
    assert more.prefilled_tokens <= more.prompt_tokens - 256, "whole blocks, of 128 tokens on a CPU"


async def test_a_turn_amid_an_update_goes_on_with_the_new_weights_exactly(address: str, given: Path, tmp_path: Path):
    """Frozen, and its context read again: every log-probability is a plain forward's, under old weights and then under new."""
    policy, root, model = policy_of(address, given), HttpClient(address.removesuffix("/v1")), model_of(given)
    sync = VllmServer(root, policy, WeightFiles(tmp_path / "weights", like=given / "base"))
    new = copy.deepcopy(model)
    with torch.no_grad():
        for number, parameter in enumerate(new.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
            parameter.add_(noise * 0.1 * parameter.abs().mean())
    await sync.publish(dict(model.state_dict()), 1)
    heard: list[str] = []
    session = policy.open(key(0))
    streamed = asyncio.create_task(session.generate(Delta((), PROMPT), LONG, key(0), heard.append))
    beside = [asyncio.create_task(say(policy, LONG, attempt)) for attempt in range(1, 4)]
    await heard_of(heard, 20)
    await sync.publish(dict(new.state_dict()), 2)
    late = await say(policy, LONG, 9)
    turns = [await streamed, *[await one for one in beside]]
    await sync.publish(dict(model.state_dict()), 3)  # for the tests that follow
    await close_policy(policy)
    await root.aclose()
    assert all(set(done.versions or ()) == {1} for done in turns), "the oldest that they can be of"
    assert set(late.versions or ()) == {2} and max(far(late, new, LONG)) < 1e-4, "of the same prompt, and nothing old is read"
    spans = []
    for done in turns:
        old, fresh = far(done, model, LONG), far(done, new, LONG)
        first = next((at for at, gap in enumerate(old) if gap > 1e-4), len(old))
        spans.append((first, len(old)))
        assert max(fresh[first:], default=0.0) < 1e-4
    assert any(10 < first < length - 10 for first, length in spans), spans


async def test_an_aborted_turn_is_an_outage(address: str, given: Path):
    policy, root = policy_of(address, given), HttpClient(address.removesuffix("/v1"))
    heard: list[str] = []
    sessions = [(policy.open(key(attempt)), key(attempt)) for attempt in range(1, 13)]  # three may have ended on a busy machine
    long = Sampling(max_tokens=1900)
    turns = [asyncio.create_task(session.generate(Delta((), PROMPT), long, told, heard.append)) for session, told in sessions]
    await heard_of(heard, 3)
    async with aclosing(root.events("abort_requests", {})) as answered:
        aborted = (await anext(answered))["aborted"]
    ends = await asyncio.gather(*turns, return_exceptions=True)
    outages = [end for end in ends if isinstance(end, PolicyOutageError) and "gave up a turn" in str(end)]
    assert len(outages) == aborted >= 1
    await close_policy(policy)
    await root.aclose()


def placed(address: str, *more: str) -> list[str]:
    return ["rl.pipeline.placement=served", f"sampler.endpoint={address}", "sampler.served=m", "rl.steps=4", *more]


def learnt(out: Path, given: Path) -> bool:
    after, before = weights(out / "model"), weights(given / "base")
    return any((after[name] != before[name]).any() for name in before)


def test_rl_over_it_samples_with_each_updates_weights(address: str, given: Path, tmp_path: Path):
    """The trainer's log-probabilities are the server's in every step."""
    run_rl_command(Order(recipe_of(given, *placed(address, "rl.loss.kind=ppo")), tmp_path / "out"), silent())
    gaps = [line["sampler_gap"] for line in read_metrics(tmp_path / "out" / "metrics.jsonl")]
    assert len(gaps) == 4 and max(gaps) < 1e-4, gaps
    assert learnt(tmp_path / "out", given)
