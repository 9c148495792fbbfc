"""Reinforcement learning, synchronously: sample with the present weights, grade, give credit, update, and again.

The loop is handed everything that acts: a rollout function over a policy that shares the module, and what turns text into ids.
Its unit is a step: killed at any moment, it continues from its last checkpoint, and since questions, seeds and attempts depend
on the step alone, to the same weights. A team of processes shares out the rollouts, the grading and the rows of a step, and
every rank holds all results. Knows no HTTP, no tools, no worlds.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from transformers import PreTrainedModel

from sanderling.errors import UserError
from sanderling.reward.format import turn_penalties
from sanderling.reward.gain import information_gains
from sanderling.reward.outcome import OUTCOMES, score_trajectory
from sanderling.train.checkpoint import checkpoints, load_model, load_state, save_checkpoint, save_model
from sanderling.train.contract import FloatArray, Row
from sanderling.train.credit_config import PpoConfig, RatioTo
from sanderling.train.encoding import Encoding
from sanderling.train.estimators import build_estimator
from sanderling.train.logprobs import TokenLogprobs
from sanderling.train.losses import build_loss
from sanderling.train.metrics import MetricsLog
from sanderling.train.rl.config import RlConfig
from sanderling.train.rl.figures import step_metrics
from sanderling.train.rl.rows import rl_rows
from sanderling.train.scorer import ModelScorer
from sanderling.train.supervised import OnProgress, Progress, RunResult
from sanderling.train.team import SOLO, Team, joined, share
from sanderling.train.trainer import Trainer, row_logprobs
from sanderling.train.turn_table import Graded, build_table
from sanderling.trajectory.record import Question, Trajectory

Rollout = Callable[[Question, int, int], Awaitable[Trajectory]]
"""``(question, episode seed, attempt) -> trajectory``; the episode seed is shared by a group."""


class Versioned(Protocol):
    """The part of a policy that training touches."""

    @property
    def version(self) -> int: ...

    def bump_version(self) -> int: ...


@dataclass(frozen=True)
class Actor:
    """A policy over the module that is trained, and rollouts with it."""

    policy: Versioned
    rollout: Rollout


Connect = Callable[[PreTrainedModel], Actor]
"""Called once with the live module, before the first step."""
OnTrajectories = Callable[[int, Sequence[Trajectory]], None]
"""Receives each step's trajectories, to store them; after a kill a step may come again, with the same ids."""


async def run_rl(
    config: RlConfig,
    questions: Sequence[Question],
    connect: Connect,
    encoding: Encoding,
    model_dir: Path,
    out_dir: Path,
    *,
    progress: OnProgress | None = None,
    on_trajectories: OnTrajectories | None = None,
    team: Team = SOLO,
) -> RunResult:
    """Train the model at ``model_dir`` and write ``out_dir/model``, ``out_dir/metrics.jsonl`` and checkpoints.

    In a team, every rank calls this with the same arguments; rank 0 writes, and it alone calls the callbacks.
    Raises UserError when there are no questions, no model, rollouts that cannot be trained on, or a step that is not finite;
    whatever a rollout raises propagates.
    """
    final = out_dir / "model"
    if (final / "config.json").is_file():
        return RunResult(final, config.steps, trained=False)
    _check(config, questions, encoding)
    run = _Run(config, encoding, connect, model_dir, out_dir, team)
    leads = team.rank == 0
    while run.step < config.steps:
        began = time.perf_counter()
        trajectories = await _sample(config, questions, run.actor.rollout, run.step, team)
        sampled = time.perf_counter()
        if leads and on_trajectories is not None:
            on_trajectories(run.step, trajectories)
        graded = run.grade(trajectories)
        metrics = run.learn(graded)
        ended = time.perf_counter()
        metrics |= {"rollout_seconds": sampled - began, "learn_seconds": ended - sampled, "seconds": ended - began}
        run.finish_step(metrics)
        if leads and progress is not None:
            progress(Progress(run.step, config.steps, metrics))
    if leads:
        save_model(run.model, final, model_dir)
    team.gather("the model is saved")
    return RunResult(final, config.steps, trained=True)


