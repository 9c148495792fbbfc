"""Weights that change under turns that are under way: each token was sampled by whole weights, of the version it carries.

And weights as files: whole or not there, the newest two kept.
"""

import asyncio
import signal
import threading
from pathlib import Path

import pytest
import torch
from launcher import die, ended
from policy_tiny import GREEDY, full_logits, ids, key, load, said
from safetensors.torch import load_file
from scripted_server import hang_up, plain, serve
from test_endpoint import KEY, LetterTokenizer, tokens

from sanderling.core.errors import UserError
from sanderling.core.types import Sampling
from sanderling.policy import weight_sync
from sanderling.policy.contract import Delta, PolicyOutageError, WeightSync
from sanderling.policy.endpoint import CompletionEndpointPolicy, HttpClient
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.weight_sync import Copying, InPlace, VllmServer, WeightFiles, copied, copy_into
from sanderling.train.config import MemoryConfig, Recompute
from sanderling.train.memory import economise

PROMPT = tuple(range(20, 45))
ENDLESS = Sampling(temperature=1.0, max_tokens=400)


def train(model, steps=3):
    """A few real updates of a module; returns its weights by name."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        batch = torch.tensor([[(7 * step + n) % 280 + 3 for n in range(30)]])
        optimizer.zero_grad()
        model(batch, labels=batch).loss.backward()
        optimizer.step()
    return model.state_dict()


@torch.no_grad()
def as_sampled(models, versions, prompt, tokens):
    """Log-probabilities of the tokens where each was computed by the weights of its version over the cache as it stood.

    An independent account with transformers' own cache: the prompt under the first version, then token by token, with keys and
    values of earlier tokens as the weights of their time left them.
    """
    cache, found, new = None, [], list(prompt)
    for version, token in zip(versions, tokens, strict=True):
        output = models[version](torch.tensor([new]), past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        found.append(float(output.logits[0, -1].double().log_softmax(-1)[token]))
        new = [token]
    return found


class Overlap:
    """Has a turn and an update go on at once: neither ends before the other has come to its middle."""

    def __init__(self):
        self.texts = 0
        self.begun, self.amid, self.computed = threading.Event(), threading.Event(), threading.Event()

    def heard(self, text):
        self.texts += 1
        self.begun.set()
        if self.texts > 40:
            self.amid.set()
        if self.texts > 120:
            assert self.computed.wait(30)

    def update(self, model):
        assert self.begun.wait(30)
        train(model)
        assert self.amid.wait(30)
        weights = train(model)
        self.computed.set()
        return weights


async def spanning(policy, sync, model):
    """A turn under way while another thread trains ``model`` twice and publishes; the turn, and each version's weights."""
    models, overlap = {0: copied(model)}, Overlap()
    session = policy.open(key())
    task = asyncio.create_task(session.generate(ids(*PROMPT), ENDLESS, key(), overlap.heard))
    for version in (1, 2):
        async with sync.training():
            weights = await asyncio.to_thread(overlap.update, model)
        await sync.publish(weights, version)
        models[version] = copied(model)
    return session, await task, models


@pytest.fixture
def pair():
    """A module that is trained, and a policy with its own copy of it."""
    model, tokenizer = load()
    return model, TransformersPolicy(copied(model), tokenizer)


async def test_one_turn_spans_versions_while_another_thread_trains(pair):
    """In flight: earlier keys and values stay as the weights of their time left them; log-probabilities are exact for that."""
    model, policy = pair
    policy._engine._ends = frozenset()
    session, done, models = await spanning(policy, Copying(policy), model)
    assert done.versions == tuple(sorted(done.versions)) and {0, 1} <= set(done.versions)
    expected = as_sampled(models, done.versions, PROMPT, said(done))
    assert done.logprobs == pytest.approx(expected, abs=1e-4)
    older = as_sampled(models, [0] * len(said(done)), PROMPT, said(done))
    assert max(abs(a - b) for a, b in zip(done.logprobs, older, strict=True)) > 1e-2  # the updates were not nothing
    later = await session.generate(ids(5, 6), GREEDY, key(1))
    assert set(later.versions) == {2} and later.prefilled_tokens == 3


