"""Weights through files: whole or not there, the newest few kept, taken over by another policy before its next turn."""

import asyncio
import shutil
import signal
import subprocess
import sys
import threading

import pytest
import torch
from policy_tiny import GREEDY, full_logits, ids, key, load, model_directory, said

from sanderling.core.errors import UserError
from sanderling.policy.contract import Policy, PolicyOutageError
from sanderling.policy.sync.contract import WeightSync
from sanderling.policy.sync.copying import twin
from sanderling.policy.sync.reloading import Reloading, WatchedPolicy
from sanderling.policy.sync.weight_files import WeightFiles
from sanderling.policy.transformers_policy import TransformersPolicy

PROMPT = tuple(range(20, 45))


def changed(model, by):
    """The model's weights after an update, so to say: a norm before the head, which is enough to be told apart."""
    with torch.no_grad():
        model.model.norm.weight.mul_(by)
        model.model.layers[0].mlp.up_proj.weight.add_(0.1 * by)
    return model.state_dict()


async def test_a_version_is_a_model_directory(tmp_path):
    model, _ = load()
    files = WeightFiles(tmp_path / "weights", like=model_directory())
    sync: WeightSync = Reloading(files)
    async with sync.training():
        weights = changed(model, 1.5)
    await sync.publish(weights, 3)
    assert sync.version == files.newest() == 3
    again = TransformersPolicy.load(files.path(3))
    assert all(map(torch.equal, model.state_dict().values(), again.model.state_dict().values()))
    assert again.tokenizer.fingerprint and files.path(3).name == "weights-00000003"
    assert (files.path(3) / "model.safetensors").stat().st_mode & 0o044  # a server under another name reads it


async def test_the_newest_two_are_kept_and_later_ones_of_an_undone_past_go(tmp_path):
    model, _ = load()
    files = WeightFiles(tmp_path)
    for version in (1, 2, 5, 6):
        files.write(model.state_dict(), version)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weights-00000005", "weights-00000006"]
    weights = changed(model, 2.0)
    files.write(weights, 5)  # the run went on from an older checkpoint
    assert files.newest() == 5 and [path.name for path in tmp_path.iterdir()] == ["weights-00000005"]
    assert torch.equal(files.read(5)["model.norm.weight"], weights["model.norm.weight"])


async def test_the_sampler_is_told_after_the_files_are_there(tmp_path):
    model, _ = load()
    files, told = WeightFiles(tmp_path), []

    async def tell(path, version):
        told.append((version, sync.version, (path / "model.safetensors").is_file()))

    sync = Reloading(files, tell, version=4)
    await sync.publish(model.state_dict(), 5)
    await sync.publish(None, 6)  # another rank writes and tells
    assert told == [(5, 4, True)] and sync.version == 6 and files.newest() == 5


async def test_shared_and_sliced_tensors_are_stored_as_they_are(tmp_path):
    whole = torch.arange(12.0).reshape(3, 4)
    weights = {"a": whole, "tied": whole, "slice": whole[1:], "turned": whole.T}
    files = WeightFiles(tmp_path)
    files.write(weights, 0)
    found = files.read(0)
    assert set(found) == {"a", "slice", "turned"} and all(torch.equal(weights[name], tensor) for name, tensor in found.items())


async def test_no_place_to_write_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="another place"):
        await Reloading(WeightFiles(tmp_path / "file")).publish({"a": torch.zeros(1)}, 1)


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from sanderling.policy.sync import weight_files
real = weight_files.save_file
def save_file(tensors, file, metadata=None):
    real(tensors, file, metadata=metadata)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
