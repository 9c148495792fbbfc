"""Trajectories of a teacher: every question several times through the one agent loop, judged, into a store.

Attempt k of a question is the same episode whoever runs it and whenever: its id and seeds follow from question, attempt and
seed. Masked pages of a question stay masked in every tool, as in any episode. Killed, stopped, met by an outage or out of
budget, the same call goes on where it was, turns of unfinished episodes included; another agent or world than the store was
begun with is refused (`begun`). When every attempt is made, the store is put in order: question by question, one record for
each attempt. Knows no model and no place.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.agent.journal import Journal
from sanderling.agent.loop import run_episode
from sanderling.evaluate.attempts import PATIENT, Attempts, Made, Progress, Retry, make_attempts
from sanderling.policy.contract import Policy
from sanderling.protocol.clock import Clock
from sanderling.protocol.profile import Profile
from sanderling.reward.judge import Judge
from sanderling.synth.begun import AGENT, JUDGE, PROFILE, WORLD, require_begun_with
from sanderling.synth.made_with import placed
from sanderling.tools.contract import Tool
from sanderling.trajectory.codec import encode_record
from sanderling.trajectory.jsonl import TrajectoryStore
from sanderling.trajectory.record import Question, Seeds, Trajectory
from sanderling.trajectory.writing import Shelf, write_lines


@dataclass(frozen=True)
class Teaching:
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
        }


async def generate(
    questions: Sequence[Question],
    attempts: int,
    teaching: Teaching,
    judge: Judge,
    out: Path,
    *,
    journal: Journal,
    seed: int = 0,
    concurrency: int = 8,
    retry: Retry = PATIENT,
    on_progress: Callable[[Progress], None] | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts that ``out`` does not hold yet. Raises UserError as `make_attempts` and `begun` do."""
    store = TrajectoryStore(out)
    require_begun_with(store, {**teaching.as_json(), JUDGE: placed(judge.name, judge.places)})

    async def rollout(question: Question, attempt: int) -> Trajectory:
        return await run_episode(
            question,
            policy=teaching.policy,
            tools=teaching.tools,
            profile=teaching.profile,
            clock=teaching.clock,
            trajectory_id=attempt_id(question, attempt),
            seeds=Seeds(run=seed, episode=seed, attempt=attempt),
            world=teaching.world,
            cancel=cancel,
            journal=journal,
        )

    made = await make_attempts(
        Attempts(questions, attempts, seed),
        rollout,
        judge,
        store,
        concurrency=concurrency,
        retry=retry,
        on_progress=on_progress,
        on_stored=journal.stored,
        cancel=cancel,
    )
    if not made.stopped:
        put_in_order(out, [attempt_id(question, attempt) for question in questions for attempt in range(attempts)])
    return made


def attempt_id(question: Question, attempt: int) -> str:
    """The id of an attempt's trajectory."""
    return f"{question.id}-{attempt}"


def put_in_order(store: Path, ids: Sequence[str]) -> None:
    """Write a store anew with these ids first, in this order, and each id's last record alone; in memory is one line."""
    shelf = Shelf(store)
    try:
        last: dict[str, int] = {}
        for number in range(len(shelf)):
            last[shelf.record(number)["id"]] = number
        known = set(ids)
        wanted = [last[id] for id in (*ids, *(id for id in last if id not in known)) if id in last]
        if wanted != list(range(len(shelf))):
            write_lines(store, (encode_record(shelf.record(number)) for number in wanted))
    finally:
        shelf.close()
