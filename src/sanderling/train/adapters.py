"""LoRA: adapters beside a model's frozen weights, through peft, in peft's own files.

The adapter's layers are put into the loaded model, so its body and head stay where they are, and packed attention,
recomputation and sharding work on it as on any other. Weights of adapters are float32 whatever the base is held in. Imports
peft when it is needed.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.train.config import LoraConfig

_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PREFIX = "base_model.model."
"""What peft writes before the names of a model's own tensors."""


def add_adapter(model: PreTrainedModel, config: LoraConfig) -> None:
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


def has_adapter(model: PreTrainedModel) -> bool:
    """Whether :func:`add_adapter` was called."""
    return bool(getattr(model, "peft_config", None))


def load_adapter(model: PreTrainedModel, directory: Path) -> None:
    """Give a model's adapters the weights of a saved one. Raises UserError when they are others."""
    import peft

    try:
        saved = load_file(directory / "adapter_model.safetensors")
        found = peft.set_peft_model_state_dict(model, {name.removeprefix(_PREFIX): value for name, value in saved.items()})
    except (OSError, SafetensorError, RuntimeError) as error:  # torch raises RuntimeError for other shapes
        reason = str(error).splitlines()[0]
        raise UserError(f"The adapter in {directory} is damaged, or of another model or rank ({reason}).") from error
    if found.unexpected_keys or any("lora_" in name for name in found.missing_keys):
        raise UserError(f"The adapter in {directory} is of another model or rank: choose another --out.")


def merge_adapter(base: Path, adapter: Path, dtype: torch.dtype) -> Any:
    """The model that a base and its adapter are together; the sums are taken in float32, and rounded once."""
    import peft

    model = load_model(base)
    with warnings.catch_warnings(action="ignore"):
        merged = peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    return merged.to(dtype)
