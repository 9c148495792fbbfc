"""What a supervised run will do, where it puts things and what can be known to go wrong, before anything is loaded.

The order of rows depends on the seed and epoch alone. What is wrong is one sentence. Importable without torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import check_model, positions_of, read_model_config
from sanderling.train.config import Packing, SftConfig, SupervisedConfig
from sanderling.train.contract import IntArray
from sanderling.train.row_source import Survey
from sanderling.train.shape import read_shape

CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"
ADAPTER, MODEL = "adapter", "model"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of an adapter, as peft names them."""
STATE = "trainer_state.pt"
PREFIX = "step_"
PARTIAL = ".partial-"
_SHAPE = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "tie_word_embeddings",
)  # fmt: skip
"""What makes one architecture another."""


@dataclass(frozen=True)
class Progress:
    """What a step reports to whoever watches."""

    step: int
    total_steps: int
    metrics: dict[str, float]


OnProgress = Callable[[Progress], None]


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


def check_rows(survey: Survey, model_dir: Path) -> None:
    """Raises UserError when the model in a directory is not whole, or rows cannot be trained on with it."""
    if not survey.rows:
        raise UserError("There are no rows to train on: check the data and the length limit that rows were made with.")
    if not survey.trained_tokens:
        raise UserError(f"None of the {survey.rows:,} rows has a token to train: check the loss masks of the trajectories.")
    check_model(model_dir)
    config = read_model_config(model_dir)
    if survey.tokenizer is not None:
        own = load_tokenizer(model_dir).fingerprint
        if own != survey.tokenizer:
            raise UserError(
                f"The rows are ids of tokenizer {survey.tokenizer}, the model's is {own}: make the rows again from the "
                "trajectories with the model's tokenizer."
            )
    vocabulary = config.get("vocab_size")
    if isinstance(vocabulary, int) and survey.largest_id >= vocabulary:
        raise UserError(
            f"The rows hold token {survey.largest_id:,}, and the model's vocabulary ends at {vocabulary - 1:,}: "
            "make the rows again with the model's tokenizer."
        )
    positions = positions_of(config)
    if positions is not None and survey.longest > positions:
        raise UserError(
            f"Row {survey.longest_row or 'of no name'} has {survey.longest:,} tokens, the model has {positions:,} positions: "
            f"set data.max_tokens={positions} (data.overlong says what becomes of longer ones), or choose another model."
        )


def check_context(config: SftConfig, model_dir: Path) -> None:
    """Raises UserError when processes are to share rows (``parallel.context``) that they cannot share."""
    ranks = config.parallel.context
    if ranks == 1:
        return
    if config.trainer.packing is not Packing.VARLEN:
        raise UserError("Only packed rows are shared by processes: set trainer.packing=varlen, or parallel.context=1.")
    shape = read_shape(model_dir)
    if not shape.shared_by(ranks):
        fitting = [n for n in range(1, shape.heads + 1) if shape.shared_by(n)]
        raise UserError(
            f"{ranks} processes cannot share the model's {shape.heads} heads ({shape.kv_heads} of keys): "
            f"set parallel.context to one of {', '.join(map(str, fitting))}."
        )


def check_same_architecture(checkpoint: Path, model_dir: Path) -> None:
    """Raises UserError when a checkpoint is of another architecture than the model that training began with."""
    ours, theirs = read_model_config(checkpoint), read_model_config(model_dir)
    for key in _SHAPE:
        if key in ours and key in theirs and ours[key] != theirs[key]:
            raise UserError(
                f"The checkpoint {checkpoint} is of another architecture ({key} {ours[key]}; {model_dir} has {theirs[key]}): "
                "give the model that the run began with, or choose another --out."
            )
