"""Choosing the best checkpoint by held-out questions, never by the reward that is trained on.

Every so many steps the model as it is answers all held-out questions, with the same attempts and seeds each time; the best mean
outcome so far is kept in ``best/``. What was measured stands in ``selection.jsonl``. Why: LiteResearcher's first stage, whose
training reward still rose when its agent had collapsed.
"""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import Actor, Ask, Ended, Score
from sanderling.rl.queue import episode_seed, made
from sanderling.rl.step import Learner
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.train.checkpoint import save_model
from sanderling.train.metrics import MetricsLog, read_metrics
from sanderling.train.parallel.team import share

BEST = "best"
HELD_OUT = "held_out"
"""The directory of the measurements' rollouts, and where each one's ``meta`` holds its outcome."""
ATTEMPT = "held_out_attempt"
SELECTION = "selection.jsonl"


class Selection:
    """What was measured on the held-out questions, and the best model so far."""

    def __init__(
        self,
        config: RlConfig,
        held_out: Sequence[Question],
        actor: Actor,
        score: Score,
        learner: Learner,
        out_dir: Path,
        room: asyncio.Semaphore,
    ) -> None:
        """``room``: for the rollouts that this rank makes at once, those that are trained on included."""
        self._config, self._held_out, self._actor, self._score, self._room = config, held_out, actor, score, room
        self._learner, self._out_dir = learner, out_dir
        # Updates after the last checkpoint are done again to the same weights, so what was measured stays true.
        self._seen = {line["step"]: float(line["held_out"]) for line in read_metrics(out_dir / SELECTION)}
        writes = config.selection.every and learner.team.rank == 0
        self._log = MetricsLog(out_dir / SELECTION, resume_step=max(self._seen, default=0)) if writes else None

    @property
    def due(self) -> bool:
        """Whether the model as it is has to be measured."""
        every, step = self._config.selection.every, self._learner.step
        return bool(every) and step not in self._seen and (step % every == 0 or step == self._config.steps)

    def known(self) -> dict[str, float]:
        """What was measured of the model as it is."""
        return {"held_out": self._seen[self._learner.step]} if self._learner.step in self._seen else {}

    async def answer(self) -> list[Ended]:
        """The held-out rollouts that this rank makes. Each is stored as it ends, so that a kill loses none."""
        tries = [(question, attempt) for question in self._held_out for attempt in range(self._config.selection.attempts)]
        store = TrajectoryStore(self._out_dir / HELD_OUT / f"{self._learner.step:08d}-{self._learner.team.rank}.jsonl")
        before = {(one.question.id, one.meta[ATTEMPT]): one for one in store}
        try:
            async with asyncio.TaskGroup() as together:
                tasks = [together.create_task(self._one(*one, store, before)) for one in share(self._learner.team, tries)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(
        self, question: Question, attempt: int, store: TrajectoryStore, before: Mapping[tuple[str, int], Trajectory]
    ) -> Ended:
        ask = Ask(question, episode_seed(self._config.seed, attempt, question), attempt)
        found = before.get((question.id, attempt))
        if found is not None and found.meta[HELD_OUT] is not None:
            self._actor.forget(found)  # a kill may have come between
            return Ended(found, found.meta[HELD_OUT])
        ended = await made(ask, self._actor, self._score, self._config, self._room, found)
        meta = {**ended.trajectory.meta, HELD_OUT: ended.outcome, ATTEMPT: attempt}
        store.append(ended.trajectory.model_copy(update={"meta": meta}))
        # The same attempt is made again with other weights: nothing of this one may be gone on with.
        self._actor.forget(ended.trajectory)
        return ended

    def decide(self, own: Sequence[Ended]) -> dict[str, float]:
        """Collective: the mean over all ranks' outcomes; the model is kept where it is the best so far.

        Raises UserError where fewer than ``selection.least_scored`` of the rollouts could be scored.
        """
        learner, step = self._learner, self._learner.step
        ended = [one for part in learner.team.gather([(one.outcome, one.trajectory.detail) for one in own]) for one in part]
        values = [outcome for outcome, _ in ended if outcome is not None]
        if not values or len(values) < self._config.selection.least_scored * len(ended):
            reason = next((detail for outcome, detail in ended if outcome is None and detail), "no judge gave a verdict")
            raise UserError(
                f"Only {len(values)} of {len(ended)} held-out rollouts after step {step} could be scored: "
                f"{reason.removesuffix('.')}. The same command tries them again; rl.selection.least_scored says how many are "
                "wanted."
            )
        mean = sum(values) / len(values)
        best = max(self._seen.values(), default=-1.0)
        self._seen[step] = mean
        weights = learner.trainer.weights() if mean > best else None
        if self._log is not None:
            if mean > best:
                save_model(learner.model, self._out_dir / BEST, learner.source.model_dir, weights=weights)
            self._log.append({"step": step, "held_out": mean, "scored": len(values)})
        return {"held_out": mean}

    def adopt(self, final: Path) -> bool:
        """Rank 0: make the best model the run's result; False where nothing is selected."""
        best = self._out_dir / BEST
        if not self._config.selection.every or not best.is_dir():
            return False
        partial = final.with_name(f".{final.name}")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(best, partial)
        partial.rename(final)
        return True
