"""Many episodes at once, at most so many at a time: the one loop, started in the order of the jobs.

An episode that ends in an outage is a record like any other. One that raises (a programming error, or a UserError) does not
stop its siblings: the error is raised when they are done, and what they returned has been handed over by then.
With a journal, episodes that an earlier process was killed in go on. Knows no training, evaluation or store; ``on_done`` does.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.agent.journal import Journal
from sanderling.agent.loop import run_episode
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Clock
from sanderling.policy.contract import Policy
from sanderling.tools.contract import Tool


@dataclass(frozen=True)
class Job:
    """One episode to run.

    Example: ``Job(question, Seeds(run=1, episode=7, attempt=0), "q7-0")``
    """

    question: Question
    seeds: Seeds
    trajectory_id: str


async def run_episodes(
    jobs: Sequence[Job],
    *,
    policy: Policy,
    tools: Mapping[str, Tool],
    profile: Profile,
    clock: Clock,
    concurrency: int,
    world: str = "",
    on_done: Callable[[Trajectory], None] | None = None,
    cancel: asyncio.Event | None = None,
    on_cancel: Callable[[Trajectory], None] | None = None,
    journal: Journal | None = None,
) -> list[Trajectory]:
    """Run the jobs, at most ``concurrency`` at a time, and return the records in the order of the jobs.

    ``on_done`` is called as each episode ends. Once ``cancel`` is set, running episodes end CANCELLED, and jobs not yet begun
    give records of their question alone. A record is stored for the ``journal`` when ``on_done`` has returned; without
    ``on_done`` the caller tells it. Raises the UserError where all failures are UserErrors, else an ExceptionGroup.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, and must be at least 1")
    done: dict[int, Trajectory] = {}
    errors: list[Exception] = []
    waiting = iter(enumerate(jobs))

    async def worker() -> None:
        for index, job in waiting:  # shared by the workers: each takes the next job
            try:
                done[index] = await run_episode(
                    job.question,
                    policy=policy,
                    tools=tools,
                    profile=profile,
                    clock=clock,
                    trajectory_id=job.trajectory_id,
                    seeds=job.seeds,
                    world=world,
                    cancel=cancel,
                    on_cancel=on_cancel,
                    journal=journal,
                )
            except Exception as error:
                error.add_note(f"in the episode {job.trajectory_id!r}")
                errors.append(error)
                continue
            if on_done is not None:
                on_done(done[index])
                if journal is not None:
                    journal.stored(done[index])

    await _all([worker() for _ in range(min(concurrency, len(jobs)))])
    if errors:
        raise _combined(errors, len(jobs))
    return [done[index] for index in range(len(jobs))]


async def _all(workers: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run the workers to their end; when this task is cancelled or one fails, none is left running."""
    tasks = [asyncio.ensure_future(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _combined(errors: Sequence[Exception], total: int) -> Exception:
    """One exception for all: a user's mistake shows up as the one sentence that it is."""
    if all(isinstance(error, UserError) for error in errors):
        return errors[0]
    return ExceptionGroup(f"{len(errors)} of {total} episodes failed", errors)
