"""The weights themselves, one tensor at a time: whether all are numbers, and what tells them from others. Brings torch."""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from sanderling.core.errors import UserError
from sanderling.merge.inputs import ModelFiles

_BLOCK = 1 << 22


def check_finite(model: ModelFiles) -> None:
    """Raise UserError naming the first tensor that holds something else than finite numbers, or is none that can be merged."""
    for file in model.files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in sorted(opened.keys()):
                    _check(opened.get_tensor(name), name, model.path)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is damaged or cut short ({error}): finish the download, or copy it again.") from error


def _check(tensor: torch.Tensor, name: str, path: Path) -> None:
    if not tensor.is_floating_point() or tensor.element_size() < 2:
        raise UserError(
            f"{name} in {path} is {tensor.dtype}, which is not merged: save the model as bfloat16 or float32 first."
        )
    if not bool(torch.isfinite(tensor).all()):
        kind = "NaN" if bool(torch.isnan(tensor).any()) else "infinity"
        raise UserError(f"{name} in {path} holds {kind}: that training went wrong, so take an earlier checkpoint.")


def fingerprint(directory: Path) -> str:
    """SHA-256 over the files of weights, in order of their names."""
    total = hashlib.sha256()
    for file in sorted(directory.glob("*.safetensors")):
        with file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                total.update(block)
    return total.hexdigest()
