"""The development endpoints of vLLM, against a scripted server on loopback that answers, refuses, fails and hangs."""

import asyncio
from pathlib import Path

import pytest
from scripted_server import hang_up, plain, serve
from test_endpoint import KEY, LetterTokenizer, tokens

from sanderling.core.errors import UserError
from sanderling.core.types import Sampling
from sanderling.policy.contract import Delta, PolicyOutageError, WeightSync
from sanderling.policy.endpoint import CompletionEndpointPolicy, HttpClient
from sanderling.policy.weight_sync import VllmServer

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


def connect(server, timeout_s=60.0, **settings):
    root = HttpClient(server.url.removesuffix("/v1"), retries=1, backoff_s=0.001, timeout_s=timeout_s)
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
        sync, policy, _ = connect(server, timeout_s=2.0)
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
