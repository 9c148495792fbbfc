"""How the processes of a run are started and find each other: by torchrun, or by the command itself on this machine.

Under torchrun each reads its place from the environment (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``). On CUDA every process has a
device of its own and tensors travel over NCCL; on a CPU over gloo. Importable without torch.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sanderling.core.errors import UserError
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.train.config import ParallelConfig, ParallelKind
from sanderling.train.metrics import METRICS, OnProgress, Progress, open_watcher, read_metrics
from sanderling.train.parallel.workers import run_team
from sanderling.train.shape import Shape

if TYPE_CHECKING:
    import torch

    from sanderling.train.parallel.team import Team

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """One process among those of a run."""

    rank: int = 0
    size: int = 1
    local: int = 0
    local_size: int = 1


def torchrun_place() -> Place | None:
    """The place of this process under torchrun; None without it."""
    if not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= set(os.environ):
        return None
    rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return Place(rank, size, local, int(os.environ.get("LOCAL_WORLD_SIZE", size)))


def speaks() -> bool:
    """Whether this process may print: it is alone, or the first of torchrun's."""
    place = torchrun_place()
    return place is None or place.rank == 0


def check_parallel(parallel: ParallelConfig, size: int, shape: Shape | None = None) -> None:
    """Raises UserError when ``size`` processes cannot work together under these settings, or not on a model of this shape."""
    if size > 1 and parallel.kind is ParallelKind.NONE:
        raise UserError(f"{size} processes, but parallel.kind is none: set it to fsdp or replicate, or start one process.")
    if size % parallel.context:
        raise UserError(
            f"{parallel.context} processes share each row (parallel.context), but there are {size}: start a multiple of them."
        )
    if shape is not None and not shape.shared_by(parallel.context):
        fitting = [n for n in range(1, shape.heads + 1) if shape.shared_by(n)]
        raise UserError(
            f"{parallel.context} processes cannot share the model's {shape.heads} heads ({shape.kv_heads} of keys): "
            f"set parallel.context to one of {', '.join(map(str, fitting))}."
        )


@contextmanager
def opened_team(
    parallel: ParallelConfig, place: Place, meeting: Path | None, *, bfloat16: bool
) -> "Iterator[tuple[Team, torch.device]]":
    """The team of a run and this process' device. ``meeting``: see `team.join_team`; None: torchrun. Raises UserError.

    One process in bfloat16 is a mesh of one: what layers hand on is then 16 bits wide; automatic mixed precision keeps 32.
    """
    import torch
    from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]
    from torch.distributed.rendezvous import rendezvous

    from sanderling.train.parallel.sharding import Sharded
    from sanderling.train.parallel.team import join_team, loopback, member

    check_parallel(parallel, place.size)
    kind, context = parallel.kind, parallel.context
    device = torch.device("cpu")
    if torch.cuda.is_available():
        # Checked by all alike: those that have a GPU would wait minutes for those that have none.
        if place.local_size > torch.cuda.device_count():
            raise UserError(f"There are {torch.cuda.device_count()} GPUs for {place.local_size} processes: start one for each.")
        device = torch.device("cuda", place.local)
        torch.cuda.set_device(device)
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    if place.local_size == place.size:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
    alone_in_shards = place.size == 1 and kind is ParallelKind.FSDP and bfloat16
    if alone_in_shards:
        joining = member(HashStore(), 0, 1, backend)
    elif meeting is not None or place.size == 1:
        joining = join_team(place.rank, place.size, meeting or Path(), backend, context)
    else:
        store, _, _ = next(iter(rendezvous("env://")))
        joining = member(store, place.rank, place.size, backend, context)
    with joining as team:
        sharded = kind is ParallelKind.FSDP and (team.size > 1 or alone_in_shards)
        yield Sharded(team, bfloat16=bfloat16, device=device) if sharded else team, device


# -- a run's jobs, in whatever processes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job(Generic[T]):
    """A piece of a run that all its processes do together; it goes to them pickled."""

    content: T
    directory: Path
    title: str
    steps: int
    done: int = 0
    """Steps that an earlier command has taken."""
    watch: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """In what processes the jobs of a run are done."""

    out: Path
    parallel: ParallelConfig
    bfloat16: bool
    processes: int = 1

    def run(
        self,
        jobs: Callable[[int], Iterator[Job[T]]],
        work: "Callable[[Team, torch.device, T, OnProgress | None], None]",
        figures: Callable[[Sequence[Mapping[str, Any]]], str],
        report: Report,
    ) -> None:
        """Do all jobs, one after the other. Raises UserError.

        ``jobs`` is called on rank 0 alone, with the number of processes; it checks everything, and gives a job once the one
        before it is done. ``work``, a module's function, is called in every process, with what reports progress on rank 0.
        ``figures`` makes a line of all metrics so far.
        """
        place = torchrun_place() or Place()
        if place.size > 1 and self.processes > 1:
            raise UserError("torchrun has started the processes already: leave --processes out.")
        if place.size > 1:
            with opened_team(self.parallel, place, None, bfloat16=self.bfloat16) as (team, device):
                first = team.rank == 0
                with locked(self.out) if first else nullcontext():
                    coming = jobs(place.size) if first else iter(())
                    while (job := team.gather(next(coming, None))[0]) is not None:
                        with (
                            _bar(job, figures, report) if first else nullcontext() as follow,
                            _views(job, first, follow) as watch,
                        ):
                            work(team, device, job.content, watch)
            return
        with locked(self.out):
            for job in jobs(self.processes):
                with _bar(job, figures, report) as follow:
                    if self.processes > 1:
                        run_team(_in_worker, (self, job, work), self.processes, follow)
                    else:
                        with _views(job, True, follow) as watch:
                            self._in_team(Place(), None, job, work, watch)
                    follow()

    def _in_team(self, place: Place, meeting: Path | None, job: Job[T], work: Any, watch: OnProgress | None) -> None:
        with opened_team(self.parallel, place, meeting, bfloat16=self.bfloat16) as (team, device):
            work(team, device, job.content, watch)


def _in_worker(rank: int, size: int, meeting: Path, launch: Launch, job: Job[Any], work: Any) -> None:
    with _views(job, rank == 0, None) as watch:
        launch._in_team(Place(rank, size, rank, size), meeting, job, work, watch)


@contextmanager
def _bar(job: Job[Any], figures: Callable[[Sequence[Mapping[str, Any]]], str], report: Report) -> Iterator[Callable[[], None]]:
    """A bar that follows the job's metrics."""
    seen = job.done
    with report.task(job.title, job.steps, start=seen) as advance:

        def follow() -> None:
            nonlocal seen
            lines = read_metrics(job.directory / METRICS)
            if lines and lines[-1]["step"] > seen:
                advance(lines[-1]["step"] - seen, figures(lines))
                seen = lines[-1]["step"]

        yield follow


@contextmanager
def _views(job: Job[Any], opened: bool, follow: Callable[[], None] | None) -> Iterator[OnProgress | None]:
    """The views that were asked for, and the bar, where there is one; on rank 0 only."""
    if not opened:
        yield None
        return
    with ExitStack() as stack:
        views = [stack.enter_context(closing(open_watcher(name, job.directory, job.settings, job.done))) for name in job.watch]

        def on_progress(progress: Progress) -> None:
            for view in views:
                view.log(progress.step, progress.metrics)
            if follow is not None:
                follow()

        yield on_progress
