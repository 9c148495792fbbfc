"""Going on with an episode: policy, tools and clock as the loop sees them, with a journal in front.

The loop is deterministic given what its policy samples, what its calls return and what its clock shows. So an interrupted
episode is run again from its start, and whatever the journal holds is answered from there, at once: no turn is sampled and no
call is made twice. The first turn that is not there goes to a fresh session in one delta, which holds everything so far;
sampled ids are handed back as they were, never encoded again. Outages are not entered, so an episode that ended in one can go
on, too. The clock goes on where the last entry stood. Being asked for the answer early is entered as well: an episode that had
not been is not asked before it has come to where it stood.
"""

import asyncio
import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from sanderling.agent.calls import Outcome, run_call
from sanderling.agent.journal import EpisodeJournal, Journal, digest
from sanderling.core.types import Clock, Message, Role, Sampling, ToolCall
from sanderling.policy.contract import Completion, Delta, Policy, SampleKey, Session, WrappedPolicy
from sanderling.tools.contract import Tool, ToolContext, ToolResult

_COMPLETION = TypeAdapter(Completion)
_RESULT = TypeAdapter(ToolResult)
_OF_THE_EPISODE = frozenset({"question", "attempt"})
"""What a call's context says that is one for all calls of a journal: it tells no two of them apart."""


