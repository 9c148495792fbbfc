"""Models on disk: checkpoints, finished models, LoRA adapters in peft's files, and the model of a run as it is now.

A checkpoint ``step_00000120/`` is a model directory with ``trainer_state.pt`` (optimizer and steps; what is random is keyed by
step). It is written beside its place, flushed to disk and renamed, so that a kill leaves it either whole or absent. Where ranks
hold shards, rank 0 alone reads weights; `Sharded.prepare` hands the others their parts.
"""

import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import TOKENIZER_FILES, load_empty, load_model, quiet, stored_dtype
from sanderling.runs.files import sync
from sanderling.train.config import LoraConfig, Precision, SupervisedConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from sanderling.train.team import Team


CHECKPOINTS = "checkpoints"
_STATE = "trainer_state.pt"
_PREFIX, _PARTIAL = "step_", ".partial-"


def checkpoints(root: Path) -> list[Path]:
    """The whole checkpoints under ``root``, oldest first."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.name.startswith(_PREFIX) and (path / _STATE).is_file())


def last_step(root: Path) -> int:
    """The step of the newest checkpoint; 0 when there is none."""
    found = checkpoints(root)
    return int(found[-1].name.removeprefix(_PREFIX)) if found else 0


def final_dtype(base: Path) -> "torch.dtype":
    """The precision of the model at the end of a run: that of the model in ``base``, with which it began."""
    import torch

    found = stored_dtype(base)
    return torch.bfloat16 if found == torch.float16 else found  # weights trained in float32 may exceed float16's range


@contextmanager
def replacing(directory: Path) -> Iterator[Path]:
    """A new directory beside one; where the block ends without an error it takes the other's place, whole and on the disk.

    Raises UserError when the disk does not take what is written; what stood there is then untouched.
    """
    from safetensors import SafetensorError

    directory = directory.absolute()
    partial = directory.with_name(_PARTIAL + directory.name)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        settings = next(partial.glob("*config.json"))
        for file in partial.iterdir():
            shutil.copymode(settings, file)  # safetensors lets nobody but the owner read
            sync(file)
        sync(partial)
    except (OSError, SafetensorError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        shutil.rmtree(partial, ignore_errors=True)
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"Cannot write the model {directory} ({reason}): free some space and run again.") from error
    if directory.exists():
        # A directory cannot be replaced in one step; the moment between the two renames leaves the old one recoverable.
        old = directory.with_name(_PARTIAL + "old-" + directory.name)
        shutil.rmtree(old, ignore_errors=True)
        directory.rename(old)
        partial.rename(directory)
        shutil.rmtree(old)
    else:
        partial.rename(directory)
    sync(directory.parent)


def save_model(
    model: "PreTrainedModel",
    directory: Path,
    tokenizer_dir: Path | None,
    state: Mapping[str, Any] | None = None,
    weights: "dict[str, Tensor] | None" = None,
) -> None:
    """Write a model directory atomically, replacing what stood there; ``state`` is stored beside the weights.

    ``weights`` are given where the model does not hold its own (it is sharded). Raises UserError as :func:`replacing`.
    """
    import torch

    with replacing(directory) as partial:
        with quiet():
            model.save_pretrained(partial, state_dict=weights)
        if tokenizer_dir is not None:
            copy_tokenizer(tokenizer_dir, partial)
        if state is not None:
            torch.save(dict(state), partial / _STATE)


def copy_tokenizer(source: Path, place: Path) -> None:
    """From one directory to another."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, place / name)


def save_checkpoint(
    root: Path,
    step: int,
    model: "PreTrainedModel",
    state: Mapping[str, Any],
    tokenizer_dir: Path | None,
    keep: int,
    weights: "dict[str, Tensor] | None" = None,
) -> Path:
    """Save ``root/step_…`` and drop all but the newest ``keep`` checkpoints, and remains of interrupted saves."""
    directory = root / f"{_PREFIX}{step:08d}"
    save_model(model, directory, tokenizer_dir, state, weights)
    for old in checkpoints(root)[:-keep]:
        old.rename(root / f"{_PARTIAL}old-{old.name}")  # killed amid its removal, it is known as remains
    for remains in root.glob(_PARTIAL + "*"):
        shutil.rmtree(remains, ignore_errors=True)
    return directory


