"""A team: the processes that train one model together, with a copy or a shard (FSDP2) each, and who shares a line.

Every rank calls the same methods in the same order. What ranks do with gathered values is deterministic, and gradients are
summed to the same bits everywhere, so the copies stay equal without ever being compared. A rank that fails tells the others why
and leaves; they raise the same at their next call, as they do when a rank was killed.
"""

import gc
import json
import os
import socket
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import Store
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.memory import decoder_layers

if TYPE_CHECKING:
    from sanderling.train.packing import TokenLogprobs


T = TypeVar("T")
_MEETING = timedelta(minutes=5)
_PATIENCE = timedelta(days=2)
"""How long a rank waits for a slower one, which may wait for a server; a rank that died is noticed at once."""
_REASON = "why"
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "ncclRemoteError")
"""What gloo and NCCL say where the other end is gone."""


class Team:
    """What ranks say to each other; made as it is, the team of one, which sends nothing.

    All methods are collective: every rank has to call them.
    """

    sharded: bool = False
    """Whether ranks hold parts of the model each, so that every pass needs all of them."""
    gradient_scale: float = 1.0
    """What a rank's loss is multiplied by, so that gradients end as their sum over ranks."""

    def __init__(self, rank: int = 0, size: int = 1, context: "Context | None" = None) -> None:
        self.rank = rank
        """0 to ``size - 1``; rank 0 writes files and talks to people."""
        self.size = size
        self.context = context
        """The ranks that share a line with this one; None: it computes its lines alone."""
        shared = context.size if context else 1
        self.hands, self.hand = size // shared, rank // shared
        """Into how many parts a batch is dealt, and which is this rank's: ranks that share a line have one part."""

    def prepare(self, scored: "TokenLogprobs") -> None:
        """Lay the model out over the ranks, before its optimizer is made."""

    def passes(self, own: int) -> int:
        """How many forward passes this rank has to make, when it has work for ``own``."""
        return own

    def gather(self, value: T) -> list[T]:
        """Everybody's value (pickled on the way), in rank order, on every rank."""
        return [value]

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace each gradient by its sum over ranks, the same bits on all; where no rank has one, there is none after it."""


SOLO = Team()


def share(team: Team, items: Sequence[T]) -> list[T]:
    """The rank's contiguous share of items that every rank holds; sizes differ by one at most."""
    first, end = (len(items) * rank // team.size for rank in (team.rank, team.rank + 1))
    return list(items[first:end])


def joined(team: Team, own: list[T]) -> list[T]:
    """All ranks' items in rank order: puts together what :func:`share` cut."""
    return [item for part in team.gather(own) for item in part]


class Replicated(Team):
    """Processes with a copy of the model each, over torch.distributed. Made by :func:`join_team` and :func:`member`."""

    def __init__(self, rank: int, size: int, store: Store, context: "Context | None" = None) -> None:
        super().__init__(rank, size, context)
        self._store = store

    def gather(self, value: T) -> list[T]:
        found: list[T | None] = [None] * self.size
        with self._explained():
            dist.all_gather_object(found, value)
        return cast(list[T], found)

    def sum_gradients(self, model: nn.Module) -> None:
        parameters = [p for p in model.parameters() if p.requires_grad]
        ranks = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
        with self._explained():
            dist.all_reduce(ranks)
            for parameter, count in zip(parameters, ranks.tolist(), strict=True):
                if count:
                    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                    parameter.grad = gradient.contiguous()
                    dist.all_reduce(parameter.grad)

    def tell(self, error: BaseException) -> None:
        """Leave the reason of a failure where the others look when they miss this rank; the first reason stays."""
        if not self._store.check([_REASON]):
            sentence = str(error) if isinstance(error, UserError) else None
            reason = {"rank": self.rank, "sentence": sentence, "trace": "".join(traceback.format_exception(error))}
            self._store.set(_REASON, json.dumps(reason))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as lost:
            raise self.cause(lost) from lost

    def cause(self, error: RuntimeError) -> Exception:
        """What made another rank leave first, where an error is but the loss of its connection; else the error itself."""
        if not self._store.check([_REASON]):
            return UserError(
                f"One of this run's {self.size} processes ended unexpectedly (killed, or out of memory): "
                "run the same command again to continue from the last checkpoint."
            )
        reason = json.loads(self._store.get(_REASON))
        if reason["rank"] == self.rank:
            return error
        if reason["sentence"] is not None:
            return UserError(reason["sentence"])
        return RuntimeError(f"process {reason['rank']} of {self.size} failed:\n{reason['trace']}")


@contextmanager
def join_team(rank: int, size: int, meeting: Path, backend: str = "gloo", context: int = 1) -> Iterator[Team]:
    """Be one of ``size`` processes that meet in a new directory; each ``context`` of them, one after the other, share lines.

    An error inside the block is told to the other ranks, and raised. One team at a time in a process. Raises UserError when the
    others do not come within five minutes.
    """
    if size == 1:
        yield SOLO
        return
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
    # Documented, but not among the names that torch marks as exported.
    store = dist.FileStore(str(meeting / "store"), size)  # pyright: ignore[reportPrivateImportUsage]
    with member(store, rank, size, backend, context) as team:
        yield team


@contextmanager
def member(store: Store, rank: int, size: int, backend: str, context: int = 1) -> Iterator[Team]:
    """As :func:`join_team`, for processes that share a store of torch's."""
    store.set(f"here-{rank}", "")
    try:
        store.wait([f"here-{other}" for other in range(size)], _MEETING)
    except RuntimeError as late:
        raise UserError(
            f"Not all of this run's {size} processes began: free some memory, or set a smaller number of processes."
        ) from late
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    team = Replicated(rank, size, store, _neighbours(rank, size, context))
    try:
        yield team
    except RuntimeError as error:
        if not any(words in str(error) for words in _LOST):  # a connection's loss is never the first reason
            team.tell(error)
        raise team.cause(error) from error
    except BaseException as error:
        team.tell(error)
        raise
    finally:
        gc.collect()  # a model in cycles would hold on to the group until the interpreter ends, whose threads then abort it
        # This closes the connections, which is what wakes ranks that wait for this one.
        dist.destroy_process_group()


def loopback() -> str:
    """The network interface that leads nowhere but here: ``lo``, or ``lo0``."""
    return next(name for _, name in socket.if_nameindex() if name.startswith("lo"))


@dataclass(frozen=True)
class Context:
    """Context parallelism: the ranks that share the tokens of a line, for rows that are too long for one device.

    Each rank works on tokens of its own. For attention the ranks trade tokens for heads, all to all, so that each sees the
    whole line with some of the heads, and trade back (DeepSpeed-Ulysses, Jacobs et al. 2023): packed rows, forks and probes
    stay exact. torch's own `context_parallel` takes one causal row, on CUDA only. All calls are collective among the ranks.
    """

    rank: int
    size: int
    group: ProcessGroup

    def gather_tokens(self, states: Tensor) -> Tensor:
        """The rank's tokens with all heads [1, H, T / size, D], to all tokens with the rank's heads [1, H / size, T, D]."""
        heads = states.shape[1]
        if heads < self.size:  # key heads: each rank has the one that its queries look at
            states = states.repeat_interleave(self.size // heads, 1)
        return _Trade.apply(states, self, True)  # pyright: ignore[reportReturnType]  # torch leaves `apply` untyped

    def scatter_tokens(self, states: Tensor) -> Tensor:
        """The way back: [1, H / size, T, D] to [1, H, T / size, D]."""
        return _Trade.apply(states, self, False)  # pyright: ignore[reportReturnType]


def _neighbours(rank: int, size: int, context: int) -> Context | None:
    """Collective: this rank's neighbours on a line."""
    if context == 1:
        return None
    groups = [dist.new_group(range(first, first + context), timeout=_PATIENCE) for first in range(0, size, context)]
    return Context(rank % context, context, cast(ProcessGroup, groups[rank // context]))


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

    def prepare(self, scored: "TokenLogprobs") -> None:
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


def whole_weights(scored: "TokenLogprobs") -> dict[str, Tensor]:
    """Collective: a sharded model's tensors, or its adapters', by name on rank 0."""
    model: PreTrainedModel = scored.model
    options = replace(_WHOLE, ignore_frozen_params=bool(getattr(model, "peft_config", None)))
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