async def test_in_place_the_turn_waits_for_the_update():
    """One module: in training mode, with gradients, in another thread; no token is sampled from half of an update."""
    model, tokenizer = load()
    policy = TransformersPolicy(model.train(), tokenizer)
    policy._engine._ends = frozenset()
    sync: WeightSync = InPlace(policy)
    models = {0: copied(model)}
    task = asyncio.create_task(policy.open(key()).generate(ids(*PROMPT), ENDLESS, key()))
    for version in (1, 2):
        for _ in range(60):
            await asyncio.sleep(0)
        async with sync.training():
            await asyncio.to_thread(train, model)
        await sync.publish(model.state_dict(), version)
        models[version] = copied(model)
    done = await task
    assert done.versions and set(done.versions) == {0, 1, 2} and sync.version == policy.version == 2 and model.training
    assert done.logprobs == pytest.approx(as_sampled(models, done.versions, PROMPT, said(done)), abs=1e-4)


def test_tied_weights_go_by_either_name_and_dtypes_are_the_samplers(pair):
    model, policy = pair
    train(model)
    for dropped in ("lm_head.weight", "model.embed_tokens.weight"):
        target = copied(policy.model).to(torch.bfloat16)
        copy_into(target, {name: tensor for name, tensor in model.state_dict().items() if name != dropped})
        assert target.lm_head.weight.dtype is torch.bfloat16
        assert torch.equal(target.model.embed_tokens.weight, model.lm_head.weight.to(torch.bfloat16))


def test_a_twin_of_a_model_that_saves_memory_has_layers_of_its_own():
    """A trainer gives its layers another ``forward``; copied with them, the copied sampled through the layers in training."""
    model, _ = load()
    economise(model, MemoryConfig(recompute=Recompute.FULL, mlp_tile=8))
    other = copied(model)
    before = full_logits(other, PROMPT)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(full_logits(other, PROMPT), before)
    assert full_logits(copied(other).to(torch.bfloat16), PROMPT).isfinite().all(), "in another precision, too"


