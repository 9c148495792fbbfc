"""An agent: a policy, its tools and its profile, which runs episodes through the one loop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sanderling.agent.journal import Journal, Replay
from sanderling.agent.loop import End, Ended, Episode, Event
from sanderling.agent.turns import Stopped
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Clock, Ending, Role, SystemClock, placed
from sanderling.policy.contract import Policy, PolicyOutageError
from sanderling.tools.contract import Tool, settings_of

WORLD = "world"
"""Where a question's ``meta`` says which of several worlds it is about."""


@dataclass(frozen=True)
class Place:
    """A world, or the live web, with the tools that ask it."""

    name: str
    fingerprint: str  # with its faults and who ranks its pages
    tools: Mapping[str, Tool]


@dataclass(frozen=True)
class Agent:
    """Who researches, with what, where.

    Example: ``await Agent(policy, world_tools(world, profile), profile, world=world.name).run(Question(id="q", text="Who?"))``
    """

    policy: Policy
    tools: Mapping[str, Tool]
    profile: Profile
    clock: Clock = field(default_factory=SystemClock)
    world: str = ""
    fingerprint: str = ""  # the world's, with its dynamics and who ranks its pages
    place: str = ""  # tells the model from others of its name; see `core.types.ModelClient`
    reader: Any = None  # the model that reads its pages, as `core.types.placed` gives it; None: pages are read without one
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    """Of several worlds: each by the name that its questions have in ``meta.world``; tools and world above are the first's."""
    code: Mapping[str, str] = field(default_factory=dict[str, str])  # SHA-256 of each own file that its settings name

    def tool_settings(self) -> dict[str, Any]:
        """What tools run with that have settings: a sandbox with its limits, the command of a server."""
        found = {name: settings_of(tool) for name, tool in sorted(self.tools.items())}
        return {name: settings for name, settings in found.items() if settings is not None}

    def as_json(self) -> dict[str, Any]:
        """All that its episodes depend on."""
        tokenizer = self.policy.tokenizer
        return {
            "agent": placed(self.policy.name, [self.place]),
            "tokenizer": tokenizer and tokenizer.fingerprint,
            "context": self.policy.context_length,
            "tools": sorted(self.tools),
            **({"tool settings": settings} if (settings := self.tool_settings()) else {}),
            "profile": self.profile.model_dump(mode="json", exclude={"source"}),
            "world": {"name": self.world, "fingerprint": self.fingerprint},
            **({"worlds": {name: one.fingerprint for name, one in self.places.items()}} if self.places else {}),
            **({} if self.reader is None else {"reader": self.reader}),
            **({"code": self.code} if self.code else {}),
        }

    async def run(
        self,
        question: Question,
        seeds: Seeds | None = None,
        *,
        id: str = "",
        on_event: Callable[[Event], None] | None = None,
        texts: bool = True,
        cancel: asyncio.Event | None = None,
        on_cancel: Callable[[Trajectory], None] | None = None,
        journal: Journal | None = None,
        finish_early: asyncio.Event | None = None,
        before: Trajectory | None = None,
    ) -> Trajectory:
        """Run one episode to its end and return its record.

        Outages, spent budgets and a set ``cancel`` event are endings. When the task itself is cancelled, ``on_cancel`` receives
        the record so far and CancelledError goes on. Without ``texts``, ``on_event`` hears no TextDelta, and servers are asked
        for whole turns (a stream that breaks midway is not tried again). With a ``journal`` it goes on where an earlier episode
        with its id was killed or met an outage; entries stay until ``journal.stored`` hears of it. Once ``finish_early`` is
        set, the agent is asked for its answer at its next turn, as at a spent budget. ``before``: an episode that has ended,
        which the question follows; the record begins with its main branch. Raises UserError where it was another model's.
        """
        seeds = seeds or Seeds()
        id = id or attempt_id(question, seeds.attempt)
        here = Place(self.world, self.fingerprint, self.tools)
        if self.places:
            here = self.places[str(question.meta.get(WORLD) or "")]
        replay = Replay(self.policy, self.clock)
        if journal is not None:
            replay = journal.episode(id, self.policy, self.clock, f"{self.profile.name} over {here.name}")
        episode = Episode(question, seeds, replay, here.tools, self.profile, on_event, texts, cancel, finish_early, before)
        record = partial(episode.record, id=id, world=here.name)
        try:
            end = await episode.run()
        except PolicyOutageError as error:
            end = End(Ending.POLICY_OUTAGE, detail=str(error) or "The model's backend is unreachable.")
        except Stopped:
            end = End(Ending.CANCELLED, detail="The episode was stopped on request.")
        except asyncio.CancelledError:
            if on_cancel is not None:
                on_cancel(record(End(Ending.CANCELLED, detail="The episode's task was cancelled.")))
            raise
        finally:
            await episode.close()
        trajectory = record(end)
        if on_event is not None:
            on_event(Ended(trajectory))
        return trajectory


def attempt_id(question: Question, attempt: int) -> str:
    """The id of an attempt's record."""
    return f"{question.id}-{attempt}"


class Silence:
    """Ends a run after too many attempts in a row met an outage before their first turn: the model is out of reach.

    Later outages are not counted, since the question may have caused them.
    """

    def __init__(self, at_once: int) -> None:
        """``at_once``: attempts under way together. All of them twice over, since an outage that passes shall end no run."""
        self._most, self._count = max(16, 2 * at_once), 0

    def after(self, trajectory: Trajectory, what: str = "attempts") -> str:
        """Why nothing more should be begun after this one has ended; empty: nothing speaks against it."""
        outage = trajectory.ending in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE)
        spoke = any(node.role is Role.ASSISTANT for node in trajectory.nodes)
        self._count = self._count + 1 if outage and not spoke else 0
        if self._count < self._most:
            return ""
        why = trajectory.detail.removesuffix(".")
        return f"The last {self._count} {what} met outages before their first turn ({why}): nothing more was begun."
