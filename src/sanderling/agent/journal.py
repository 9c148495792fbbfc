"""The journal: what unfinished episodes have done so far, so that a process killed at any moment loses at most a turn.

The loop is deterministic given what its policy samples, what its calls return and what its clock shows. So an interrupted
episode is run again from its start, and what was entered in the journal's run is answered at once, sampled ids as they were.
Asked for otherwise, an entry and all that follows is left out with a warning: two runs are never mixed. Outages are not
entered. Entries survive the end of their process, not a loss of power (then the episode starts over).
"""

import asyncio
import datetime
import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import TypeAdapter

from sanderling.agent.turns import Finish, Outcome, run_call
from sanderling.core.types import Clock, Ending, Message, Role, Sampling, ToolCall
from sanderling.policy.contract import Completion, Delta, OnText, Policy, SampleKey, Session, WrappedPolicy
from sanderling.runs.run import Run
from sanderling.tools.contract import Tool, ToolContext, ToolResult, keeper_of

EPISODES = "episodes"  # the table of the episodes that are under way
_COMPLETION = TypeAdapter(Completion)
_RESULT = TypeAdapter(ToolResult)


class JournalWarning(UserWarning):
    """Recorded turns do not belong to what is asked now, and are left out."""


class Ended(Protocol):
    """An episode's record, or what stands for one."""

    @property
    def id(self) -> str: ...
    @property
    def ending(self) -> Ending | None: ...


