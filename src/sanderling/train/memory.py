"""How a model's layers hold less in memory during training: recomputation, offloading to the host, tiles.

:func:`economise` changes *how* a model computes its gradients and never what they are (tested to 1e-5 in fp32): what is kept
of the forward pass is less, what is missing is computed again, or waits in the host's memory. Written over the modules of any
decoder with ``layers`` and their ``mlp``; knows no trainer, loss or sharding. Works under FSDP2, whose hooks stay outside.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Parameter
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.config import MemoryConfig, Recompute
from sanderling.train.tiles import tiled

_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)
"""The kernels behind ``scaled_dot_product_attention``: quadratic to run, linear to keep."""
_WORTH_MOVING = 1 << 20
"""Bytes; smaller tensors stay where they are."""
_PIECE = 1 << 26
"""Bytes of one page-locked block: torch makes each as large as the next power of two, which of 1.3 GB would be 2.1."""
_Packed = Tensor | tuple[torch.device, torch.Size, list[Tensor]]


def economise(model: PreTrainedModel, config: MemoryConfig) -> None:
    """Let a model's layers keep what the settings allow, from now on, in place. To be called once.

    Raises UserError for a model whose layers are not known.
    """
    if config.recompute is Recompute.NONE and config.mlp_tile is None:
        return
    for layer in decoder_layers(model):
        if config.mlp_tile is not None:
            mlp = getattr(layer, "mlp", None)
            if not isinstance(mlp, nn.Module):
                raise UserError("This model's layers have no `mlp` to cut into tiles: unset trainer.memory.mlp_tile.")
            mlp.forward = tiled(mlp, config.mlp_tile)
        if config.recompute is not Recompute.NONE:
            layer.forward = _recomputed(layer.forward, config)


def decoder_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The blocks of a decoder, first to last. Raises UserError when the model has none."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise UserError(f"The layers of a {type(model).__name__} are not known: set trainer.memory.recompute to none.")
    return list(layers)


def _recomputed(forward: Callable[..., Any], config: MemoryConfig) -> Callable[..., Any]:
    """A layer that keeps its input (selective: and attention's outputs), and runs again when its gradient is wanted."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        options: dict[str, Any] = {}
        if config.recompute is Recompute.SELECTIVE:
            options["context_fn"] = partial(create_selective_checkpoint_contexts, _kept_operators())
        with on_host() if config.offload else nullcontext():
            # No dropout, so there is no random state to bring back.
            return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **options, **kwargs)

    return run


def _kept_operators() -> list[Any]:
    return [getattr(torch.ops.aten, name).default for name in _ATTENTION if hasattr(torch.ops.aten, name)]


@contextmanager
def on_host(device: str = "cuda") -> Iterator[None]:
    """What autograd saves inside the block waits in page-locked host memory; parameters and small tensors stay.

    Copies run in the order of the device's own work, so that nothing is read before it is there, and cost little beside a
    layer of a long row: 1.3 GB for 256K tokens of 2,560 numbers.
    """

    def pack(tensor: Tensor) -> _Packed:
        size = tensor.numel() * tensor.element_size()
        if tensor.device.type != device or size < _WORTH_MOVING or isinstance(tensor, Parameter):
            return tensor
        parts = tensor.flatten().split(_PIECE // tensor.element_size())
        pieces = [torch.empty(part.shape, dtype=part.dtype, pin_memory=device == "cuda") for part in parts]
        return (
            tensor.device,
            tensor.shape,
            [kept.copy_(part, non_blocking=True) for kept, part in zip(pieces, parts, strict=True)],
        )

    def unpack(packed: _Packed) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        home, shape, pieces = packed
        whole = torch.empty(shape, dtype=pieces[0].dtype, device=home)
        for part, kept in zip(whole.view(-1).split(pieces[0].numel()), pieces, strict=True):
            part.copy_(kept, non_blocking=True)
        return whole

    hooks: AbstractContextManager[Any] = saved_tensors_hooks(pack, unpack)
    with hooks:
        yield


@contextmanager
def in_tiles(model: PreTrainedModel, tile: int) -> Iterator[None]:
    """Inside the block MLPs look at ``tile`` tokens at a time; those that already do, and layers that are not known, stay."""
    layers = getattr(model.base_model, "layers", ())
    found = [mlp for layer in layers if isinstance(mlp := getattr(layer, "mlp", None), nn.Module)]
    changed = [mlp for mlp in found if "forward" not in vars(mlp)]
    try:
        for mlp in changed:
            mlp.forward = tiled(mlp, tile)
        yield
    finally:
        for mlp in changed:
            vars(mlp).pop("forward", None)
