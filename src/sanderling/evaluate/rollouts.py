"""Attempts of an agent at questions, as everything that measures or collects them asks for them.

Attempt k of a question is the same episode whoever runs it and whenever: id and seeds follow from question, attempt and seed.
"""

import asyncio
from functools import partial

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.evaluate.attempts import Rollout
from sanderling.evaluate.watch import Watch


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
        return await agent.run(question, seeds, journal=journal, cancel=cancel, on_event=on_event, texts=False)

    return rollout
