"""A team whose ranks hold a shard of the model each: FSDP2, which is torch's `fully_shard`.

Every layer is sharded by itself, so that a rank holds one layer whole at a time, beside its share of all weights, gradients and
optimizer states. Passes are collective: all ranks make the same number of them. A gradient comes back as the *mean* over ranks,
so a rank's loss is multiplied by their number (:attr:`Sharded.gradient_scale`): weights already sum to 1 over the whole batch.
What is saved is whole tensors by name, so a run can go on with another number of ranks.
"""

from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from sanderling.train.adapters import has_adapter
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.memory import decoder_layers
from sanderling.train.parallel.team import Team

T = TypeVar("T")
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
_FROM_RANK_0 = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
"""Whole tensors that rank 0 sends one after the other; each rank keeps its part."""


class Sharded(Team):
    """A team over FSDP2. Made of a team that replicates, whose process group it uses."""

    def __init__(self, team: Team, *, bfloat16: bool = False, device: torch.device | None = None) -> None:
        super().__init__(team.rank, team.size, team.context)
        self._team = team
        self._device = device
        self.sharded, self.gradient_scale = True, float(team.size)
        self._policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if bfloat16 else None

    def prepare(self, scored: TokenLogprobs) -> None:
        """Shard a model in place; each rank ends with its part of rank 0's weights, others' may be on the meta device."""
        model: PreTrainedModel = scored.model
        device = self._device or (torch.device("cpu") if model.device.type == "meta" else model.device)
        # Whole tensors live on in here until every rank has its part.
        given = model.state_dict() if self.rank == 0 and self.size > 1 else {}
        widths, buffers = self._team.gather(_besides(model) if self.rank == 0 else ({}, {}))[0]
        for name, parameter in model.named_parameters():
            parameter.data = parameter.data.to(widths[name])
        mesh = init_device_mesh(device.type, (self.size,))
        options: dict[str, Any] = {"mesh": mesh} | ({"mp_policy": self._policy} if self._policy else {})
        for layer in decoder_layers(model):
            fully_shard(layer, **options)
        fully_shard(scored, **options)
        if self.size == 1:
            return
        if self.rank:
            scored.to_empty(device=device)
        set_model_state_dict(model, given, options=_FROM_RANK_0)
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])

    def passes(self, own: int) -> int:
        """The most that any rank makes; the others make up for it with passes that count nothing."""
        return max(self._team.gather(own))

    def sum_gradients(self, model: nn.Module) -> None:
        """Nothing: the backward pass has done it."""

    def gather(self, value: T) -> list[T]:
        return self._team.gather(value)


def _besides(model: PreTrainedModel) -> tuple[dict[str, torch.dtype], dict[str, Tensor]]:
    """What a state dict does not say in advance, or at all: dtypes of parameters, and buffers such as rotary frequencies."""
    widths = {name: parameter.dtype for name, parameter in model.named_parameters()}
    return widths, {name: buffer.cpu() for name, buffer in model.named_buffers()}


def whole(value: Tensor) -> Tensor:
    """A scalar of a sharded computation, the same on all ranks."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def whole_weights(scored: TokenLogprobs) -> dict[str, Tensor]:
    """Collective: a sharded model's tensors, or its adapters', by name on rank 0."""
    model: PreTrainedModel = scored.model
    options = replace(_WHOLE, ignore_frozen_params=has_adapter(model))
    once = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    # Gathered tensors are copies: a weight that two modules tie would be written twice.
    return {
        name: value
        for name, value in get_model_state_dict(model, options=options).items()
        if name in once and isinstance(value, Tensor)
    }


def optimizer_state(model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Collective: an optimizer's state by the names of parameters, whole, on rank 0."""
    return dict(get_optimizer_state_dict(model, optimizer, options=_WHOLE))


def load_optimizer_state(model: PreTrainedModel, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Collective: continue from :func:`optimizer_state`, whatever number of ranks wrote it; every rank brings it."""
    spread = any(isinstance(parameter, DTensor) for parameter in model.parameters())
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=spread)
    set_optimizer_state_dict(model, optimizer, state, options=options)
