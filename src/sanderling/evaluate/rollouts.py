"""An agent, and one attempt of it at a question through the one agent loop.

Everything that measures or collects attempts (evaluations, recipes, sweeps of merges, teachers) makes them here. Attempt k of a
question is the same episode whoever runs it and whenever: its id and seeds follow from question, attempt and seed. Knows no
judge and no store.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sanderling.agent.events import Event
from sanderling.agent.journal import Journal
from sanderling.agent.loop import run_episode
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Clock
from sanderling.evaluate.attempts import Rollout
from sanderling.evaluate.begun import AGENT, PROFILE, WORLD
from sanderling.evaluate.made_with import placed
from sanderling.evaluate.watch import Watch
from sanderling.policy.contract import Policy
from sanderling.tools.contract import Tool


@dataclass(frozen=True)
class Agent:
    """Who researches, with what, where."""

    policy: Policy
    tools: Mapping[str, Tool]
    profile: Profile
    clock: Clock
    world: str
    fingerprint: str = ""
    """The world's, with its dynamics and who ranks its pages."""
    place: str = ""
    """Tells the model from others of its name; see `protocol.asking.Asker`."""
    reader: Any = None
    """The model that reads its pages, as `made_with.placed` gives it; None: pages are read without one."""

    def as_json(self) -> dict[str, Any]:
        """All that its attempts depend on."""
        tokenizer = self.policy.tokenizer
        return {
            AGENT: placed(self.policy.name, [self.place]),
            "tokenizer": tokenizer and tokenizer.fingerprint,
            "context": self.policy.context_length,
            "tools": sorted(self.tools),
            PROFILE: self.profile.model_dump(mode="json", exclude={"source"}),
            WORLD: {"name": self.world, "fingerprint": self.fingerprint},
            **({} if self.reader is None else {"reader": self.reader}),
        }

    async def attempt(
        self,
        question: Question,
        seeds: Seeds,
        *,
        journal: Journal | None = None,
        cancel: asyncio.Event | None = None,
        on_event: Callable[[Event], None] | None = None,
        hurry: asyncio.Event | None = None,
    ) -> Trajectory:
        """One episode; with a journal it goes on where a killed process left it. ``on_event`` hears all but text.

        Once ``hurry`` is set, the answer is asked for at the next turn.
        """
        return await run_episode(
            question,
            policy=self.policy,
            tools=self.tools,
            profile=self.profile,
            clock=self.clock,
            trajectory_id=attempt_id(question, seeds.attempt),
            seeds=seeds,
            world=self.world,
            on_event=on_event,
            texts=False,
            cancel=cancel,
            journal=journal,
            hurry=hurry,
        )


def rollout_of(
    agent: Agent,
    seed: int,
    *,
    journal: Journal | None = None,
    cancel: asyncio.Event | None = None,
    watch: Watch | None = None,
) -> Rollout:
    """Attempts under one seed, as `attempts.make_attempts` takes them."""

    async def rollout(question: Question, attempt: int) -> Trajectory:
        seeds = Seeds(run=seed, episode=seed, attempt=attempt)
        on_event = None if watch is None else partial(watch.heard, (question.id, attempt))
        return await agent.attempt(question, seeds, journal=journal, cancel=cancel, on_event=on_event)

    return rollout


def attempt_id(question: Question, attempt: int) -> str:
    """The id of an attempt's trajectory."""
    return f"{question.id}-{attempt}"
