"""Reinforcement learning: rollouts, tools and judges go on while the model is updated from those that have ended.

The story of a run, in :func:`run_rl`. Groups of rollouts are made all the time (`queue`), as far ahead as the bound on
staleness lets them; a step takes the groups it trains on, writes down which, turns them into updates in a thread of its own
(`step`), and hands the new weights to whoever samples (`policy.weight_sync`). With ``max_staleness`` 0 nothing is begun under
weights that are about to change: the same code, synchronous.

Killed at any moment, it goes on where it was: updates since the last checkpoint are done again from the ledger to the same
weights, what waited still waits, and rollouts under way go on from their journals. A team of processes shares out rollouts,
gains and rows; every rank holds all of a step's groups.

The result is the last model, or the best by held-out questions (:class:`Selection`), never by the reward that is trained on:
LiteResearcher's still rose when its agent had collapsed.
"""

import asyncio
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import torch
from transformers import PreTrainedModel

from sanderling.agent.agent import Silence
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.rl.config import Placement, RlConfig, check_run
from sanderling.rl.health import Health
from sanderling.rl.queue import META, Batch, Ledger, Rollouts, check_reached, episode_seed, made, with_outcome
from sanderling.rl.rollouts import Actor, Ask, FinishedRollout, Group, GroupStatus, Score, rule_score
from sanderling.rl.step import Learner
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import command_line
from sanderling.train.checkpoint import CHECKPOINTS, checkpoints, save_model
from sanderling.train.metrics import METRICS, MetricsLog, OnProgress, read_metrics
from sanderling.train.rows import Encoding
from sanderling.train.team import SOLO, Team, joined, share
from sanderling.train.trainer import NotFiniteError

CREDIT = "credit"
BEST, HELD_OUT, SELECTION = "best", "held_out", "selection.jsonl"
"""Of the selection: its model, the directory of its rollouts, and what was measured."""
P = ParamSpec("P")
T = TypeVar("T")
Connect = Callable[[PreTrainedModel], Actor]
"""Called once with the live module, before the first rollout."""
Decided = Sequence[tuple[Group, GroupStatus]]


class HealthWarning(UserWarning):
    """An alarm went off."""


class Apart(Protocol):
    """Runs something in the thread that computes."""

    async def __call__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


async def run_rl(
    config: RlConfig,
    questions: Sequence[Question],
    connect: Connect,
    encoding: Encoding,
    model_dir: Path,
    out_dir: Path,
    *,
    held_out: Sequence[Question] = (),
    progress: OnProgress | None = None,
    team: Team = SOLO,
    device: torch.device | str = "cpu",
) -> bool:
    """Train the model at ``model_dir`` and write ``out_dir/model``, ``metrics.jsonl``, ``run.db`` and checkpoints.

    Returns False when it was finished before. In a team, every rank calls this with the same arguments; rank 0 writes models
    and metrics, and it alone reports progress. Raises UserError when there are no questions, no model, rollouts that cannot be
    trained on, or a step that is not finite; HealthPause when an alarm stops the run before its last step; whatever a rollout
    raises propagates.
    """
    if (out_dir / "model" / "config.json").is_file():
        return False
    check_run(config, questions, held_out, encoding)
    if team.sharded and config.pipeline.placement is not Placement.SERVED:
        raise UserError("A sharded model cannot sample in its own process: serve it, and set pipeline.placement=served.")
    with apart_from(device) as apart, Ledger(out_dir, team.rank) as ledger:
        last = team.gather(next(reversed(checkpoints(out_dir / CHECKPOINTS)), None))[0]
        learner = await apart(Learner, config, encoding, model_dir, last, team, device)
        run = _Run(learner, connect(learner.model), questions, held_out, out_dir, ledger, progress)
        await apart(run.claim)
        await run.catch_up(apart)
        await run.publish(await apart(learner.weights))
        await run.select(apart)
        async with run.rollouts() as rollouts:
            while learner.step < config.steps:
                began = time.perf_counter()
                batch = await apart(run.settle, await rollouts.batch())
                waited = time.perf_counter() - began
                async with run.actor.sync.training():
                    metrics = await apart(run.learn, batch)
                    weights = await apart(learner.weights)
                await run.publish(weights)  # nothing is awaited between: no token is sampled under another version's name
                rollouts.published()
                metrics |= await run.select(apart)
                alarms = run.note({**metrics, "wait_seconds": waited, "seconds": time.perf_counter() - began})
                await apart(run.save, now=bool(alarms))
                if learner.step < config.steps:
                    run.health.pause(learner.step, alarms)
        await apart(run.finish)
    return True


