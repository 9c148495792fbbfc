"""Choosing the best checkpoint by held-out questions, never by the reward that is trained on.

Every so many steps the model as it is answers all held-out questions, with the same attempts and seeds each time; the best mean
outcome so far is kept in ``best/``. What was measured stands in ``selection.jsonl``. Why: LiteResearcher's first stage, whose
training reward still rose when its agent had collapsed. Knows no world.
"""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from sanderling.train.checkpoint import save_model
from sanderling.train.metrics import MetricsLog, read_metrics
from sanderling.train.rl.config import RlConfig
from sanderling.train.rl.contract import Actor, Ask, Score
from sanderling.train.rl.learning import Learner
from sanderling.train.rl.rollouts import episode_seed
from sanderling.train.team import share
from sanderling.trajectory.record import Question

BEST = "best"
SELECTION = "selection.jsonl"


class Selection:
    """What was measured on the held-out questions, and the best model so far."""

    def __init__(
        self, config: RlConfig, held_out: Sequence[Question], actor: Actor, score: Score, learner: Learner, out_dir: Path
    ) -> None:
        self._config, self._held_out, self._actor, self._score = config, held_out, actor, score
        self._learner, self._best = learner, out_dir / BEST
        # Updates after the last checkpoint are done again to the same weights, so what was measured stays true.
        self._seen = {line["step"]: float(line["held_out"]) for line in read_metrics(out_dir / SELECTION)}
        last = max(self._seen, default=0)
        writes = config.selection.every and learner.team.rank == 0
        self._log = MetricsLog(out_dir / SELECTION, resume_step=last) if writes else None

    @property
    def due(self) -> bool:
        """Whether the model as it is has to be measured."""
        every, step = self._config.selection.every, self._learner.step
        return bool(every) and step not in self._seen and (step % every == 0 or step == self._config.steps)

    def known(self) -> dict[str, float]:
        """What was measured of the model as it is."""
        return {"held_out": self._seen[self._learner.step]} if self._learner.step in self._seen else {}

    async def answer(self) -> list[float]:
        """Outcomes of this rank's share of the held-out rollouts; unscored ones are left out."""
        tries = [(question, attempt) for question in self._held_out for attempt in range(self._config.selection.attempts)]
        own = share(self._learner.team, tries)
        async with asyncio.TaskGroup() as together:
            tasks = [together.create_task(self._one(question, attempt)) for question, attempt in own]
        return [value for value in (task.result() for task in tasks) if value is not None]

    async def _one(self, question: Question, attempt: int) -> float | None:
        ask = Ask(question, episode_seed(self._config.seed, attempt, question), attempt)
        trajectory = await self._actor.rollout(ask)
        value = await self._score(trajectory)
        self._actor.stored(trajectory)
        return value

    def decide(self, own: Sequence[float]) -> dict[str, float]:
        """Collective: the mean over all ranks' outcomes; the model is kept where it is the best so far."""
        learner, step = self._learner, self._learner.step
        values = [value for part in learner.team.gather(list(own)) for value in part]
        mean = sum(values) / len(values) if values else 0.0
        best = max(self._seen.values(), default=-1.0)
        self._seen[step] = mean
        weights = learner.trainer.weights() if mean > best else None
        if self._log is not None:
            if mean > best:
                save_model(learner.model, self._best, learner.source.model_dir, weights=weights)
            self._log.append({"step": step, "held_out": mean, "scored": len(values)})
        return {"held_out": mean}

    def adopt(self, final: Path) -> bool:
        """Rank 0: make the best model the run's result; False where nothing was selected."""
        if not self._seen or not self._best.is_dir():
            return False
        partial = final.with_name(f".{final.name}")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(self._best, partial)
        partial.rename(final)
        return True
