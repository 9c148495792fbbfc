"""How a model's layers hold less in memory during training: recomputation, offloading to the host, tiles.

:func:`economise` changes *how* a model computes its gradients and never what they are (tested to 1e-5 in fp32). Written over
the modules of any decoder with ``layers`` and their ``mlp``. Works under FSDP2, whose hooks stay outside.

:func:`tiled` runs a token-wise module over tiles of tokens; for the gradient each tile runs again. Weights' gradients are added
up over tiles in float32 and rounded once: in 16 bits, 32 tiles err 1.6 to 2 times as much as none (`benchmarks/tiles.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Parameter
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.config import MemoryConfig, Recompute

_WORTH_MOVING = 1 << 20
_PIECE = 1 << 26
"""Bytes of one page-locked block: torch makes each as large as the next power of two, which of 1.3 GB would be 2.1."""
_Packed = Tensor | tuple[torch.device, torch.Size, list[Tensor]]


def tiled(module: nn.Module, tile: int) -> Callable[[Tensor], Tensor]:
    """A ``forward`` for the module, over [..., H], that takes ``tile`` tokens at a time. Without random numbers inside."""
    forward = module.forward

    def run(hidden: Tensor) -> Tensor:
        line = hidden.flatten(0, -2)
        if len(line) <= tile:
            return forward(hidden)
        if not torch.is_grad_enabled():
            return _joined(line, (forward(part) for part in line.split(tile))).unflatten(0, hidden.shape[:-1])
        weights = _trained(module)
        found = _Tiles.apply(module, forward, tile, _Held(_Kept.apply(line, *weights)), line, *weights)
        return found.unflatten(0, hidden.shape[:-1])

    return run


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _joined(like: Tensor, parts: Iterator[Tensor]) -> Tensor:
    """Tiles one behind the other, each freed once it is copied."""
    whole: Tensor | None = None
    start = 0
    for part in parts:
        if whole is None:
            whole = part.new_empty(len(like), part.shape[-1])
        whole[start : start + len(part)] = part
        start += len(part)
    assert whole is not None
    return whole


class _Kept(Function):
    """Saves a tensor before it is used: a layer that is computed again stops here, and does not run the module for nothing."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, *weights: Tensor) -> Tensor:
        del weights  # they are given so that there is a graph where only they are trained
        ctx.save_for_backward(hidden)
        return hidden.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Never called: nothing depends on the output."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Held:
    """What `_Kept` gave, out of autograd's sight; before torch 2.13 its ``grad_fn`` alone would lose what it saved."""

    output: Tensor

    def hidden(self) -> Tensor:
        """What was saved."""
        assert self.output.grad_fn is not None
        (hidden,) = self.output.grad_fn.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        return hidden


class _Tiles(Function):
    @staticmethod
    def forward(
        ctx: Any, module: nn.Module, run: Callable[[Tensor], Tensor], tile: int, kept: _Held, hidden: Tensor, *weights: Tensor
    ) -> Tensor:
        ctx.module, ctx.run, ctx.tile, ctx.kept = module, run, tile, kept
        kind = hidden.device.type
        ctx.cast = (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        # A cast that autocast kept from here would have no gradient.
        with torch.autocast(*ctx.cast[:2], enabled=ctx.cast[2], cache_enabled=False):
            return _joined(hidden, (run(part) for part in hidden.split(tile)))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        hidden = ctx.kept.hidden()
        ctx.kept = None  # no node of the graph, so nothing else would let go of what it saved
        weights = _trained(ctx.module)
        sums = [torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32)) for weight in weights]

        def backwards() -> Iterator[Tensor]:
            for part, wanted in zip(hidden.split(ctx.tile), gradient.split(ctx.tile), strict=True):
                part = part.detach().requires_grad_()
                with torch.enable_grad(), torch.autocast(*ctx.cast[:2], enabled=ctx.cast[2], cache_enabled=False):
                    output = ctx.run(part)
                own, *found = torch.autograd.grad(output, [part, *weights], wanted)
                for total, one in zip(sums, found, strict=True):
                    total += one
                yield own

        of_hidden = _joined(hidden, backwards())
        return None, None, None, None, of_hidden, *(total.to(w.dtype) for total, w in zip(sums, weights, strict=True))


def economise(model: PreTrainedModel, config: MemoryConfig) -> None:
    """Let a model's layers keep what the settings allow, from now on, in place. To be called once.

    Raises UserError for a model whose layers are not known.
    """
    if config.recompute is Recompute.NONE and config.mlp_tile is None:
        return
    for layer in decoder_layers(model):
        if config.mlp_tile is not None:
            mlp = layer.get_submodule("mlp")
            mlp.forward = tiled(mlp, config.mlp_tile)
        if config.recompute is not Recompute.NONE:
            layer.forward = _recomputed(layer.forward, offload=config.offload)


def decoder_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The blocks of a decoder, first to last. Raises UserError when the model has none."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise UserError(f"The layers of a {type(model).__name__} are not known: set trainer.memory.recompute to none.")
    return list(layers)


def _recomputed(forward: Callable[..., Any], *, offload: bool) -> Callable[..., Any]:
    """A layer that keeps its input, and runs again when its gradient is wanted."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        with on_host() if offload else nullcontext():
            # No dropout, so there is no random state to bring back.
            return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run


@contextmanager
def on_host(device: str = "cuda") -> Iterator[None]:
    """What autograd saves inside the block waits in page-locked host memory; parameters and small tensors stay."""

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
