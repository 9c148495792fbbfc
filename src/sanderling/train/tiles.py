"""A token-wise module over tiles of tokens: what is alive between its two ends is a tile's, not a row's.

For the gradient each tile runs again. Weights' gradients are added up over tiles in float32 and rounded once: added in 16 bits,
as autograd does under mixed precision, 32 tiles err 1.6 to 2 times as much as none (`benchmarks/tiles.py`). Knows no model,
trainer or sharding: parameters are those that the module has when it is called, and again when its gradient is taken.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function


def tiled(module: nn.Module, tile: int) -> Callable[[Tensor], Tensor]:
    """A ``forward`` for the module, over [..., H], that takes ``tile`` tokens at a time. Without random numbers inside."""
    forward = module.forward

    def run(hidden: Tensor) -> Tensor:
        line = hidden.flatten(0, -2)  # padded rows lie side by side: their tokens are as many as all rows' together
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
    """What `_Kept` gave, out of autograd's sight: no input of the node it is handed to.

    The output, not its ``grad_fn`` alone: before torch 2.13 what a node has saved goes with the last tensor that is made by it.
    """

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
