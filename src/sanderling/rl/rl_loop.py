"""Reinforcement learning of a research agent on one page, to be read from top to bottom: ``sanderling train rl --simple``.

This is what is left of a run when all that makes it fast, safe and configurable is taken away: no queue, no ledger, no packing,
no team, no checkpoint. It shares none of the real run's estimators, losses, rows or optimizer code, and a test holds the real
loop to it: with ``max_staleness`` 0, both give the same weights.

Credit is by GRPO, or by IGPO as DR-Venus published it (mode ``scaled_separate`` of the real run).

Each step asks some questions, several times each, and sees which answers are right; says for every turn how much better it was
than the others of its group (its *advantage*); and makes each sampled token likelier, or less likely, by that much. Left out
are history that branches, rollouts made again after an outage, and several updates from one step's rollouts.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Question, Trajectory
from sanderling.judge.rules import exact_match, score_trajectory
from sanderling.rl.act import opened_acting
from sanderling.rl.config import RlConfig, RlRecipe
from sanderling.rl.contract import Ask
from sanderling.rl.credit import GrpoConfig, IgpoConfig, IgpoMode
from sanderling.rl.denoise import turn_penalties
from sanderling.rl.gain import PROBES, GainConfig
from sanderling.rl.losses import PpoConfig
from sanderling.runs.stages import flat, unlike
from sanderling.train.checkpoint import load_model, save_model
from sanderling.train.launch import Place
from sanderling.train.metrics import MetricsLog

if TYPE_CHECKING:
    from sanderling.rl.prepare import Job


@dataclass(frozen=True)
class Settings:
    """Settings of a run. The defaults are those of the real one."""

    steps: int = 100
    questions_per_step: int = 16
    group_size: int = 8
    seed: int = 0
    temperature: float = 1.0
    """At which rollouts are sampled: log-probabilities are of that distribution."""
    clip_low: float = 0.2
    clip_high: float = 0.28
    lr: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    gain_prefix: str | None = None
    """None: GRPO, where only right answers count. Else IGPO, where pages count too that make the right answer likelier: the
    text that is put between what the agent has read and that answer."""
    gamma: float = 1.0
    """IGPO: what one turn of distance leaves of later credit."""


@dataclass
class ScoredRollout:
    """A rollout with an outcome, and its gains and advantages."""

    trajectory: Trajectory
    outcome: float
    gains: list[float | None]
    """One for each turn; None: not measured there."""
    group: int = 0
    """Whose outcomes and gains its own are compared with: a question that is asked twice in a step has two."""
    advantages: list[float] = field(default_factory=list)
    """One for each turn."""


def no_penalties(trajectory: Trajectory) -> list[float]:
    """A format that is never broken."""
    return [0.0 for _ in trajectory.turns()]


async def train(
    model: PreTrainedModel,
    questions: Sequence[Question],
    rollout: Callable[[Ask], Awaitable[Trajectory]],
    settings: Settings,
    encode: Callable[[str], list[int]] = list,
    penalties: Callable[[Trajectory], list[float]] = no_penalties,
    note: Callable[[dict[str, float]], None] = lambda line: None,
) -> list[dict[str, float]]:
    """Train ``model`` in place; returns each step's figures, of which ``note`` hears at once.

    ``rollout`` samples with this very module; ``encode`` is its tokenizer's. ``penalties`` says of each turn how far it breaks
    the format (0 or less).
    """
    optimizer = adamw(model, settings)
    log = []
    for step in range(settings.steps):
        model.eval()
        sampled = await asyncio.gather(*(rollout(ask) for ask in asked(questions, settings, step)))
        rollouts = [
            ScoredRollout(one, score, gains(model, one, encode, settings), group=number // settings.group_size)
            for number, one in enumerate(sampled)
            if (score := outcome(one)) is not None
        ]
        gamma = 1.0 if settings.gain_prefix is None else settings.gamma
        credit(rollouts, gamma)
        for one in rollouts:
            # A penalty is its own turn's: added at the end, it enters nobody's average.
            one.advantages = [a + p for a, p in zip(one.advantages, penalties(one.trajectory), strict=True)]
        informative = [one for one in rollouts if any(one.advantages)]
        trained = update(model, optimizer, informative, settings) if informative else {}
        reward = float(np.mean([one.outcome for one in rollouts])) if rollouts else 0.0
        log.append({"step": step + 1, "reward": reward, **trained})
        note(log[-1])
    return log


# 1. What is asked: each question several times under one episode seed, which means in the same world with the same faults.


def asked(questions: Sequence[Question], settings: Settings, step: int) -> list[Ask]:
    """All rollouts of a step. Questions come in a random order, and when all were asked, again in another one."""
    asks = []
    for number in range(step * settings.questions_per_step, (step + 1) * settings.questions_per_step):
        turn, index = divmod(number, len(questions))
        question = questions[np.random.default_rng((settings.seed, turn)).permutation(len(questions))[index]]
        digest = hashlib.sha256(f"{settings.seed}\x1f{number}\x1f{question.id}".encode()).digest()
        seed, first = int.from_bytes(digest[:7], "big"), number * settings.group_size
        asks += [Ask(question, seed, attempt) for attempt in range(first, first + settings.group_size)]
    return asks


# 2. Its reward: the outcome of a rollout, and the information gain of its pages.


def outcome(trajectory: Trajectory) -> float | None:
    """1 for a right answer, else 0. None after an outage, which is not the agent's doing: no zero, and in no average."""
    return score_trajectory(trajectory, exact_match)


