"""Trajectories of a teacher: every question several times through the one agent loop, judged, into a store.

Masked pages of a question stay masked in every tool, as in any episode. Killed, stopped, met by an outage or out of budget, the
same call goes on where it was, turns of unfinished episodes included; another agent or world than the store was begun with is
refused (`evaluate.begun`). When every attempt is made, the store is put in order: question by question, one record for each
attempt. Knows no model and no place.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from sanderling.agent.agent import Agent, attempt_id
from sanderling.agent.journal import Journal
from sanderling.core.asking import placed
from sanderling.core.record import Question, encode_record
from sanderling.evaluate.attempts import Attempts, Made, Watch, make_attempts, rollout_of
from sanderling.evaluate.judging import PATIENT, Retry
from sanderling.evaluate.log import JUDGE, JsonlAttempts, claim_attempts
from sanderling.judge.verdict import Judge
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore, write_lines
from sanderling.runs.run import Run, beside


async def generate(
    questions: Sequence[Question],
    attempts: int,
    agent: Agent,
    judge: Judge,
    out: Path,
    *,
    journal: Journal,
    seed: int = 0,
    concurrency: int = 8,
    retry: Retry = PATIENT,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts that ``out`` does not hold yet. Raises UserError as `make_attempts` and `begun` do."""
    store = TrajectoryStore(out)
    with Run(beside(out)) as run:
        claim_attempts(run, {**agent.as_json(), JUDGE: placed(judge.name, judge.places)}, store, out)

    made = await make_attempts(
        Attempts(questions, attempts, seed),
        rollout_of(agent, seed, journal=journal, cancel=cancel, watch=watch),
        judge,
        JsonlAttempts(store),
        concurrency=concurrency,
        retry=retry,
        on_stored=journal.stored,
        watch=watch,
        cancel=cancel,
    )
    if not made.stopped:
        put_in_order(out, [attempt_id(question, attempt) for question in questions for attempt in range(attempts)])
    return made


def put_in_order(store: Path, ids: Sequence[str]) -> None:
    """Write a store anew with these ids first, in this order, and each id's last record alone; in memory is one line."""
    log = JsonlLog(store)
    lines = [(line, record["id"]) for line, record in log.since(0)]
    last = {id: line for line, id in lines}
    known = set(ids)
    wanted = [last[id] for id in (*ids, *(id for id in last if id not in known)) if id in last]
    if wanted != [line for line, _ in lines]:
        write_lines(store, (encode_record(log.at(line)) for line in wanted))
