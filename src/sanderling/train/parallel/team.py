"""A team: the processes that train one model together, each with a copy of it (data parallelism).

Every rank calls the same methods in the same order. What ranks do with gathered values is deterministic, and gradients are
summed to the same bits everywhere (every rank makes the same buckets in the same order), so the copies stay equal without ever
being compared. A rank that fails tells the others why and leaves; they raise the same at their next call, as they do when a
rank was killed.
"""

import json
import os
import socket
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import Store
from torch.nn import Parameter

from sanderling.core.errors import UserError
from sanderling.train.config import GRADIENT_BUCKET
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.parallel.context import Context

T = TypeVar("T")
_MEETING = timedelta(minutes=5)
"""How long the first rank to come waits for the last."""
_PATIENCE = timedelta(days=2)
"""How long a rank waits for the work of a slower one, which may be all attempts at a stage's questions, or a server that is
away; a rank that died is noticed at once."""
_REASON = "why"
_LATE = ("imed out", "imeout")
"""What they say where nobody came in time."""
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "ncclRemoteError")
"""What gloo and NCCL say where the other end is gone."""


def sum_gradients(model: nn.Module, bucket_bytes: int = GRADIENT_BUCKET) -> None:
    """Collective: each gradient becomes its sum over ranks; where no rank has one there is none, where some have it all do."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    ranks = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
    dist.all_reduce(ranks)
    present = [p for p, count in zip(parameters, ranks.tolist(), strict=True) if count]
    for bucket in _buckets(present, bucket_bytes):
        for parameter in bucket:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in bucket if parameter.grad is not None]
        if len(gradients) == 1 and gradients[0].is_contiguous():  # sent from where it lies
            dist.all_reduce(gradients[0])
            continue
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, total in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(total.view_as(gradient))


def _buckets(parameters: Sequence[Parameter], most: int) -> Iterator[list[Parameter]]:
    """Parameters one after the other, as many at a time as do not exceed so many bytes; one that does is alone."""
    bucket: list[Parameter] = []
    filled = 0
    for parameter in parameters:
        if bucket and filled + parameter.nbytes > most:
            yield bucket
            bucket, filled = [], 0
        bucket.append(parameter)
        filled += parameter.nbytes
    if bucket:
        yield bucket


class Team:
    """What ranks say to each other; made as it is, the team of one, which sends nothing.

    All methods are collective: every rank has to call them.
    """

    sharded: bool = False
    """Whether ranks hold parts of the model each, so that every pass needs all of them."""
    gradient_scale: float = 1.0
    """What a rank's loss is multiplied by, so that gradients end as their sum over ranks."""

    def __init__(self, rank: int = 0, size: int = 1, context: Context | None = None) -> None:
        self.rank = rank
        """0 to ``size - 1``; rank 0 writes files and talks to people."""
        self.size = size
        self.context = context
        """The ranks that share a line with this one; None: it computes its lines alone."""
        shared = context.size if context else 1
        self.hands, self.hand = size // shared, rank // shared
        """Into how many parts a batch is dealt, and which is this rank's: ranks that share a line have one part."""

    def prepare(self, scored: TokenLogprobs) -> None:
        """Lay the model out over the ranks, before its optimizer is made."""

    def passes(self, own: int) -> int:
        """How many forward passes this rank has to make, when it has work for ``own``."""
        return own

    def gather(self, value: T) -> list[T]:
        """Everybody's value (pickled on the way), in rank order, on every rank."""
        return [value]

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace each gradient by its sum over ranks, the same bits on all; where no rank has one, there is none after it."""

    def sum_counts(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Sums by name over ranks; a name that a rank lacks counts 0 there."""
        total: Counter[str] = Counter()
        for part in self.gather(dict(counts)):
            total.update(part)
        return dict(total)


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

    def __init__(self, rank: int, size: int, store: Store, context: Context | None = None) -> None:
        super().__init__(rank, size, context)
        self._store = store

    def gather(self, value: T) -> list[T]:
        found: list[T | None] = [None] * self.size
        with self._others():
            dist.all_gather_object(found, value)
        return cast(list[T], found)

    def sum_gradients(self, model: nn.Module) -> None:
        with self._others():
            sum_gradients(model)

    def tell(self, error: BaseException) -> None:
        """Leave the reason of a failure where the others look when they miss this rank; the first reason stays."""
        if not self._store.check([_REASON]):
            sentence = str(error) if isinstance(error, UserError) else None
            reason = {"rank": self.rank, "sentence": sentence, "trace": "".join(traceback.format_exception(error))}
            self._store.set(_REASON, json.dumps(reason))

    @contextmanager
    def _others(self) -> Iterator[None]:
        """Turn the loss of a connection into what happened at its other end."""
        try:
            yield
        except RuntimeError as lost:
            raise self._failure(lost) from lost

    def cause(self, error: RuntimeError) -> Exception:
        """What made another rank leave first, where an error is but the loss of its connection; else the error itself."""
        told = self._store.check([_REASON]) and json.loads(self._store.get(_REASON))["rank"] == self.rank
        return error if told else self._failure(error)

    def _failure(self, error: RuntimeError) -> Exception:
        if not self._store.check([_REASON]):
            if any(words in str(error) for words in _LATE):
                return UserError(
                    f"One of this run's {self.size} processes was waited for in vain ({_PATIENCE.days} days): see what it "
                    "waits for, and run the same command again to continue from the last checkpoint."
                )
            return UserError(
                f"One of this run's {self.size} processes ended unexpectedly (killed, or out of memory): "
                "run the same command again to continue from the last checkpoint."
            )
        reason = json.loads(self._store.get(_REASON))
        if reason["sentence"] is not None:
            return UserError(reason["sentence"])
        return RuntimeError(f"process {reason['rank']} of {self.size} failed:\n{reason['trace']}")


@contextmanager
def join_team(rank: int, size: int, meeting: Path, backend: str = "gloo", context: int = 1) -> Iterator[Team]:
    """Be one of ``size`` processes that meet in a directory, which has to be new: old traces in it would be taken for members.

    ``context``: how many of them, one after the other, share each line; it divides ``size``.

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
    _meet(store, rank, size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    team = Replicated(rank, size, store, _shared(rank, size, context))
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
        # This closes the connections, which is what wakes ranks that wait for this one.
        dist.destroy_process_group()


def _shared(rank: int, size: int, context: int) -> Context | None:
    """Collective: this rank's neighbours on a line."""
    if context == 1:
        return None
    groups = [dist.new_group(range(first, first + context), timeout=_PATIENCE) for first in range(0, size, context)]
    group = groups[rank // context]
    if not isinstance(group, dist.ProcessGroup):
        raise RuntimeError(f"rank {rank} is not in the group that it shares lines with")
    return Context(rank % context, context, group)


def _meet(store: Store, rank: int, size: int) -> None:
    store.set(f"here-{rank}", "")
    try:
        store.wait([f"here-{other}" for other in range(size)], _MEETING)
    except RuntimeError as late:
        raise UserError(
            f"Not all of this run's {size} processes began: free some memory, or set a smaller number of processes."
        ) from late


def loopback() -> str:
    """The network interface that leads nowhere but here: ``lo``, or ``lo0``."""
    return next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