def gains(
    model: PreTrainedModel, trajectory: Trajectory, encode: Callable[[str], list[int]], settings: Settings
) -> list[float | None]:
    """How much likelier each visited page made the right answer than it was after the page before."""
    if settings.gain_prefix is None:
        return [None for _ in trajectory.turns()]
    prefix, answers = encode(settings.gain_prefix), [encode(answer) for answer in trajectory.question.answers]

    def value(context: list[int]) -> float:
        """Mean log-probability of the answer's tokens, had it to be given now; of several answers, the best."""
        with torch.no_grad():
            scores = [logprobs(model, [*context, *prefix, *ids], settings.temperature)[-len(ids) :] for ids in answers]
        return max(float(score.mean()) for score in scores)

    prompts: list[list[int]] = []  # what the agent has before it at each turn
    visited: list[bool] = []
    context: list[int] = []
    for node in trajectory.branch():
        if node.kind is NodeKind.TURN:
            prompts.append(list(context))
            visited.append(False)
        context += node.token_ids or ()
        if any(event.role == "visit" for event in node.events):
            visited[-1] = True
    found: list[float | None] = [None for _ in visited]
    before = value(prompts[0]) if any(visited) else 0.0
    for turn in (turn for turn, did in enumerate(visited) if did):
        after = value([*prompts, context][turn + 1])
        found[turn], before = after - before, after
    return found


# 3. Who deserves it: advantages.


def z_scores(values: Sequence[float]) -> Sequence[float]:
    """Distances from the mean in standard deviations; all 0 where the values are equal: nothing can be learned from those."""
    array = np.array(values)
    return (array - array.mean()) / (array.std() + 1e-6) if len(values) and np.ptp(array) > 1e-9 else [0.0] * len(values)


def credit(rollouts: Sequence[ScoredRollout], gamma: float) -> None:
    """Outcomes and gains are each compared within a group; a turn is credited with what it led to, the less the later.

    Without gains and with ``gamma`` 1 this is GRPO: every turn is as good as the answer.
    """
    gain_z: dict[tuple[int, int], float] = {}  # by rollout and turn
    outcome_z: dict[int, float] = {}
    sizes: list[float] = []  # of gains, where a group's differ: one at its group's mean is a 0 that counts
    for number in {one.group for one in rollouts}:
        group = [index for index, one in enumerate(rollouts) if one.group == number]
        outcome_z |= zip(group, z_scores([rollouts[index].outcome for index in group]), strict=True)
        measured = {(index, turn): g for index in group for turn, g in enumerate(rollouts[index].gains) if g is not None}
        compared = z_scores(list(measured.values()))
        gain_z |= zip(measured, compared, strict=True)
        sizes += [abs(z) for z in compared] if any(compared) else []
    scale = gain_scale(list(outcome_z.values()), sizes)
    for index, one in enumerate(rollouts):
        last = len(one.gains) - 1
        for turn in range(last + 1):
            flowing = sum(weight * gain_z[index, visit] for visit, weight in ahead(one.gains, turn, gamma))
            one.advantages.append(outcome_z[index] * gamma ** (last - turn) + scale * flowing)


def ahead(gains: Sequence[float | None], turn: int, gamma: float) -> list[tuple[int, float]]:
    """The visits that a turn leads to, its own included, and how much of each one's gain flows back to it."""
    visits = [visit for visit in range(turn, len(gains)) if gains[visit] is not None]
    # The first counts in full, also for the searches that led to it.
    return [(visit, gamma ** (visit - turn) if place else 1.0) for place, visit in enumerate(visits)]


def gain_scale(outcome_z: Sequence[float], sizes: Sequence[float]) -> float:
    """One number for the whole step makes gains as large as outcomes, which they would drown where few answers are right."""
    goal = max(float(np.mean(np.abs(outcome_z))), 0.3) if outcome_z else 0.0
    return min(goal / (float(np.mean(sizes)) + 1e-6), 10.0) if sizes else 1.0


# 4. What follows from it: the update.


def logprobs(model: PreTrainedModel, ids: Sequence[int], temperature: float) -> Tensor:
    """Log-probability of every token but the first, given those before it."""
    line = torch.tensor([ids])
    logits = model(input_ids=line, use_cache=False).logits[0, :-1].float() / temperature
    return logits.log_softmax(-1).gather(-1, line[0, 1:, None])[:, 0]


