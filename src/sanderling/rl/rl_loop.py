"""Reinforcement learning of a research agent on one page, to be read from top to bottom: ``sanderling train rl --simple``.

Each step asks some questions, several times each, sees which answers are right, and makes what was sampled likelier, or less
likely, by how much better it was than the others of its group. The learning is `step.Learner.learn`, the very one of a whole
run: groups, information gain, a table of turns, credit, rows, an update; it is read next, and after it `credit` and `losses`.

What `run` adds is left out: rollouts that go on during updates, several processes, groups in the place of dropped ones,
held-out questions, alarms, checkpoints. Killed, it learns again from the first step. With ``max_staleness`` 0, and where no
group is dropped, a whole run ends with the same weights, bit for bit.
"""

import asyncio
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel

from sanderling.core.record import Question
from sanderling.rl.config import RlConfig, check_run
from sanderling.rl.queue import asks_of, made
from sanderling.rl.rollouts import Actor, Group, rule_score
from sanderling.rl.run import HealthWarning, check_scored
from sanderling.rl.step import Learner, group_status
from sanderling.train.checkpoint import save_model
from sanderling.train.metrics import METRICS, MetricsLog, OnProgress
from sanderling.train.rows import Encoding
from sanderling.train.team import SOLO


async def run_simple(
    config: RlConfig,
    questions: Sequence[Question],
    connect: Callable[[PreTrainedModel], Actor],
    encoding: Encoding,
    model_dir: Path,
    out_dir: Path,
    *,
    progress: OnProgress | None = None,
    device: torch.device | str = "cpu",
) -> None:
    """Train the model at ``model_dir``; ``out_dir`` gets ``metrics.jsonl`` and ``model/``.

    ``connect`` makes the module that is trained sample: the agent loop over the tools of a world. Raises UserError.
    """
    check_run(config, questions, (), encoding)
    learner = Learner(config, encoding, model_dir, None, SOLO, device)
    actor, log = connect(learner.model), MetricsLog(out_dir / METRICS)
    score = actor.score or rule_score(config.outcome)

    async def group(number: int) -> Group:
        """One question's rollouts, under one seed: in the same world with the same faults. An outage has no outcome."""
        question, asks = asks_of(number, questions, config)
        return Group(number, question, tuple(await asyncio.gather(*(made(ask, actor, score, config) for ask in asks))))

    await actor.sync.publish(learner.weights(), learner.version)
    while learner.step < config.steps:
        first = learner.step * config.questions_per_step
        groups = await asyncio.gather(*(group(first + place) for place in range(config.questions_per_step)))
        decided = [(one, group_status(one, learner.version, config)) for one in groups]
        check_scored(decided, learner.step + 1)
        async with actor.sync.training():  # nobody samples meanwhile
            metrics = learner.learn(decided)
        await actor.sync.publish(learner.weights(), learner.version)
        log.append({"step": learner.step, **metrics})
        if (check := learner.gain_check) is not None:
            warnings.warn(check.sentence, HealthWarning, stacklevel=2)
        if progress is not None:
            progress(learner.step, metrics)
    save_model(learner.model, out_dir / "model", model_dir, weights=learner.trainer.weights())
