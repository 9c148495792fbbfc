import dataclasses
import json
import multiprocessing
import signal
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import numpy as np
import pytest
from launcher import die, ended
from safetensors.numpy import load_file
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.runs.jsonl import TornLineWarning
from sanderling.train.checkpoint import checkpoints, load_model, save_checkpoint
from sanderling.train.config import SupervisedConfig, TrainerConfig
from sanderling.train.metrics import MetricsLog, read_metrics
from sanderling.train.row_source import ListSource
from sanderling.train.sft import batches, run_sft, schedule

CONFIG = SupervisedConfig(
    trainer=TrainerConfig(lr=1e-2, micro_batch_tokens=64, schedule="cosine", warmup_steps=2),
    epochs=3,
    batch_tokens=80,
    save_every=2,
    seed=5,
)


def die_at_step_5(base: Path, out: Path) -> None:
    run_sft(CONFIG, random_rows(12), base, out, lambda step, metrics: die() if step == 5 else None)


def weights(run: Path) -> dict[str, np.ndarray]:
    return load_file(run / "model" / "model.safetensors")


def test_a_run_killed_at_any_step_ends_with_the_same_weights_bit_for_bit(tmp_path: Path):
    base = save_tiny(tmp_path / "base")
    assert run_sft(CONFIG, random_rows(12), base, tmp_path / "straight")
    assert ended(die_at_step_5, base, tmp_path / "killed") == -signal.SIGKILL
    assert not (tmp_path / "killed" / "model").exists()
    seen: list[int] = []
    run_sft(CONFIG, random_rows(12), base, tmp_path / "killed", lambda step, metrics: seen.append(step))
    assert seen[0] == 5, "steps 1 to 4 were saved at step 4 and are not run again"
    ours, theirs = weights(tmp_path / "killed"), weights(tmp_path / "straight")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    logs = [read_metrics(tmp_path / run / "metrics.jsonl") for run in ("killed", "straight")]
    assert len(logs[1]) >= 6
    assert [line["step"] for line in logs[0]] == [line["step"] for line in logs[1]] == list(range(1, len(logs[1]) + 1))
    assert [line["loss"] for line in logs[0]] == [line["loss"] for line in logs[1]]


def save_for_ever(root: Path, saved: Synchronized) -> None:
    for step in range(1, 100_000):
        save_checkpoint(root, step, tiny_model(), {"step": step}, None, 2)
        saved.value = step


def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    count = context.Value("i", 0)
    saver = context.Process(target=save_for_ever, args=(tmp_path, count))
    saver.start()
    while count.value < 3:
        assert saver.is_alive()
        time.sleep(0.005)
    time.sleep(0.003)
    saved = count.value
    saver.kill()
    saver.join()
    for path in checkpoints(tmp_path):
        load_model(path)
    newest = int(checkpoints(tmp_path)[-1].name.removeprefix("step_"))
    assert newest >= saved
    save_checkpoint(tmp_path, newest + 1, tiny_model(), {}, None, 2)
    assert len(list(tmp_path.iterdir())) == 2, "remains of the interrupted save are gone"


def test_order_depends_on_seed_and_epoch_only():
    lengths = np.array([10, 20, 30, 40, 50])

    def order(seed: int, epoch: int) -> list[list[int]]:
        return batches(lengths, SupervisedConfig(batch_tokens=50, seed=seed), epoch)

    assert order(1, 0) == order(1, 0)
    assert len({tuple(i for batch in order(seed, epoch) for i in batch) for seed in (1, 2) for epoch in (0, 1)}) > 1
    for batch in order(1, 0)[:-1]:
        assert sum(lengths[batch]) >= 50 > sum(lengths[batch[:-1]])
    assert len(schedule(lengths, SupervisedConfig(batch_tokens=50, epochs=4, max_steps=3))) == 3


def test_a_torn_metrics_line_and_later_steps_are_dropped(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": s}) + "\n" for s in (1, 2, 3)) + '{"step": 4, "lo')
    with pytest.warns(TornLineWarning):
        log = MetricsLog(path, resume_step=2)
    log.append({"step": 3, "loss": 1.0})
    assert read_metrics(path) == [{"step": 1}, {"step": 2}, {"step": 3, "loss": 1.0}]


def test_the_rows_of_a_forked_trajectory_are_in_one_batch(tmp_path: Path):
    rows = random_rows(12)
    rows = [dataclasses.replace(row, trajectory=f"t{index % 4}") for index, row in enumerate(rows)]
    source = ListSource(rows)
    assert len(source.lengths) == 4
    assert [row.trajectory for row in source[1]] == ["t1", "t1", "t1"]
    assert source.lengths.tolist() == [sum(len(row.ids) for row in rows[index::4]) for index in range(4)]
    config = CONFIG.model_copy(update={"batch_tokens": 1, "epochs": 1})
    run_sft(config, rows, save_tiny(tmp_path / "base"), tmp_path / "run")
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert sorted(line["tokens"] for line in log) == sorted(source.lengths.tolist())