class Replay:
    """What the loop works with; without a journal, policy, clock and calls as they are."""

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self.policy, self.clock = policy, clock

    async def run_call(self, call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Outcome:
        return await run_call(call, tools, context)

    def finishes_early(self, turn: int, event: asyncio.Event | None) -> Finish | None:
        """How the answer is asked for at this turn; None: it is not."""
        if event is None or not event.is_set():
            return None
        return event if isinstance(event, Finish) else Finish()


class Journal:
    """The episodes under way of one process."""

    def __init__(
        self, directory: Path, about: str = "", *, across_versions: bool = False, rank: int = 0, locked: bool = False
    ) -> None:
        """Keep it in the run of a directory, which need not exist (``rank``, ``locked``: see `runs.run.Run`).

        ``about`` says what is fixed for all episodes and shows in no record, such as which weights answer to the model's name.
        ``across_versions``: an episode that lived through updates goes on under a later version of the policy. Raises UserError
        when another process holds the directory, or it cannot be made.
        """
        self._about, self._across_versions = about, across_versions
        self.run = Run(directory, rank=rank, locked=locked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run.close()  # the directory goes when nothing is left in it

    def episode(self, id: str, policy: Policy, clock: Clock, about: str) -> Replay:
        """Policy, clock and calls that go on with an episode where its entries end; ``about``: what else turns depend on."""
        fingerprint = None if policy.tokenizer is None else policy.tokenizer.fingerprint
        version = None if self._across_versions else policy.version
        return Journaled(self.run, id, policy, clock, digest(self._about, about, policy.name, version, fingerprint))

    def stored(self, record: Ended) -> None:
        """Drop the entries of an episode whose record is stored; one that met an outage or was stopped keeps them, to go on."""
        if record.ending is not None and record.ending.scored:
            self.forget(record)

    def forget(self, record: Ended) -> None:
        """Drop the entries of an episode that will not go on, however it ended."""
        self.run.table(EPISODES).remove(record.id, whole=f"episode {record.id}")


class Journaled(WrappedPolicy, Replay):
    """An episode's policy, clock and calls in one, answered from its entries first.

    The clock shows the date on which the episode began, and moves with its entries alone: run again over them, it shows the
    same seconds to the bit.
    """

    def __init__(self, run: Run, id: str, policy: Policy, clock: Clock, root: str) -> None:
        super().__init__(policy)
        self.policy = self.clock = self
        self._id, self._entries, self._episodes = id, run.table(f"episode {id}"), run.table(EPISODES)
        began = self._episodes.get(id)
        self._is_begun = began is not None
        self._began = datetime.date.fromisoformat(began["on"]) if began else clock.today()
        self._ahead = dict(self._entries.items())  # what earlier processes did and this one has not come to yet, by place
        self._to_repeat: dict[int, list[tuple[ToolCall, ToolContext]]] = {}  # calls answered from entries, by what keeps
        self._repeating = asyncio.Lock()
        self._real, self._started, self._skipped, self._now = clock, clock.monotonic(), 0.0, 0.0
        self.root = self.last = root
        """``last``: digest of the last turn, whichever branch it is on, and of all that it answered; at first the root."""

    def today(self) -> datetime.date:
        return self._began

    def monotonic(self) -> float:
        return self._now

    def _elapsed(self) -> float:
        return self._real.monotonic() - self._started + self._skipped

    def open(self, key: SampleKey) -> Session:
        return _Session(self._policy.open(key), self)

    def find(self, place: str, asked: str) -> Any | None:
        """What was done at a place (a turn with its attempt, a call), if just this was ``asked``; moves the clock on."""
        entry = self._ahead.get(place)
        if entry is None:
            return None
        if entry["asked"] != asked:
            changed = f"the question, the settings, the model or the pages of {self._id!r} are others"
            text = f"{changed}: from {place} on it is done anew"
            warnings.warn(f"{self._entries.path}: {text}", JournalWarning, stacklevel=3)
            self._entries.remove(*self._ahead)
            self._ahead.clear()
            self._is_begun = False
            return None
        del self._ahead[place]
        self._skipped += max(0.0, entry["at"] - self._elapsed())
        self._now = max(self._now, entry["at"])
        return entry["done"]

    def add(self, place: str, asked: str, done: Any) -> None:
        """Enter what was done."""
        if not self._is_begun:
            self._episodes.put(self._id, {"on": self._began.isoformat(), "root": self.root}, durable=False)
            self._is_begun = True
        self._now = max(self._now, self._elapsed())
        self._entries.put(place, {"asked": asked, "at": self._now, "done": done}, durable=False)

    def finishes_early(self, turn: int, event: asyncio.Event | None) -> Finish | None:
        """As it was, where the episode has been there, else as the event says; entered before it is asked for."""
        place, asked = f"finish early {turn}", digest(self.last, "finish early")
        found = self.find(place, asked)
        if found is not None:
            return Finish(**found)
        early = super().finishes_early(turn, event)
        if early is None or f"turn {turn}.0" in self._ahead:
            return None
        self.add(place, asked, {"why": early.why, "most": early.most})
        return early

    async def run_call(self, call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Outcome:
        """Run one call, unless it was run before; time-outs are results like any other."""
        settings = dict(vars(context))
        for name in ("question", "attempt", "session", "tell"):  # they are the same for all calls of an episode
            del settings[name]
        settings["masked_urls"] = sorted(context.masked_urls)
        place, asked = f"call {context.ordinal}", digest(self.last, call.name, call.arguments, settings)
        found, keeper = self.find(place, asked), keeper_of(tools.get(call.name))
        if found is not None:
            if keeper is not None:
                self._to_repeat.setdefault(id(keeper), []).append((call, context))
            return Outcome(call, _RESULT.validate_python(found))
        async with self._repeating:  # what a tool kept for the interrupted episode is made again, by the same calls
            for earlier, then in self._to_repeat.pop(id(keeper), ()):
                again = await super().run_call(earlier, tools, then)
                if again.outage:
                    return replace(again, call=call)
        outcome = await super().run_call(call, tools, context)
        if not outcome.outage:
            self.add(place, asked, _RESULT.dump_python(outcome.result, mode="json"))
        return outcome


@dataclass(frozen=True)
class _Turn:
    """A turn of the branch, with the digest of it and all before."""

    delta: Delta
    completion: Completion
    digest: str
    tokens: int  # ids of the branch up to its end


class _Session:
    """A branch that is answered from the journal first, and then by the policy's session. Marks are numbers of turns.

    That session hears the whole branch with the first turn that was not entered, and again when it is rewound into it.
    """

    def __init__(self, inner: Session, journal: Journaled) -> None:
        self._inner, self._journal = inner, journal
        self._turns: list[_Turn] = []
        self._computed = 0  # leading ids of the branch that a session which was never interrupted would hold in its cache
        self._inner_marks = {0: inner.mark()}
        self._heard = 0  # turns of the branch that the policy's session holds: all, or none

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """The next turn, entered before or new. One that was entered is told in one piece."""
        before = self._turns[-1].digest if self._turns else self._journal.root
        asked = digest(before, asdict(key), sampling.model_dump(), [m.model_dump() for m in delta.messages], delta.token_ids)
        place = f"turn {key.turn}.{key.retry}"
        done = self._journal.find(place, asked)
        if done is None:
            completion = await self._inner.generate(self._with_unheard(delta), sampling, key, on_text)
            self._heard = len(self._turns) + 1
            done = _COMPLETION.dump_python(completion, mode="json")
            self._journal.add(place, asked, done)
        else:
            await asyncio.sleep(0)  # a model would yield here: others run, and a cancellation arrives
            completion = _COMPLETION.validate_python(done)
            if on_text is not None and completion.text:
                on_text(completion.text)
        tokens = self._tokens() + len(delta.token_ids or ()) + len(completion.token_ids or ())
        if completion.token_ids:
            self._computed = tokens - 1  # the id sampled last is computed with the next turn
        self._journal.last = digest(asked, done)
        self._turns.append(_Turn(delta, completion, self._journal.last, tokens))
        return completion

    def _with_unheard(self, delta: Delta) -> Delta:
        """What is new, after everything on the branch that the policy's session has not heard yet."""
        if self._heard == len(self._turns):
            return delta
        messages: list[Message] = []
        ids: list[int] = []
        for turn in self._turns:
            messages += [*turn.delta.messages, Message(role=Role.ASSISTANT, content=turn.completion.text)]
            ids += [*(turn.delta.token_ids or ()), *(turn.completion.token_ids or ())]
        new = None if delta.token_ids is None else (*ids, *delta.token_ids)
        return replace(delta, messages=(*messages, *delta.messages), token_ids=new, recalled=self._computed)

    def _tokens(self) -> int:
        return self._turns[-1].tokens if self._turns else 0

    def mark(self) -> int:
        if self._heard == len(self._turns):
            self._inner_marks[self._heard] = self._inner.mark()
        return len(self._turns)

    def rewind(self, mark: int) -> None:
        if not 0 <= mark <= len(self._turns):
            raise ValueError(f"mark {mark} is not on this branch of {len(self._turns)} turns")
        del self._turns[mark:]
        self._computed = min(self._computed, self._tokens())
        self._heard = mark if mark in self._inner_marks else 0
        self._inner.rewind(self._inner_marks[self._heard])

    def close(self) -> None:
        self._inner.close()


def digest(*values: Any) -> str:
    """32 hex digits for JSON values (and what prints as itself), the same in every process."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
