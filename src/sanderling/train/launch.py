"""The processes of a run: started by torchrun, or by the command itself on this machine; and how they find each other.

Under torchrun each reads its place from the environment (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``). On CUDA every process has a
device of its own and tensors travel over NCCL; on a CPU over gloo, with one thread each. A worker ends as soon as its parent
has ended, so a killed run does not go on writing behind the one that takes it up again. Importable without torch.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sanderling.core.errors import UserError
from sanderling.runs.files import end_with_parent, locked
from sanderling.runs.progress import Report
from sanderling.train.config import ParallelConfig, ParallelKind
from sanderling.train.metrics import METRICS, WATCHERS, OnProgress, read_metrics

if TYPE_CHECKING:
    import torch

    from sanderling.train.fit import Shape
    from sanderling.train.team import Team


_LINGER_S = 60.0
"""How long others get when one has failed; ranks on CUDA would wait for it for hours."""


def run_tasks(tasks: Sequence[Callable[[], Any]], workers: int, poll: Callable[[], None], every_s: float = 0.5) -> list[Any]:
    """Run all tasks, at most ``workers`` at a time; returns their results in order. ``poll`` is called now and then meanwhile.

    After a failure no further task is begun, and the first exception is raised as itself when the tasks that run have ended,
    or after a minute. After Ctrl-C, or what ``poll`` raises, the workers are ended at once. Raises UserError when a worker was
    killed.
    """
    context = multiprocessing.get_context("spawn")
    futures: list[Future[Any]] = []
    running: set[Future[Any]] = set()
    failure: BaseException | None = None
    failed = 0.0
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool, _ended_with_us():
            while True:
                # One by one: what the pool has in its queue it would begin even after a failure.
                while failure is None and len(futures) < len(tasks) and len(running) < workers:
                    with _deaf_to_interrupts():
                        futures.append(pool.submit(tasks[len(futures)]))
                    running.add(futures[-1])
                if not running:
                    break
                done, running = wait(running, timeout=every_s, return_when=FIRST_COMPLETED)
                poll()
                if failure is None:
                    failure = next((future.exception() for future in done if future.exception() is not None), None)
                    failed = time.monotonic()
                elif time.monotonic() - failed > _LINGER_S:
                    raise failure
        if failure is not None:
            raise failure
    except BrokenProcessPool as error:
        raise UserError(
            "A worker process was killed, most likely for want of memory: run the same command again to resume, "
            "with fewer processes at a time if it happens again."
        ) from error
    return [future.result() for future in futures]


def run_team(function: Callable[..., Any], arguments: tuple[Any, ...], size: int, poll: Callable[[], None]) -> list[Any]:
    """Run ``function(rank, size, meeting, *arguments)`` in ``size`` workers together; returns the ranks' results.

    ``meeting`` is a new directory in which the ranks find each other. The rest, and what it raises, as in :func:`run_tasks`.
    """
    with tempfile.TemporaryDirectory(prefix="sanderling-") as meeting:
        return run_tasks([partial(function, rank, size, Path(meeting), *arguments) for rank in range(size)], size, poll)


@contextmanager
def followed(
    report: Report, title: str, total: int, look: Callable[[], tuple[int, str]], start: int = 0
) -> Iterator[Callable[[], None]]:
    """A bar over what other processes do; what it gives takes a ``look`` at how many units are done, and what to note of it."""
    seen = start
    with report.task(title, total, start) as advance:

        def follow() -> None:
            nonlocal seen
            now, note = look()
            if now > seen:
                advance(now - seen, note)
                seen = now

        yield follow


@contextmanager
def _ended_with_us() -> Iterator[None]:
    """Without this, the pool would wait for the ends of tasks that nobody waits for any more."""
    try:
        yield
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A worker begun in here never sees Ctrl-C, which a terminal sends to all: it is ended by its parent, without traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """In a worker: one thread for tensors, and an end when the parent is gone."""
    end_with_parent()
    for library in ("OMP", "MKL"):  # read when tensors are first used: tasks that need none do not wait for the import
        os.environ[f"{library}_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    warnings.formatwarning = lambda message, *where, **line: f"warning: {message}\n"


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


def check_parallel(parallel: ParallelConfig, size: int, shape: "Shape | None" = None) -> None:
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

    from sanderling.train.team import Sharded, join_team, loopback, member

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


# -- a run's job, in whatever processes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job(Generic[T]):
    """What all processes of a run do together; it goes to them pickled."""

    content: T
    title: str
    steps: int
    done: int = 0
    """Steps that an earlier command has taken."""
    watch: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """In what processes the job of a run is done."""

    out: Path
    parallel: ParallelConfig
    bfloat16: bool
    processes: int = 1

    def run(
        self,
        prepare: Callable[[int], Job[T] | None],
        work: "Callable[[Team, torch.device, T, OnProgress | None], None]",
        figures: Callable[[Sequence[Mapping[str, Any]]], str],
        report: Report,
    ) -> bool:
        """Do the job; returns whether there was one. Raises UserError.

        ``prepare`` is called on rank 0 alone, with the number of processes; it checks everything, and gives None where nothing
        is left to do. ``work``, a module's function, is called in every process, with what reports progress on rank 0.
        ``figures`` makes a line of all metrics so far.
        """

        def taken() -> tuple[int, str]:
            lines = read_metrics(self.out / METRICS)
            return (lines[-1]["step"], figures(lines)) if lines else (0, "")

        place = torchrun_place() or Place()
        if place.size > 1 and self.processes > 1:
            raise UserError("torchrun has started the processes already: leave --processes out.")
        if place.size > 1:
            first = place.rank == 0
            with (
                opened_team(self.parallel, place, None, bfloat16=self.bfloat16) as (team, device),
                locked(self.out) if first else nullcontext(),
            ):
                job = team.gather(prepare(place.size) if first else None)[0]
                if job is not None:
                    bar = followed(report, job.title, job.steps, taken, job.done)
                    with bar as follow, self.views(job, follow) if first else nullcontext() as watch:
                        work(team, device, job.content, watch)
            return job is not None
        with locked(self.out):
            job = prepare(self.processes)
            if job is not None:
                with followed(report, job.title, job.steps, taken, job.done) as follow:
                    if self.processes > 1:
                        run_team(_in_worker, (self, job, work), self.processes, follow)
                    else:
                        _in_worker(0, 1, None, self, job, work, follow)
                    follow()
        return job is not None

    @contextmanager
    def views(self, job: Job[Any], follow: Callable[[], None] | None) -> Iterator[OnProgress]:
        """The views that were asked for, and the bar, where there is one; on rank 0 only."""
        opened = (WATCHERS[name](self.out, dict(job.settings), job.done) for name in job.watch)
        with ExitStack() as stack:
            views = [stack.enter_context(closing(view)) for view in opened]

            def on_progress(step: int, metrics: Mapping[str, float]) -> None:
                for view in views:
                    view.log(step, metrics)
                if follow is not None:
                    follow()

            yield on_progress


def _in_worker(
    rank: int, size: int, meeting: Path | None, launch: Launch, job: Job[Any], work: Any, follow: Any = None
) -> None:
    with launch.views(job, follow) if rank == 0 else nullcontext() as watch:
        place = Place(rank, size, rank, size)
        with opened_team(launch.parallel, place, meeting, bfloat16=launch.bfloat16) as (team, device):
            work(team, device, job.content, watch)
