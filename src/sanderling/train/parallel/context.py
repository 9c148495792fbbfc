"""Context parallelism: the tokens of a line shared out over ranks, for rows that are too long for one device.

Everything but attention looks at one token at a time, so each rank works on tokens of its own. For attention the ranks trade
tokens for heads, all to all, so that each sees the whole line with some of the heads, and trade back (DeepSpeed-Ulysses, Jacobs
et al. 2023). What attends to what is then decided by the code that a single process runs: packed rows, forks and probes stay
exact, and every rank has the same work. torch's own `context_parallel` shares out keys instead; it takes one causal row, on
CUDA only.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Context:
    """The ranks that share a line. All calls are collective among them, backward passes too."""

    rank: int
    """0 to ``size - 1``; rank r holds the r-th of ``size`` equal parts."""
    size: int
    group: ProcessGroup

    def gather_tokens(self, states: Tensor) -> Tensor:
        """The rank's tokens with all heads [1, H, T / size, D], to all tokens with the rank's heads [1, H / size, T, D].

        Fewer key heads than ranks are repeated, so that each rank has the one that its queries look at. Raises ValueError for
        numbers of heads that cannot be shared out.
        """
        heads = states.shape[1]
        if heads < self.size and self.size % heads == 0:
            states = states.repeat_interleave(self.size // heads, 1)
        elif heads % self.size:
            raise ValueError(f"{heads} heads cannot be shared out over {self.size} ranks")
        return _Trade.apply(states, self, True)  # pyright: ignore[reportReturnType]  # torch leaves `apply` untyped

    def scatter_tokens(self, states: Tensor) -> Tensor:
        """The way back: [1, H / size, T, D] to [1, H, T / size, D]."""
        return _Trade.apply(states, self, False)  # pyright: ignore[reportReturnType]


class _Trade(torch.autograd.Function):
    """One all-to-all; its gradient is the opposite one."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, context: Context, gather: bool) -> Tensor:
        ctx.context, ctx.gather = context, gather
        return _traded(states, context, gather)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _traded(gradients[0], ctx.context, not ctx.gather), None, None


def _traded(states: Tensor, context: Context, gather: bool) -> Tensor:
    n, (_, heads, tokens, size) = context.size, states.shape
    if gather:
        sent = states.reshape(n, heads // n, tokens, size).contiguous()
    else:
        sent = states.reshape(heads, n, tokens // n, size).transpose(0, 1).contiguous()
    came = torch.empty_like(sent)
    dist.all_to_all_single(came, sent, group=context.group)
    if gather:
        return came.transpose(0, 1).reshape(1, heads // n, n * tokens, size)
    return came.reshape(1, heads * n, tokens // n, size)