def update(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, rollouts: Sequence[ScoredRollout], settings: Settings
) -> dict[str, float]:
    """One optimizer step on the clipped policy gradient, averaged over all tokens that the agent sampled."""
    lines = []
    for one in rollouts:
        # For each token: its id, whether it is trained (observations are not), its turn's advantage, and the
        # log-probability with which it was sampled.
        line: list[tuple[int, bool, float, float]] = []
        advantages = iter(one.advantages)
        for node in one.trajectory.branch():
            ids, is_turn = node.token_ids or (), node.kind is NodeKind.TURN
            trained, own = node.loss_mask or [is_turn] * len(ids), next(advantages) if is_turn else 0.0
            line += zip(ids, trained, [own] * len(ids), node.logprobs or [0.0] * len(ids), strict=True)
        lines.append(line)
    count = sum(trained for line in lines for _, trained, _, _ in line)
    total = 0.0
    for line in lines:
        ids, trained, advantages, sampled = zip(*line, strict=True)
        advantage, before = torch.tensor(advantages[1:]), torch.tensor(sampled[1:])
        ratio = (logprobs(model, ids, settings.temperature) - before).exp()
        clipped = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
        each = -torch.minimum(ratio * advantage, clipped * advantage)
        loss = each[torch.tensor(trained[1:])].sum() / count
        loss.backward()
        total += float(loss.detach())
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
    optimizer.step()
    optimizer.zero_grad()
    return {"loss": total, "grad_norm": float(norm)}


def adamw(model: PreTrainedModel, settings: Settings) -> torch.optim.Optimizer:
    """Matrices are drawn to zero; norms and biases are not."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)


# 5. The command: a model's directory, questions and a world in; a model's directory out.


def run(job: "Job", note: Callable[[dict[str, float]], None]) -> None:
    """Train the job's model, write ``model/`` and ``metrics.jsonl`` into its directory; ``note`` hears each step's figures."""
    recipe, out = job.order.recipe, job.out
    settings, model, tokenizer = settings_of(recipe), load_model(job.model), load_tokenizer(job.model)
    log = MetricsLog(out / "metrics.jsonl")

    def noted(line: dict[str, float]) -> None:
        log.append(line)
        note(line)

    def penalties(trajectory: Trajectory) -> list[float]:
        return turn_penalties(trajectory, job.profile, job.rl.estimator.penalty_weight)

    async def training() -> None:
        async with opened_acting(recipe, job.profile, job.questions, job.model, out, Place()) as acting:
            actor = acting.connect(model)  # the one agent loop, over the recipe's worlds, with this very module
            await train(model, job.questions, actor.rollout, settings, tokenizer.encode, penalties, noted)

    asyncio.run(training())
    save_model(model, out / "model", job.model)


_OWN = ("steps", "questions_per_step", "group_size", "seed", "loss.clip_", "estimator.mode", "estimator.gamma", "gain")
_OF_TRAINER = ("lr", "betas", "eps", "weight_decay", "grad_clip", "temperature")
_WITHOUT_EFFECT = ("micro_batch_tokens", "logit_chunk", "memory.", "entropy")
_HAS = (
    *(*_OWN, "estimator.penalty_weight", "save_every", "keep"),
    *(f"trainer.{name}" for name in (*_OF_TRAINER, *_WITHOUT_EFFECT)),
)
"""Settings that the loop has, or that do not change what is learned: what is stored and logged, and in which portions."""


def settings_of(recipe: RlRecipe) -> Settings:
    """What the recipe asks of this loop. Raises UserError, which names every setting that the loop does not have."""
    rl, estimator, loss, trainer = recipe.rl, recipe.rl.estimator, recipe.rl.loss, recipe.rl.trainer
    by_gain = isinstance(estimator, IgpoConfig)
    gain = GainConfig() if by_gain else None
    usual = RlConfig(estimator=IgpoConfig() if by_gain else GrpoConfig(), gain=gain)
    lacking = [f"rl.{name}" for name in unlike(flat(usual), flat(rl)) if not name.startswith(_HAS)]
    if by_gain and rl.gain and rl.gain != GainConfig(probe=rl.gain.probe):
        lacking.append("rl.gain")
    if by_gain and estimator.mode is not IgpoMode.SCALED_SEPARATE:
        lacking.append("rl.estimator.mode")
    if recipe.judges not in ((), ("exact",)):
        lacking.append("judges")
    lacking += ["watch"] * bool(recipe.watch)
    if lacking or not isinstance(loss, PpoConfig):
        raise UserError(
            "The simple loop has the estimators grpo and igpo (scaled_separate), the loss ppo and exact answers, and "
            f"does not have what these settings ask for: {', '.join(lacking)}; set them to their defaults (sanderling train rl "
            "--set help prints these), or leave --simple out."
        )
    prefix = ((rl.gain and rl.gain.probe) or PROBES.get(recipe.profile) or PROBES["tiny"]).prefix
    return Settings(
        steps=rl.steps,
        questions_per_step=rl.questions_per_step,
        group_size=rl.group_size,
        seed=rl.seed,
        clip_low=loss.clip_low,
        clip_high=loss.clip_high,
        **{name: getattr(trainer, name) for name in _OF_TRAINER},
        gain_prefix=prefix if by_gain else None,
        gamma=estimator.gamma if by_gain else 1.0,
    )