class Replay:
    """What the loop works with; without a journal, policy, clock and calls as they are."""

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self.policy, self.clock = policy, clock

    async def run_call(self, call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Outcome:
        """Run one call."""
        return await run_call(call, tools, context)

    def finishes_early(self, turn: int, event: asyncio.Event | None) -> bool:
        """Whether the answer is asked for at this turn."""
        return event is not None and event.is_set()


@contextmanager
def replayed(journal: Journal, id: str, policy: Policy, clock: Clock, about: str) -> Iterator[Replay]:
    """Policy, clock and calls that go on with the episode ``id`` where the journal ends, and enter into it what is new.

    ``about``: what else the episode's turns depend on; entries made under another one are left out. Raises UserError when
    nothing can be written, ValueError when the episode is under way already.
    """
    with journal.episode(id, clock.today()) as entries:
        fingerprint = None if policy.tokenizer is None else policy.tokenizer.fingerprint
        version = None if journal.across_versions else policy.version
        yield _Journaled(policy, clock, entries, digest(journal.about, about, policy.name, version, fingerprint))


class _Journaled(Replay):
    """Answers from an episode's journal first."""

    def __init__(self, policy: Policy, clock: Clock, entries: EpisodeJournal, root: str) -> None:
        self._clock = _Clock(clock, entries.began)
        super().__init__(_Policy(policy, self), self._clock)
        self._entries, self.root = entries, root
        self.last = root
        """Digest of the last turn, whichever branch it is on, and of all that it answered."""

    def find(self, place: str, asked: str) -> Any | None:
        """What was done there, and the clock moved on as it was."""
        entry = self._entries.find(place, asked)
        if entry is None:
            return None
        self._clock.catch_up(entry[0])
        return entry[1]

    def add(self, place: str, asked: str, done: Any) -> None:
        """Enter what was done."""
        self._entries.add(place, asked, self._clock.elapsed(), done)

    def finishes_early(self, turn: int, event: asyncio.Event | None) -> bool:
        """As it was, where the episode has been there, else as the event says.

        Asking is entered before it is done, so a turn that was under way is asked for as it was.
        """
        place, asked = f"finish early {turn}", digest(self.last, "finish early")
        if self.find(place, asked) is not None:
            return True
        if self._entries.is_ahead(f"turn {turn}.0") or not super().finishes_early(turn, event):
            return False
        self.add(place, asked, {})
        return True

    async def run_call(self, call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Outcome:
        """Run one call, unless it was run before. Time-outs are results like any other."""
        settings = {name: value for name, value in asdict(context).items() if name not in _OF_THE_EPISODE}
        settings["masked_urls"] = sorted(context.masked_urls)
        place, asked = f"call {context.ordinal}", digest(self.last, call.name, call.arguments, settings)
        found = self.find(place, asked)
        if found is not None:
            return Outcome(call, _RESULT.validate_python(found))
        outcome = await super().run_call(call, tools, context)
        if not outcome.outage:
            self.add(place, asked, _RESULT.dump_python(outcome.result, mode="json"))
        return outcome


class _Clock:
    """A clock that has run on by what an episode had taken before, and shows the date on which it began."""

    def __init__(self, clock: Clock, began: datetime.date) -> None:
        self._clock, self._began = clock, began
        self._started = clock.monotonic()
        self._ahead = 0.0

    def today(self) -> datetime.date:
        return self._began

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._ahead

    def elapsed(self) -> float:
        """Seconds into the episode."""
        return self.monotonic() - self._started

    def catch_up(self, elapsed: float) -> None:
        """Be at least so far into the episode."""
        self._ahead += max(0.0, elapsed - self.elapsed())


class _Policy(WrappedPolicy):
    """The policy, whose sessions begin with what the journal holds."""

    def __init__(self, policy: Policy, journal: _Journaled) -> None:
        super().__init__(policy)
        self._journal = journal

    def open(self, key: SampleKey) -> Session:
        return _Session(self._policy, key, self._journal)


@dataclass(frozen=True)
class _Turn:
    """A turn of the branch: what it answered, what was said, and the digest of both and all before."""

    delta: Delta
    completion: Completion
    digest: str
    tokens: int
    """Ids of the branch up to its end."""


class _Session:
    """A branch that is answered from the journal first, and then by a session of the policy.

    Marks are numbers of turns. The policy's session is opened for the first turn that is not in the journal, and has then heard
    the whole branch; rewound to a turn that it heard as part of more, it is rewound to its start and hears the branch again.
    """

    def __init__(self, policy: Policy, key: SampleKey, journal: _Journaled) -> None:
        self._policy, self._key, self._journal = policy, key, journal
        self._turns: list[_Turn] = []
        self._computed = 0
        """Leading ids of the branch that a session which was never interrupted would hold in its cache."""
        self._inner: Session | None = None
        self._inner_marks: dict[int, int] = {}
        self._heard = 0
        """Turns of the branch that the policy's session holds: all, or none."""

    async def generate(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn, recorded or new. A recorded one's text comes in one piece."""
        before = self._turns[-1].digest if self._turns else self._journal.root
        asked = digest(before, asdict(key), sampling.model_dump(), [m.model_dump() for m in delta.messages], delta.token_ids)
        place = f"turn {key.turn}.{key.retry}"
        found = self._journal.find(place, asked)
        if found is None:
            completion = await self._speak(delta, sampling, key, on_text)
            done = _COMPLETION.dump_python(completion, mode="json")
            self._journal.add(place, asked, done)
        else:
            await asyncio.sleep(0)  # a model would yield here: others run, and a cancellation arrives
            completion, done = _COMPLETION.validate_python(found), found
            if on_text is not None and completion.text:
                on_text(completion.text)
        tokens = self._tokens() + len(delta.token_ids or ()) + len(completion.token_ids or ())
        if completion.token_ids:
            self._computed = tokens - 1  # the id sampled last is computed with the next turn
        self._journal.last = digest(asked, done)
        self._turns.append(_Turn(delta, completion, self._journal.last, tokens))
        return completion

    async def _speak(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None
    ) -> Completion:
        """A new turn, after everything that the policy's session has not heard yet."""
        if self._inner is None:
            self._inner = self._policy.open(self._key)
            self._inner_marks = {0: self._inner.mark()}
        if self._heard < len(self._turns):
            messages: list[Message] = []
            ids: list[int] = []
            for turn in self._turns:
                messages += [*turn.delta.messages, Message(role=Role.ASSISTANT, content=turn.completion.text)]
                ids += [*(turn.delta.token_ids or ()), *(turn.completion.token_ids or ())]
            new = None if delta.token_ids is None else (*ids, *delta.token_ids)
            delta = Delta((*messages, *delta.messages), new, self._computed)
        completion = await self._inner.generate(delta, sampling, key, on_text)
        self._heard = len(self._turns) + 1
        return completion

    def _tokens(self) -> int:
        return self._turns[-1].tokens if self._turns else 0

    def mark(self) -> int:
        """Number of turns on the branch."""
        if self._inner is not None and self._heard == len(self._turns):
            self._inner_marks[self._heard] = self._inner.mark()
        return len(self._turns)

    def rewind(self, mark: int) -> None:
        """Forget the turns after ``mark``."""
        if not 0 <= mark <= len(self._turns):
            raise ValueError(f"mark {mark} is not on this branch of {len(self._turns)} turns")
        del self._turns[mark:]
        self._computed = min(self._computed, self._tokens())
        if self._inner is not None:
            self._heard = mark if mark in self._inner_marks else 0
            self._inner.rewind(self._inner_marks[self._heard])

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