class Selection:
    """What was measured on the held-out questions, and the best model so far, which is kept in ``best/``.

    Every so many steps the model as it is answers all of them, with the same attempts and seeds each time.
    """

    def __init__(
        self, held_out: Sequence[Question], actor: Actor, score: Score, learner: Learner, out: Path, room: asyncio.Semaphore
    ) -> None:
        """``room``: for the rollouts that this rank makes at once, those that are trained on included."""
        self._held_out, self._actor, self._score, self._room = held_out, actor, score, room
        self._learner, self._out, self._config = learner, out, learner.config
        # Updates after the last checkpoint are done again to the same weights, so what was measured stays true.
        self._seen = {line["step"]: float(line["held_out"]) for line in read_metrics(out / SELECTION)}
        writes = self._config.selection.every and learner.team.rank == 0
        self._log = MetricsLog(out / SELECTION, resume_step=max(self._seen, default=0)) if writes else None

    @property
    def due(self) -> bool:
        """Whether the model as it is has to be measured."""
        every, step = self._config.selection.every, self._learner.step
        return bool(every) and step not in self._seen and (step % every == 0 or step == self._config.steps)

    def known(self) -> dict[str, float]:
        """What was measured of the model as it is."""
        return {"held_out": self._seen[self._learner.step]} if self._learner.step in self._seen else {}

    async def answer(self) -> list[FinishedRollout]:
        """Make this rank's held-out rollouts. Each is stored as it ends; what a kill left unscored is tried again.

        Raises as `queue.made`, and UserError when the model is out of reach in rollout after rollout.
        """
        config, team, actor = self._config, self._learner.team, self._actor
        attempts = range(config.selection.attempts)
        asks = [Ask(one, episode_seed(config.seed, at, one), at) for one in self._held_out for at in attempts]
        store = TrajectoryStore(self._out / HELD_OUT / f"{self._learner.step:08d}-{team.rank}.jsonl")
        before = {(one.question.id, one.meta[META]["attempt"]): one for one in store}
        silence = Silence(len(asks))

        async def one(ask: Ask) -> FinishedRollout:
            found = before.get((ask.question.id, ask.attempt))
            if found is None or found.meta[META]["outcome"] is None:
                async with self._room:
                    ended = await made(ask, actor, self._score, config, found)
                found = with_outcome(ended, {"attempt": ask.attempt})
                store.append(found)
                check_reached(silence, found)
            actor.forget(found)  # other weights may make the same attempt again: nothing of this one may be gone on with
            return FinishedRollout(found, found.meta[META]["outcome"])

        try:
            async with asyncio.TaskGroup() as together:
                tasks = [together.create_task(one(ask)) for ask in share(team, asks)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    def decide(self, own: Sequence[FinishedRollout]) -> dict[str, float]:
        """Collective: the mean over all ranks' outcomes; the model is kept where it is the best so far.

        Raises UserError where fewer than ``denoise.least_scored`` of the rollouts could be scored.
        """
        learner, step = self._learner, self._learner.step
        ended = [one for part in learner.team.gather([(one.outcome, one.trajectory.detail) for one in own]) for one in part]
        values = [outcome for outcome, _ in ended if outcome is not None]
        if not values or len(values) < self._config.denoise.least_scored * len(ended):
            raise _unscored(f"held-out rollouts after step {step}", ended)
        mean = sum(values) / len(values)
        is_best = mean > max(self._seen.values(), default=-1.0)
        self._seen[step] = mean
        weights = learner.trainer.weights() if is_best else None
        if self._log is not None:
            if is_best:
                save_model(learner.model, self._out / BEST, learner.model_dir, weights=weights)
            self._log.append({"step": step, "held_out": mean, "scored": len(values)})
        return {"held_out": mean}


def _unscored(what: str, ended: Sequence[tuple[float | None, str]]) -> UserError:
    """Too few of these could be scored, given with their outcomes and details."""
    scored = sum(outcome is not None for outcome, _ in ended)
    reason = next((detail for outcome, detail in ended if outcome is None and detail), "no judge gave a verdict")
    return UserError(
        f"Only {scored} of {len(ended)} {what} could be scored: {reason.removesuffix('.')}. The same command tries them again; "
        "rl.denoise.least_scored says how many are wanted."
    )


def check_scored(decided: Decided, step: int) -> None:
    """Raises UserError for a step that says nothing: of no group could enough rollouts be scored."""
    if decided and all(status is GroupStatus.UNSCORED for _, status in decided):
        raise _unscored(
            f"rollouts of step {step}", [(one.outcome, one.trajectory.detail) for group, _ in decided for one in group.rollouts]
        )


class _Run:
    """A run under way, but for its rollouts: the learner, who acts, and what is on disk."""

    def __init__(
        self,
        learner: Learner,
        actor: Actor,
        questions: Sequence[Question],
        held_out: Sequence[Question],
        out_dir: Path,
        ledger: Ledger,
        progress: OnProgress | None,
    ) -> None:
        self.learner, self.actor, self.questions, self.out_dir, self.ledger = learner, actor, questions, out_dir, ledger
        self.config, self.team, self.progress = learner.config, learner.team, progress
        self.leads = self.team.rank == 0
        self.score = actor.score or rule_score(self.config.outcome)
        self.places = share(self.team, range(self.config.questions_per_step))
        """Which of a step's groups this rank makes."""
        at_once = len(self.places) * (self.config.pipeline.max_staleness + 1) * self.config.group_size
        self.room = asyncio.Semaphore(max(1, at_once))
        self.selection = Selection(held_out, actor, self.score, learner, out_dir, self.room)
        earlier = [line for line in read_metrics(out_dir / METRICS) if line["step"] <= learner.step]
        self.health = Health(self.config.health, earlier)
        self.log = MetricsLog(out_dir / METRICS, resume_step=learner.step) if self.leads else None
        self.batches: list[Batch] = []
        """What became of the groups of all settled steps."""

    def rollouts(self) -> Rollouts:
        """The groups that this rank makes: its share, but for those that are settled."""
        settled, left = {number for batch in self.batches for number in batch}, self.config.steps - self.learner.step
        own = self.ledger, self.questions, self.places
        return Rollouts(self.config, self.actor, self.score, *own, settled, left, self.room)

    async def publish(self, weights: dict[str, Any] | None) -> None:
        """Hand the weights as they are to whoever samples; of a served model one rank does."""
        served = self.config.pipeline.placement is Placement.SERVED
        await self.actor.sync.publish(None if served and not self.leads else weights, self.learner.version)

    def note(self, metrics: dict[str, float]) -> dict[str, str]:
        """Write a step's figures down and tell whoever watches; returns the alarms that went off, and warns of them."""
        raised, step = self.health.heard(metrics), self.learner.step
        if self.log is not None:
            figures = {**metrics, **self.health.figures()}
            self.log.append({"step": step, **figures})
            for sentence in raised.values():
                warnings.warn(f"step {step}: {sentence}", HealthWarning, stacklevel=2)
            if self.progress is not None:
                self.progress(step, figures)
        return raised

    async def select(self, apart: Apart) -> dict[str, float]:
        """Measure the model on the held-out questions, where it is time."""
        return await apart(self.selection.decide, await self.selection.answer()) if self.selection.due else {}

    async def catch_up(self, apart: Apart) -> None:
        """Do again the updates that an earlier process had settled after its last checkpoint."""
        if late := self.batches[self.learner.step :]:
            async with self.actor.sync.training():
                for batch in late:
                    metrics = await apart(self.learn, await apart(self.read, batch)) | self.selection.known()
                    self.note({**metrics, "wait_seconds": 0.0, "seconds": metrics["learn_seconds"]})

    # -- in the thread that computes; collective in a team -------------------------------------------------------------

    def claim(self) -> None:
        """Read the steps settled before, once rank 0 has seen that group numbers still mean the same. Raises UserError."""
        if self.leads:
            config, ids = self.config, "\x1f".join(question.id for question in self.questions)
            names = ("seed", "group_size", "questions_per_step")
            about = {name: getattr(config, name) for name in names}
            self.ledger.claim({**about, "set of questions": hashlib.sha256(ids.encode()).hexdigest()})
        self.batches = self.team.gather(self.ledger.batches() if self.leads else [])[0]

    def read(self, batch: Batch) -> Decided:
        """A settled step's groups, each as its rank has it. Raises UserError when the rollouts of one are gone."""
        own = [group for number in batch if (group := self.ledger.group(number))]
        found = sorted(joined(self.team, own), key=lambda group: group.number)
        if gone := batch.keys() - {group.number for group in found}:
            raise UserError(f"The rollouts of group {min(gone)} are gone from {self.out_dir}: begin the run again.")
        return [(group, batch[group.number]) for group in found]

    def settle(self, own: Decided) -> Decided:
        """All ranks' groups together; what becomes of each is written down first. Raises as `check_scored`."""
        found = sorted(joined(self.team, list(own)), key=lambda pair: pair[0].number)
        batch = {group.number: status for group, status in found}
        check_scored(found, self.learner.step + 1)
        if self.leads:
            self.ledger.settle(self.learner.step, batch)
        self.batches.append(batch)
        return found

    def learn(self, batch: Decided) -> dict[str, float]:
        """A step's updates; returns its figures."""
        began = time.perf_counter()
        try:
            metrics = self.learner.learn(batch)
        except NotFiniteError as error:
            model = next(reversed(checkpoints(self.out_dir / CHECKPOINTS)), self.learner.model_dir)
            raise UserError(
                f"{error} The same command would meet the same step again: begin in another directory from the last good "
                f"weights, with --model {model} and a lower rl.trainer.lr."
            ) from error
        if self.leads:
            path = self.out_dir / CREDIT / f"{self.learner.step:06d}.jsonl"
            path.parent.mkdir(exist_ok=True)
            replace_file(path, "".join(json.dumps(line) + "\n" for line in self.learner.credit))
            if (check := self.learner.gain_check) is not None:
                from sanderling.rl.gain_report import write_check

                page = write_check(check, self.out_dir, command_line())
                warnings.warn(f"{check.sentence} See {page}.", HealthWarning, stacklevel=2)
        return {**metrics, "learn_seconds": time.perf_counter() - began}

    def save(self, *, now: bool) -> None:
        """A checkpoint where it is time, or cause."""
        if (now or self.learner.step % self.config.save_every == 0) and self.learner.step < self.config.steps:
            self.learner.save(self.out_dir / CHECKPOINTS)

    def finish(self) -> None:
        """Write the run's result: the best of the measured models where there is one, else the last."""
        weights, best, final = self.learner.trainer.weights(), self.out_dir / BEST, self.out_dir / "model"
        if self.leads and self.config.selection.every:
            best.rename(final)
        elif self.leads:
            save_model(self.learner.model, final, self.learner.model_dir, weights=weights)
        self.team.gather("the model is saved")


@contextmanager
def apart_from(device: torch.device | str) -> Iterator[Apart]:
    """One thread in which everything is computed that takes long, so that the event loop goes on meanwhile."""
    place = torch.device(device)

    def ready() -> None:
        if place.type == "cuda" and place.index is not None:
            torch.cuda.set_device(place)  # each thread has a present device of its own, at first the first

    with ThreadPoolExecutor(1, "learner", ready) as thread:

        async def apart(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
            computing = asyncio.get_running_loop().run_in_executor(thread, partial(work, *args, **kwargs))
            try:
                return await asyncio.shield(computing)
            except asyncio.CancelledError:
                await asyncio.wait([computing])  # nobody may sample with a module that is amid its update
                raise

        yield apart
