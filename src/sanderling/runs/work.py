"""Units of work, side by side, kept one by one: what every maker and checker of questions does with its models.

A unit that is done stands in the run's database and is never done again. One that met an outage is not done; once the budget is
spent nothing more is begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from pydantic import TypeAdapter

from sanderling.core.errors import UserError
from sanderling.core.types import AskingOutageError, BudgetSpentError
from sanderling.runs.run import Table

WAY_OUT = "go on with those, name another place, or remove that directory to begin again"
Item = TypeVar("Item")
Result = TypeVar("Result")


async def in_parallel(work: Callable[[Item], Awaitable[Result]], items: Sequence[Item], concurrency: int) -> list[Result]:
    """What comes of each item, at most so many at once, begun in order; the first failure stops the others and is raised."""
    pending, found = iter(enumerate(items)), dict[int, Result]()

    async def worker() -> None:
        for place, item in pending:
            found[place] = await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(items))):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [found[place] for place in range(len(items))]


async def all_of(work: Iterable[Awaitable[Result]]) -> list[Result]:
    """What comes of works that go on side by side, in order; the first failure is raised when all have come to an end."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for failure in found:
        if isinstance(failure, BaseException):
            raise failure
    return cast(list[Result], found)


@dataclass
class Worked(Generic[Result]):
    """The results so far by item, those of earlier runs included, and what is left to try again."""

    done: dict[str, Result]
    outages: int = 0
    stopped: str = ""  # why nothing more was begun; empty: all was


async def work_through(
    items: Mapping[str, Item],
    do: Callable[[Item], Awaitable[Result]],
    result_type: type[Result],
    kept: Table,
    *,
    concurrency: int = 8,
    on_done: Callable[[Result], None] = lambda _: None,
) -> Worked[Result]:
    """Do what the table does not hold, at most ``concurrency`` items at a time; ``on_done`` hears of earlier results too.

    ``do`` raises AskingOutageError when the item has to wait for a better time; anything else that it raises stops the run, and
    what is done stays done. Raises UserError for a table of something else.
    """
    form = TypeAdapter(result_type)
    try:
        worked = Worked({key: form.validate_python(value) for key, value in kept.items() if key in items})
    except ValueError as error:
        raise UserError(f"{kept.path} holds something else than results: restore it, or begin in another place.") from error
    for result in worked.done.values():
        on_done(result)

    async def work(unit: tuple[str, Item]) -> None:
        if worked.stopped:
            return
        try:
            result = await do(unit[1])
        except BudgetSpentError as error:
            worked.stopped = str(error)
        except AskingOutageError:
            worked.outages += 1
        else:
            kept.put(unit[0], form.dump_python(result, mode="json"))
            worked.done[unit[0]] = result
            on_done(result)

    await in_parallel(work, [unit for unit in items.items() if unit[0] not in worked.done], concurrency)
    return worked
