"""Many trajectories through one judge: in order, several at a time, and none of them judged twice.

What a judge is asked is a question, its accepted answers and the agent's own answer; trajectories that agree in these have one
verdict, which is asked for once. With a book, verdicts outlive the process: killed at any moment, the next run asks only for
what is not in there. Unscored verdicts are not kept, so the next run tries again. Nothing is dropped: each trajectory comes
out, with its verdict. Knows no files of trajectories and no model.

A book and a log of `synth.keeping` both hold finished work, and are two things: a log has a heading, and refuses to go on with
other settings; a book has none, since its keys hold all that a verdict depends on, so that one book serves any judge and file.
And trajectories are a stream here, judged ahead and handed on in order, where work there is a set that is done in any order.
"""

import asyncio
import hashlib
import warnings
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_record
from sanderling.judge.by_hand import ByHand
from sanderling.judge.judge import Judge, rule_on
from sanderling.judge.verdict import Code, Ruling, Verdict, kept, with_verdict
from sanderling.runs.jsonl import JsonlLog

BY_HAND = "by hand"
"""The judge's name where a person has spoken."""
_AHEAD = 4
"""Trajectories read ahead for each one that is being judged, so that a slow verdict holds nobody up."""
_VERDICT = TypeAdapter(Verdict)


@dataclass(frozen=True, slots=True)
class Judged:
    """A trajectory with its verdict in ``meta``, and the verdict."""

    trajectory: Trajectory
    verdict: Verdict
    fresh: bool
    """The verdict was asked for in this run, for this trajectory."""
    of: str
    """Digest of what was judged; trajectories that agree in it share one verdict."""


class MovedJudgeWarning(UserWarning):
    """Verdicts that do not say where their model was are taken for those of the one that is asked now."""


@dataclass(frozen=True, slots=True)
class Key:
    """What was judged, and by whom."""

    of: str
    """Digest of all, where the judge's models are included: two servers may give different models one name."""
    unplaced: str
    """Without that, as books said it before they knew of places; equal for a judge that asks no model."""


class VerdictBook:
    """Scored verdicts on disk, one line each, under the digest of what was judged and by whom, the models' places included.

    A verdict without a place, from an older book, is taken for that of the first who asks for it, and then has their place.
    """

    def __init__(self, path: Path) -> None:
        """Read what there is. Raises UserError for a damaged file."""
        self._log = JsonlLog(path, durable=False)
        self._known: dict[str, Verdict] = {}
        self._has_warned = False
        try:
            for line in self._log:
                self._known.pop(line.get("was", ""), None)
                self._known[line["of"]] = _VERDICT.validate_python(line["verdict"])
        except (KeyError, ValidationError) as error:
            raise UserError(f"{path} holds something else than verdicts: move it away, and judge anew.") from error

    def find(self, key: Key) -> Verdict | None:
        """The verdict of an earlier moment, as it was when it was made."""
        if key.of not in self._known and key.unplaced in self._known:
            if not self._has_warned:
                told = "verdicts that do not say at which address their model was: they are taken for those of this one"
                warnings.warn(f"{self._log.path} holds {told}; move it away to judge anew", MovedJudgeWarning, stacklevel=2)
                self._has_warned = True
            verdict = self._known.pop(key.unplaced)
            self._log.append({"of": key.of, "was": key.unplaced, "verdict": kept(verdict)})
            self._known[key.of] = verdict
        return self._known.get(key.of)

    def keep(self, key: Key, verdict: Verdict) -> None:
        """Write a verdict down, if it is one."""
        if verdict.ruling is not Ruling.UNSCORED and key.of not in self._known:
            self._log.append({"of": key.of, "verdict": kept(verdict)})
            self._known[key.of] = verdict


async def judge_each(
    trajectories: Iterable[Trajectory],
    judge: Judge,
    *,
    concurrency: int = 8,
    book: VerdictBook | None = None,
    by_hand: ByHand | None = None,
) -> AsyncGenerator[Judged]:
    """Judge trajectories, at most ``concurrency`` at a time, and yield them in their order.

    ``by_hand``: a person's verdicts, which need no judge. What the judge raises is raised.
    """
    turns = asyncio.Semaphore(concurrency)
    under_way: dict[str, asyncio.Task[Verdict]] = {}
    queue: deque[tuple[Trajectory, Key, asyncio.Task[Verdict] | Verdict, bool]] = deque()

    async def ask(trajectory: Trajectory, key: Key) -> Verdict:
        async with turns:
            verdict = await rule_on(trajectory, judge)
        if book is not None:
            book.keep(key, verdict)
        return verdict

    async def first() -> Judged:
        trajectory, key, coming, fresh = queue.popleft()
        verdict = coming if isinstance(coming, Verdict) else await coming
        under_way.pop(key.of, None)
        name = BY_HAND if verdict.code is Code.BY_HAND else judge.name
        return Judged(with_verdict(trajectory, verdict, name), verdict, fresh, key.of)

    try:
        for trajectory in trajectories:
            key = key_of(trajectory, judge)
            known = _known(trajectory, key, book, by_hand)
            fresh = known is None and key.of not in under_way
            if fresh:
                under_way[key.of] = asyncio.create_task(ask(trajectory, key))
            queue.append((trajectory, key, known or under_way[key.of], fresh))
            if len(queue) > concurrency * _AHEAD:
                yield await first()
        while queue:
            yield await first()
    finally:
        for task in under_way.values():
            task.cancel()
        await asyncio.gather(*under_way.values(), return_exceptions=True)


def judge_stream(
    trajectories: Iterable[Trajectory],
    judge: Judge,
    *,
    concurrency: int = 8,
    book: VerdictBook | None = None,
    by_hand: ByHand | None = None,
    runner: asyncio.Runner | None = None,
) -> Generator[Judged]:
    """:func:`judge_each` for callers outside of an event loop: a stream of trajectories in, the same with verdicts out.

    ``runner``: the loop that the judge's connections belong to, if they have one already.

    Example: ``(judged.trajectory for judged in judge_stream(store, rule_judge("exact")) if judged.verdict.correct)``
    """

    async def following() -> Judged | None:
        return await anext(stream, None)

    with nullcontext(runner) if runner is not None else asyncio.Runner() as loop:
        stream = judge_each(trajectories, judge, concurrency=concurrency, book=book, by_hand=by_hand)
        try:
            while (judged := loop.run(following())) is not None:
                yield judged
        finally:
            loop.run(stream.aclose())


def _known(trajectory: Trajectory, key: Key, book: VerdictBook | None, by_hand: ByHand | None) -> Verdict | None:
    said = None if by_hand is None else by_hand.verdict(trajectory)
    if said is not None:
        return Verdict(Ruling.CORRECT if said else Ruling.INCORRECT, float(said), "a person said so", Code.BY_HAND)
    return book.find(key) if book is not None else None


def key_of(trajectory: Trajectory, judge: Judge) -> Key:
    """What a verdict rests on: the question, its accepted answers, the agent's answer, and who judges."""
    question = trajectory.question
    asked = [judge.name, question.text, list(question.answers), trajectory.answer, trajectory.ending]
    unplaced = _digest(asked)
    return Key(_digest([*asked, list(judge.places)]) if any(judge.places) else unplaced, unplaced)


def _digest(asked: list[object]) -> str:
    return hashlib.sha256(encode_record(asked)).hexdigest()[:32]