weight_files.save_file = save_file
weight_files.WeightFiles(Path(sys.argv[1])).write({"a": torch.full((4,), float(len(sys.argv[2])))}, 2)
"""


def test_a_kill_amid_writing_leaves_the_version_before(tmp_path):
    files = WeightFiles(tmp_path)
    files.write({"a": torch.zeros(4)}, 1)
    for how, outcome in (("kill", -signal.SIGKILL), ("go", 0)):
        command = [sys.executable, "-c", KILLED, str(tmp_path), how]
        assert subprocess.run(command, timeout=120, check=False).returncode == outcome
        assert files.newest() == (1 if outcome else 2)
    assert torch.equal(files.read(2)["a"], torch.full((4,), 2.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weights-00000001", "weights-00000002"]


async def test_a_watched_policy_takes_over_before_its_next_turn(tmp_path):
    model, tokenizer = load()
    files = WeightFiles(tmp_path)
    live = TransformersPolicy(twin(model), tokenizer)
    policy: Policy = WatchedPolicy(live, files)
    session = policy.open(key())
    first = await session.generate(ids(*PROMPT), GREEDY, key())
    assert set(first.versions or ()) == {0} == {policy.version}
    files.write(changed(model, 1.3), 4)
    second = await session.generate(ids(5, 6), GREEDY, key(1))
    assert set(second.versions or ()) == {4} == {policy.version} and second.prefilled_tokens == 3
    other = policy.open(key(attempt=1))
    fresh = await other.generate(ids(*PROMPT), GREEDY, key(attempt=1))
    logits = full_logits(model, [*PROMPT, *said(fresh)])
    assert said(fresh) == logits[len(PROMPT) - 1 : -1].argmax(-1).tolist()
    assert other.mark() == len(PROMPT) + len(said(fresh))
    other.rewind(0)
    assert other.mark() == 0


async def test_what_is_loaded_is_not_loaded_again_and_an_undone_past_is_left(tmp_path):
    model, tokenizer = load()
    files = WeightFiles(tmp_path)
    reads, read = [], files.read

    def counted(version):
        reads.append(version)
        return read(version)

    files.read = counted
    policy = WatchedPolicy(TransformersPolicy(twin(model), tokenizer), files)
    files.write(changed(model, 1.3), 4)
    for turn in range(3):
        await policy.open(key()).generate(ids(*PROMPT), GREEDY, key(turn))
    files.write(changed(model, 0.7), 3)
    done = await policy.open(key()).generate(ids(*PROMPT), GREEDY, key(9))
    assert reads == [4, 3] and set(done.versions or ()) == {3}


async def test_files_that_go_while_they_are_read(tmp_path):
    model, tokenizer = load()
    files = WeightFiles(tmp_path)
    read = files.read

    def late(version):
        if version == 1:
            files.write(model.state_dict(), 2)
            shutil.rmtree(files.path(1))
        return read(version)

    files.write(model.state_dict(), 1)
    files.read = late
    policy = WatchedPolicy(TransformersPolicy(twin(model), tokenizer), files)
    await policy.open(key()).generate(ids(*PROMPT), GREEDY, key())
    assert policy.version == 2

    def never(version):
        raise FileNotFoundError

    files.read = never
    files.write(model.state_dict(), 3)
    with pytest.raises(PolicyOutageError, match="faster"):
        await policy.open(key()).generate(ids(*PROMPT), GREEDY, key())


async def test_another_models_weights_are_refused(tmp_path):
    model, tokenizer = load()
    files = WeightFiles(tmp_path)
    files.write({"a": torch.zeros(2)}, 1)
    session = WatchedPolicy(TransformersPolicy(model, tokenizer), files).open(key())
    with pytest.raises(UserError, match="do not fit"):
        await session.generate(ids(*PROMPT), GREEDY, key())
    session.close()


async def test_the_loop_goes_on_while_files_are_written(tmp_path):
    model, _ = load()
    files = WeightFiles(tmp_path)
    ticked, write = threading.Event(), files.write

    def slow(weights, version):
        assert ticked.wait(30)
        return write(weights, version)

    files.write = slow
    publishing = asyncio.create_task(Reloading(files).publish(model.state_dict(), 1))
    await asyncio.sleep(0)
    ticked.set()  # by the event loop, which writing holds up no longer
    await publishing
    assert files.newest() == 1 and files.path(1).is_dir()