def load_state(directory: Path) -> dict[str, Any]:
    """What :func:`save_checkpoint` stored beside the weights. Raises UserError when it was damaged since."""
    import torch

    try:
        return torch.load(directory / _STATE, weights_only=True, mmap=True)  # ranks share its pages
    except (OSError, RuntimeError, UnpicklingError, EOFError) as error:
        raise UserError(f"{directory / _STATE} is damaged: remove {directory} to go on from the checkpoint before.") from error


def reads_weights(team: "Team") -> bool:
    """Whether this rank reads the model's files: of ranks that hold shards, the first alone."""
    return team.rank == 0 or not team.sharded


def open_weights(directory: Path, team: "Team", dtype: "torch.dtype | None" = None) -> Any:
    """The model in a directory, on the CPU; where ranks hold shards, without weights on those that do not read them."""
    return load_model(directory, dtype) if reads_weights(team) else load_empty(directory, dtype)


def open_model(config: SupervisedConfig, model_dir: Path, last: Path | None, team: "Team") -> Any:
    """The model to train, from ``model_dir`` or the checkpoint ``last``, with its adapters, as :func:`open_weights`."""
    import torch

    frozen = config.lora.rank and config.trainer.precision is Precision.BFLOAT16
    torch.manual_seed(config.seed)
    source = model_dir if config.lora.rank or last is None else last
    model = open_weights(source, team, torch.bfloat16 if frozen else torch.float32)
    if config.lora.rank:
        with nullcontext() if reads_weights(team) else torch.device("meta"):
            add_adapter(model, config.lora)
        if last is not None and reads_weights(team):
            load_adapter(model, last)
    return model


_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PEFT_PREFIX = "base_model.model."
"""What peft writes before the names of a model's own tensors."""


def add_adapter(model: "PreTrainedModel", config: LoraConfig) -> None:
    """Freeze a model and put new adapters into it, in place; at first they add nothing. Raises UserError.

    Their first weights come from torch's random state.
    """
    import peft

    made = peft.LoraConfig(
        r=config.rank, lora_alpha=config.alpha, target_modules=list(_TARGETS), lora_dropout=0.0, bias="none",  # pyright: ignore[reportArgumentType]
        task_type="CAUSAL_LM",
    )  # fmt: skip
    model.add_adapter(made)
    made.target_modules = sorted(_TARGETS)  # peft makes a set of them, which is written in another order each time
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def load_adapter(model: "PreTrainedModel", directory: Path) -> None:
    """Give a model's adapters the weights of a saved one. Raises UserError when they are others."""
    import peft
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        saved = load_file(directory / "adapter_model.safetensors")
        found = peft.set_peft_model_state_dict(model, {name.removeprefix(_PEFT_PREFIX): value for name, value in saved.items()})
    except (OSError, SafetensorError, RuntimeError) as error:  # torch raises RuntimeError for other shapes
        reason = str(error).splitlines()[0]
        raise UserError(f"The adapter in {directory} is damaged, or of another model or rank ({reason}).") from error
    if found.unexpected_keys or any("lora_" in name for name in found.missing_keys):
        raise UserError(f"The adapter in {directory} is of another model or rank: choose another --out.")


def merge_adapter(base: Path, adapter: Path, dtype: "torch.dtype") -> Any:
    """The model that a base and its adapter are together; the sums are taken in float32, and rounded once."""
    import peft

    model = load_model(base)
    with warnings.catch_warnings(action="ignore"):
        merged = peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    return merged.to(dtype)