def step_questions(questions: Sequence[Question], count: int, seed: int, step: int) -> list[Question]:
    """The questions of a step: a seeded order, gone through again and again, each pass in an order of its own."""
    found = []
    for place in range(step * count, (step + 1) * count):
        turn, index = divmod(place, len(questions))
        order = np.random.default_rng((seed, turn)).permutation(len(questions))
        found.append(questions[int(order[index])])
    return found


def episode_seed(seed: int, step: int, question: Question) -> int:
    """What a group's rollouts share: the same faults for all of them, others at another step."""
    digest = hashlib.sha256(f"{seed}\x1f{step}\x1f{question.id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


async def _sample(config: RlConfig, questions: Sequence[Question], rollout: Rollout, step: int, team: Team) -> list[Trajectory]:
    """All rollouts of a step, a group's one behind the other. The first failure stops the others and is raised as itself.

    Each rank samples whole groups; which ones changes no rollout's question, seed or attempt.
    """
    asked = list(enumerate(step_questions(questions, config.questions_per_step, config.seed, step)))
    tasks: list[asyncio.Task[Trajectory]] = []
    try:
        async with asyncio.TaskGroup() as together:
            for place, question in share(team, asked):
                seed = episode_seed(config.seed, step, question)
                for member in range(config.group_size):
                    # A small set of questions may come up twice in a step: attempts still differ.
                    attempt = (step * config.questions_per_step + place) * config.group_size + member
                    tasks.append(together.create_task(_awaited(rollout(question, seed, attempt))))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    trajectories = joined(team, [task.result() for task in tasks])
    repeated = [name for name, count in Counter(t.id for t in trajectories).items() if count > 1]
    if repeated:
        raise ValueError(f"rollouts of one step share the id {repeated[0]!r}: put the attempt into it")
    return trajectories


async def _awaited(one: Awaitable[Trajectory]) -> Trajectory:
    return await one


def credit_rows(
    batch: Sequence[Graded], trajectory: FloatArray | np.ndarray, advantages: FloatArray, encoding: Encoding, drop_zero: bool
) -> list[Row]:
    """Rows of the scored trajectories. ``trajectory`` and ``advantages`` are a table's columns [K]."""
    rows: list[Row] = []
    for number, graded in enumerate(batch):
        own = advantages[trajectory == number]
        if graded.outcome is None or not own.size or (drop_zero and not own.any()):
            continue
        rows.extend(rl_rows(graded.trajectory, own, encoding))
    return rows


class _Run:
    """A run under way: the module, its optimizer, and where it is."""

    def __init__(
        self, config: RlConfig, encoding: Encoding, connect: Connect, model_dir: Path, out_dir: Path, team: Team
    ) -> None:
        self.config, self.encoding, self.model_dir, self.team = config, encoding, model_dir, team
        self.root = out_dir / "checkpoints"
        last = team.gather(next(reversed(checkpoints(self.root)), None))[0]
        torch.manual_seed(config.seed)
        self.model = load_model(last or model_dir)
        total = config.trainer.total_steps or config.steps * config.updates_per_step
        self.trainer = Trainer(self.model, config.trainer.model_copy(update={"total_steps": total}), team)
        self.step = 0
        if last is not None:
            state = load_state(last)
            self.trainer.load_state(state)
            self.step = int(state["rl_step"])
        self.reference = load_model(model_dir) if isinstance(config.loss, PpoConfig) and config.loss.kl_coef > 0 else None
        self.estimator, self.loss = build_estimator(config.estimator), build_loss(config.loss)
        self.model.eval()
        self.actor = connect(self.model)
        self._show_version()
        self.log = MetricsLog(out_dir / "metrics.jsonl", resume_step=self.step) if team.rank == 0 else None

    def grade(self, trajectories: Sequence[Trajectory]) -> list[Graded]:
        """Outcomes, format penalties, and information gains where the configuration asks for them; each rank grades a share."""
        return joined(self.team, self._grade(share(self.team, trajectories)))

    def _grade(self, trajectories: Sequence[Trajectory]) -> list[Graded]:
        config, outcome = self.config, OUTCOMES[self.config.outcome]
        scores = [score_trajectory(trajectory, outcome) for trajectory in trajectories]
        gains: list[list[float | None] | None] = [None] * len(trajectories)
        if config.gain is not None:
            scorer = ModelScorer(
                self.model,
                micro_batch_tokens=config.trainer.micro_batch_tokens,
                temperature=config.trainer.temperature,
                logit_chunk=config.trainer.logit_chunk,
            )
            scored = [i for i, score in enumerate(scores) if score is not None]
            found = information_gains([trajectories[i] for i in scored], self.encoding.tokenizer, scorer, config.gain)
            for i, values in zip(scored, found, strict=True):
                gains[i] = values
        return [
            Graded(trajectory, score, turn_penalties(trajectory, self.encoding.profile), gain)
            for trajectory, score, gain in zip(trajectories, scores, gains, strict=True)
        ]

    def learn(self, batch: Sequence[Graded]) -> dict[str, float]:
        """Credit and update; returns the step's metrics. Without an informative row nothing is updated."""
        table = build_table(batch)
        advantages = self.estimator(table)
        metrics = step_metrics(batch, table, advantages)
        rows = credit_rows(batch, table.trajectory, advantages, self.encoding, self.config.drop_zero_advantage)
        rows = self._with_logprobs(rows)
        shares = [rows[start :: self.config.updates_per_step] for start in range(self.config.updates_per_step)]
        updates = [self.trainer.step(share, self.loss) for share in shares if share]
        self._show_version()
        for name in updates[0] if updates else ():
            metrics[name] = float(np.mean([update[name] for update in updates]))
        return {**metrics, "updates": len(updates), "version": self.actor.policy.version}

    def finish_step(self, metrics: dict[str, float]) -> None:
        """Log, and save where it is time; ranks other than 0 only count."""
        self.step += 1
        if self.log is None:
            return
        self.log.append({"step": self.step, **metrics})
        if self.step % self.config.save_every == 0 and self.step < self.config.steps:
            state: dict[str, Any] = {**self.trainer.state(), "rl_step": self.step}
            save_checkpoint(self.root, self.step, self.model, state, self.model_dir, self.config.keep)

    def _with_logprobs(self, rows: list[Row]) -> list[Row]:
        """Rows with the proximal and reference log-probabilities that the loss will read."""
        loss = self.config.loss
        if not isinstance(loss, PpoConfig) or not rows:
            return rows
        # With one update the trainer's own weights are the proximal policy, and the loss knows that.
        if loss.ratio_to is RatioTo.PROXIMAL and self.config.updates_per_step > 1:
            found = self.trainer.logprobs(rows)
            rows = [replace(row, proximal_logprobs=values) for row, values in zip(rows, found, strict=True)]
        if self.reference is not None:
            found = row_logprobs(TokenLogprobs(self.reference), rows, self.config.trainer, self.team)
            rows = [replace(row, reference_logprobs=values) for row, values in zip(rows, found, strict=True)]
        return rows

    def _show_version(self) -> None:
        """A version is the number of weight updates, also after a resume."""
        while self.actor.policy.version < self.trainer.steps:
            self.actor.policy.bump_version()


def _check(config: RlConfig, questions: Sequence[Question], encoding: Encoding) -> None:
    if not questions:
        raise UserError("There are no questions to train on: give a file with at least one.")
    for question in questions:
        if not question.answers:
            raise UserError(f"Question {question.id!r} has no accepted answer: add one, or leave the question out.")
    sampling, trained = encoding.profile.sampling, config.trainer.temperature
    if sampling.temperature != trained:
        raise UserError(
            f"Rollouts are sampled at temperature {sampling.temperature} and trained at {trained}: "
            f"set trainer.temperature to {sampling.temperature}."
        )
    if sampling.top_p < 1.0 or sampling.top_k or sampling.presence_penalty:
        # The trainer's log-probabilities are of the whole distribution: ratios to a cut one would be wrong without a sign.
        raise UserError("RL needs rollouts of the whole distribution: give a profile with top_p 1, top_k 0 and no penalty.")
    if encoding.profile.guards.max_retries:
        raise UserError("RL needs every attempt as it was sampled: give a profile with guards.max_retries 0.")