def stored(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_newest_two_are_kept_and_later_ones_of_an_undone_past_go(tmp_path):
    files = WeightFiles(tmp_path)
    for version in (1, 2, 5, 6):
        files.write({"a": torch.zeros(4)}, version)
    assert stored(tmp_path) == ["weights-00000005", "weights-00000006"]
    path = files.write({"a": torch.ones(4)}, 5)  # the run went on from an older checkpoint
    assert stored(tmp_path) == ["weights-00000005"]
    assert torch.equal(load_file(path / "model.safetensors")["a"], torch.ones(4))


def write_and_die(place: Path) -> None:
    def save_file(tensors, file, metadata=None):
        real(tensors, file, metadata=metadata)
        die()

    real, weight_sync.save_file = weight_sync.save_file, save_file
    WeightFiles(place).write({"a": torch.ones(4)}, 2)


def test_a_kill_amid_writing_leaves_the_version_before(tmp_path):
    files = WeightFiles(tmp_path)
    files.write({"a": torch.zeros(4)}, 1)
    assert ended(write_and_die, tmp_path) == -signal.SIGKILL
    assert (tmp_path / "weights-00000001").exists() and not (tmp_path / "weights-00000002").exists()
    files.write({"a": torch.full((4,), 2.0)}, 2)
    assert torch.equal(load_file((tmp_path / "weights-00000002") / "model.safetensors")["a"], torch.full((4,), 2.0))
    assert stored(tmp_path) == ["weights-00000001", "weights-00000002"]


# -- The development endpoints of vLLM, against a scripted server on loopback that answers, refuses, fails and hangs -------

EMPTY = plain(b"")
PAUSED, RESUMED, RELOADED = plain({"status": "paused"}), plain({"status": "resumed"}), plain({"results": [None]})
FORGET = "/reset_prefix_cache?reset_running_requests=true"
ALL = ["/pause?mode=keep", "/collective_rpc", FORGET, "/resume"]


class Files:
    """Writes nothing."""

    def __init__(self):
        self.versions = []

    def write(self, weights, version):
        self.versions.append((dict(weights), version))
        return Path("/shared") / f"weights-{version:08}"


def connect(server, **settings):
    root = HttpClient(server.url.removesuffix("/v1"), retries=1, backoff_s=0.001, timeout_s=60.0)
    policy = CompletionEndpointPolicy(HttpClient(server.url, retries=0, backoff_s=0.001), "m", LetterTokenizer())
    files = Files()
    return VllmServer(root, policy, files, **settings), policy, files


def paths(server):
    return [path for path, _, _ in server.asked]


async def speak(policy, *ids):
    return await policy.open(KEY).generate(Delta((), ids), Sampling(max_tokens=4), KEY)


async def test_an_update_freezes_turns():
    with serve(PAUSED, RELOADED, EMPTY, RESUMED, plain(tokens([1, 9]))) as server:
        made, policy, files = connect(server)
        sync: WeightSync = made
        async with sync.training():
            assert not server.asked
        await sync.publish({"w": 1}, 5)
        done = await speak(policy, 0, 1)
    assert paths(server)[:-1] == ALL and files.versions == [({"w": 1}, 5)] and sync.version == policy.version == 5
    reload = {"method": "reload_weights", "kwargs": {"weights_path": "/shared/weights-00000005"}}
    assert server.asked[1][1] == reload and done.versions == (5, 5)


KEPT = plain({"success": False})


async def test_nobody_samples_over_keys_and_values_that_stay(monkeypatch):
    """vLLM answers 200 where it kept them: a turn begun afterwards would go on from older weights' prefix unnoticed."""
    monkeypatch.setattr("sanderling.policy.weight_sync._PAUSES_S", (0.001, 0.001))
    with serve(PAUSED, RELOADED, KEPT, KEPT) as server:
        sync, policy, _ = connect(server)
        with pytest.raises(UserError, match="keeps cached keys and values"):
            await sync.publish({}, 1)
        assert policy.version == 0
    assert paths(server)[-1] == FORGET, "and it stays paused"


@pytest.mark.parametrize("failure", [plain({"error": "out of memory"}, 500), hang_up])
async def test_what_fails_midway_stays_paused_until_the_next_update(failure):
    with serve(PAUSED, failure, failure, PAUSED, RELOADED, EMPTY, RESUMED) as server:
        sync, policy, _ = connect(server)
        with pytest.raises(PolicyOutageError):
            await sync.publish({}, 1)
        assert policy.version == 0 and "/resume" not in paths(server)
        await sync.publish({}, 1)
        assert policy.version == 1 and paths(server)[-1] == "/resume"


async def test_it_sleeps_while_an_update_is_computed():
    """One GPU in turns: the turns under way end first, new ones wait until it is awake, whatever became of the update."""
    with serve(EMPTY, EMPTY, plain(tokens([1, 9])), EMPTY, EMPTY, PAUSED, RELOADED, EMPTY, RESUMED) as server:
        sync, policy, _ = connect(server, sleeps=True)
        waiting = []

        async def failing():
            async with sync.training():
                waiting.append(asyncio.create_task(speak(policy, 0)))
                await asyncio.sleep(0.02)
                assert paths(server) == ["/sleep?level=1"] and not waiting[0].done()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        await waiting[0]
        async with sync.training():
            pass
        await sync.publish({}, 1)
    assert paths(server) == ["/sleep?level=1", "/wake_up", "/v1/completions", "/sleep?level=1", "/wake_up", *ALL]


async def test_an_aborted_turn_is_an_outage_and_never_an_answer():
    with serve(plain(tokens([1, 2], "abort"))) as server:
        _, policy, _ = connect(server)
        with pytest.raises(PolicyOutageError, match="gave up"):
            await speak(policy, 0)


async def test_refused_it_goes_on_with_the_weights_it_had():
    with serve(PAUSED, plain({"error": {"message": "no such file"}}, 400), RESUMED) as server:
        sync, policy, _ = connect(server)
        with pytest.raises(UserError, match=r"no such file.*VLLM_SERVER_DEV_MODE"):
            await sync.publish({}, 1)
        assert policy.version == 0
    assert paths(server)[-1] == "/resume"
