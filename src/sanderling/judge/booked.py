"""A judge that remembers: what a book holds is not asked again, and what is being asked is asked once.

Sixty attempts that give the same answer to a question cost one reply. Knows no files but the book's.
"""

import asyncio
from dataclasses import replace

from sanderling.core.record import Trajectory
from sanderling.judge.judge import Judge
from sanderling.judge.judging import Key, VerdictBook, key_of
from sanderling.judge.verdict import Verdict


class BookedJudge:
    """A judge with a book; itself a judge, of the same name."""

    def __init__(self, judge: Judge, book: VerdictBook) -> None:
        self._judge, self._book = judge, book
        self._under_way: dict[str, asyncio.Future[Verdict]] = {}

    @property
    def name(self) -> str:
        return self._judge.name

    @property
    def places(self) -> tuple[str, ...]:
        return self._judge.places

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The book's verdict, or the judge's, which is then in the book. Raises what the judge raises."""
        key = key_of(trajectory, self._judge)
        while (known := self._book.find(key)) is None:
            coming = self._under_way.get(key.of)
            if coming is None:
                return await self._ask(trajectory, key)
            await asyncio.wait([coming])
            if not coming.cancelled():  # or whoever asked was stopped, and another one asks
                known = coming.result()
                break
        return replace(known, remembered=True, cost=0.0)

    def known(self, trajectory: Trajectory) -> Verdict | None:
        """What it has said before; None: nothing."""
        return self._book.find(key_of(trajectory, self._judge))

    async def _ask(self, trajectory: Trajectory, key: Key) -> Verdict:
        coming = self._under_way[key.of] = asyncio.get_running_loop().create_future()
        try:
            verdict = await self._judge(trajectory)
            self._book.keep(key, verdict)
            coming.set_result(verdict)
        finally:
            del self._under_way[key.of]
            coming.cancel()
        return verdict
