"""Checkpoints: plain Hugging Face directories, written atomically.

A checkpoint ``step_00000120/`` holds ``model.safetensors``, ``config.json``, the tokenizer's files and ``trainer_state.pt``
(optimizer, step, cursor, random state). It is written beside its place, flushed to disk and renamed, so that a kill at any
moment leaves the checkpoint before it valid and this one either whole or absent. Knows no training.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from sanderling.errors import UserError

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
_STATE = "trainer_state.pt"
_PREFIX = "step_"
_PARTIAL = ".partial-"


def load_model(directory: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The model of a local Hugging Face directory. Raises UserError when there is none."""
    if not (directory / "config.json").is_file():
        raise UserError(f"No model at {directory}: give a local Hugging Face directory with config.json and model.safetensors.")
    if not any(directory.glob("*.safetensors")):
        raise UserError(f"{directory} has no .safetensors file: give a model directory with its weights.")
    with _quiet():
        return AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, local_files_only=True)


def save_model(
    model: PreTrainedModel, directory: Path, tokenizer_dir: Path | None, state: Mapping[str, Any] | None = None
) -> None:
    """Write a model directory atomically, replacing what stood there; ``state`` is stored beside the weights."""
    partial = directory.with_name(_PARTIAL + directory.name)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with _quiet():
        model.save_pretrained(partial)
    for name in TOKENIZER_FILES:
        if tokenizer_dir is not None and (tokenizer_dir / name).is_file():
            shutil.copyfile(tokenizer_dir / name, partial / name)
    if state is not None:
        torch.save(dict(state), partial / _STATE)
    for file in partial.iterdir():
        _flush(file)
    _flush(partial)
    if directory.exists():
        # A directory cannot be replaced in one step; the moment between the two renames leaves the old one recoverable.
        old = directory.with_name(_PARTIAL + "old-" + directory.name)
        shutil.rmtree(old, ignore_errors=True)
        directory.rename(old)
        partial.rename(directory)
        shutil.rmtree(old)
    else:
        partial.rename(directory)
    _flush(directory.parent)


def save_checkpoint(
    root: Path, step: int, model: PreTrainedModel, state: Mapping[str, Any], tokenizer_dir: Path | None, keep: int
) -> Path:
    """Save ``root/step_…`` and drop all but the newest ``keep`` checkpoints, and remains of interrupted saves."""
    directory = root / f"{_PREFIX}{step:08d}"
    save_model(model, directory, tokenizer_dir, state)
    for old in checkpoints(root)[:-keep]:
        shutil.rmtree(old)
    for remains in root.glob(_PARTIAL + "*"):
        shutil.rmtree(remains, ignore_errors=True)
    return directory


def checkpoints(root: Path) -> list[Path]:
    """The whole checkpoints under ``root``, oldest first."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.name.startswith(_PREFIX) and (path / _STATE).is_file())


def load_state(directory: Path) -> dict[str, Any]:
    """What :func:`save_checkpoint` stored beside the weights."""
    return torch.load(directory / _STATE, weights_only=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bars, which would tear through those of whoever calls."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
