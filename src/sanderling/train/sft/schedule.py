"""What a supervised run will do and where it puts things, known before anything is loaded. Importable without torch.

The order of rows depends on the seed and epoch alone.
"""

from pathlib import Path

import numpy as np

from sanderling.train.config import SupervisedConfig
from sanderling.train.contract import IntArray

CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"
ADAPTER, MODEL = "adapter", "model"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of an adapter, as peft names them."""
STATE = "trainer_state.pt"
PREFIX = "step_"
PARTIAL = ".partial-"


def batches(lengths: IntArray, config: SupervisedConfig, epoch: int) -> list[list[int]]:
    """One epoch's optimizer batches: in order, each closed by its last trajectory or the one that reaches its tokens."""
    order = np.arange(len(lengths))
    if config.shuffle:
        order = np.random.default_rng((config.seed, epoch)).permutation(len(lengths))
    most = config.batch_trajectories or config.batch_tokens
    found: list[list[int]] = []
    filled = most
    for index in order.tolist():
        if filled >= most:
            found.append([])
            filled = 0
        found[-1].append(index)
        filled += 1 if config.batch_trajectories else int(lengths[index])
    return found


def schedule(lengths: IntArray, config: SupervisedConfig) -> list[list[int]]:
    """Every optimizer batch of the run, in order, ``max_steps`` applied."""
    plan: list[list[int]] = []
    for epoch in range(config.epochs):
        plan.extend(batches(lengths, config, epoch))
    return plan[: config.max_steps]


def final_dir(config: SupervisedConfig, out_dir: Path) -> Path:
    """Where a run puts what it has trained: a model, or with LoRA an adapter."""
    return out_dir / (ADAPTER if config.lora.rank else MODEL)


def is_finished(config: SupervisedConfig, out_dir: Path) -> bool:
    """Whether the run in a directory has come to its end."""
    return (final_dir(config, out_dir) / (ADAPTER_CONFIG if config.lora.rank else "config.json")).is_file()


def checkpoints(root: Path) -> list[Path]:
    """The whole checkpoints under ``root``, oldest first."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.name.startswith(PREFIX) and (path / STATE).is_file())


def last_step(root: Path) -> int:
    """The step of the newest checkpoint; 0 when there is none."""
    found = checkpoints(root)
    return int(found[-1].name.removeprefix(PREFIX)) if found else 0
