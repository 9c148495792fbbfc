"""The model of a supervised run as it is now: at first as it was given, then as its last checkpoint has left it.

Where ranks hold shards, rank 0 alone reads weights. The others make the same modules on the meta device, which takes no memory,
and :meth:`~sanderling.train.sharding.Sharded.prepare` hands them their parts. Knows no rows and no optimizer.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_empty, load_model
from sanderling.train.adapters import add_adapter, load_adapter
from sanderling.train.config import Precision, SupervisedConfig
from sanderling.train.sft_checks import check_same_architecture
from sanderling.train.team import SOLO, Team


def reads_weights(team: Team) -> bool:
    """Whether this rank reads the model's files: of ranks that hold shards, the first alone."""
    return team.rank == 0 or not team.sharded


def open_model(config: SupervisedConfig, model_dir: Path, last: Path | None, team: Team = SOLO) -> Any:
    """The model to train, from ``model_dir`` or the checkpoint ``last``; without weights on ranks that do not read them.

    Raises UserError for weights that are no numbers, and for a checkpoint of another model.
    """
    if last is not None and not config.lora.rank:
        check_same_architecture(last, model_dir)
    source = model_dir if config.lora.rank or last is None else last
    frozen = config.lora.rank and config.trainer.precision is Precision.BFLOAT16
    dtype = torch.bfloat16 if frozen else torch.float32
    if not reads_weights(team):
        with torch.device("meta"):
            model = load_empty(source, dtype)
            if config.lora.rank:
                add_adapter(model, config.lora)
        return model
    torch.manual_seed(config.seed)
    model = load_model(source, dtype)
    _check_numbers(model, source)
    if config.lora.rank:
        add_adapter(model, config.lora)
        if last is not None:
            load_adapter(model, last)
    return model


def _check_numbers(model: PreTrainedModel, source: Path) -> None:
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise UserError(f"The weights in {source} are broken: {name} holds NaN or infinity; copy them again.")
