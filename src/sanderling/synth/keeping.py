"""Work on many items, side by side, kept item by item: what every maker and checker of questions does with its models.

An item that is done stands whole in a log and is never done again, so a run that was killed ends as one that was not. One that
met an outage is not done; once the budget is spent nothing more is begun. Knows neither items nor models.

A book of verdicts (`reward.judging`) is a log of finished work as well, and another one: there a key holds all that a verdict
depends on, so one book serves any judge and any file. What is kept here depends on far more: a log says once, in its heading,
what it was made with, and work with other settings is refused before anything is paid twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from sanderling.core.asking import AskingOutageError, BudgetSpentError
from sanderling.core.errors import UserError
from sanderling.evaluate.made_with import go_on_with
from sanderling.runs.jsonl import JsonlLog

Item = TypeVar("Item")
Result = TypeVar("Result")
_HEADING = "made_with"


@dataclass(frozen=True)
class Work(Generic[Item, Result]):
    """What is done with each item, and how its result is kept."""

    do: Callable[[Item], Awaitable[Result]]
    """Raises AskingOutageError when the item has to wait for a better time."""
    encode: Callable[[Result], dict[str, Any]]
    decode: Callable[[dict[str, Any]], Result]
    made_with: dict[str, Any]
    """JSON: what a log must have been made with to be gone on with."""
    is_settled: Callable[[Result], bool] = lambda _: True
    """Whether an earlier run's result stands; one that does not is kept, and the item is done anew."""


@dataclass
class Worked(Generic[Result]):
    """How far it came."""

    done: dict[str, Result] = field(default_factory=dict)
    """By item, those of earlier runs included."""
    outages: int = 0
    """Items that are still to be done."""
    stopped: str = ""
    """Why nothing more was begun; empty: all was."""


async def work_through(
    items: Mapping[str, Item],
    work: Work[Item, Result],
    log: Path,
    *,
    concurrency: int = 8,
    on_done: Callable[[Result], None] | None = None,
) -> Worked[Result]:
    """Do what the log does not hold, at most ``concurrency`` items at a time; ``on_done`` hears of earlier results too.

    Raises UserError when the log was made with something else; what ``do`` raises otherwise stops the run, and what is done
    stays done.
    """
    kept = JsonlLog(log)
    worked = Worked({key: result for key, result in _read(kept, work).items() if key in items and work.is_settled(result)})
    hear = on_done or _nobody
    for result in worked.done.values():
        hear(result)
    waiting = iter([(key, item) for key, item in items.items() if key not in worked.done])

    async def worker() -> None:
        for key, item in waiting:
            if worked.stopped:
                return
            try:
                result = await work.do(item)
            except BudgetSpentError as error:
                worked.stopped = str(error)
                return
            except AskingOutageError:
                worked.outages += 1
                continue
            kept.append({"item": key, "result": work.encode(result)})
            worked.done[key] = result
            hear(result)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(concurrency, len(items)))):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return worked


def _nobody(result: object) -> None:
    """Hears of a result, and does nothing about it."""


def _read(log: JsonlLog, work: Work[Any, Result]) -> dict[str, Result]:
    """Results by item. A new log gets its heading, one whose models have moved a further one."""
    lines = log.read_all()
    if not lines:
        log.append({_HEADING: work.made_with})
        return {}
    headings = [line[_HEADING] for line in lines if _HEADING in line]
    was = headings[-1] if _HEADING in lines[0] else None
    if go_on_with(was, work.made_with, log.path, "go on with those, name another place, or remove that file to begin again"):
        log.append({_HEADING: work.made_with})
    try:
        return {line["item"]: work.decode(line["result"]) for line in lines if _HEADING not in line}
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{log.path} holds something else than results: restore it, or remove it to begin again.") from error
