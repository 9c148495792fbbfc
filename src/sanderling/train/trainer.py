"""The trainer executes rows: one optimizer step for a list of them, by AdamW or Muon. It knows no algorithm.

Advantages and log-probabilities come with the rows; how they become a scalar is the loss that is handed in. It is normalised
over the whole optimizer batch, so the cut into micro-batches changes nothing but speed and memory (unless ``micro_batch_mean``
is asked for by name). Nor does a team: each rank is handed all rows and computes its share, and all take the same step.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.attention import packed_attention
from sanderling.train.config import Aggregation, OptimizerKind, Schedule, TrainerConfig
from sanderling.train.memory import economise
from sanderling.train.packing import (
    MicroBatch,
    TokenLogprobs,
    bundled,
    collate,
    deal,
    logprobs_of,
    pack,
    per_token,
    portion,
    scored_tokens,
    with_idle,
)
from sanderling.train.rows import PER_TOKEN, FloatArray, Loss, LossInputs, Row, grouped
from sanderling.train.team import SOLO, Team, load_optimizer_state, optimizer_state, whole, whole_weights


class Muon(torch.optim.Muon):
    """torch's, which multiplies in bfloat16; on a CPU in float32: most processors emulate 16 bits, at ten times the cost."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One update."""
        if any(p.device.type != "cpu" for group in self.param_groups for p in group["params"]):
            return super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return None

    def _move(self, parameter: Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        """Momentum, its nearest orthogonal matrix, and a step along it: as torch's ``_single_tensor_muon``."""
        momentum = self.state[parameter].setdefault("momentum_buffer", torch.zeros_like(gradient))
        momentum.lerp_(gradient, 1.0 - group["momentum"])
        update = gradient.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum
        update = orthogonal(update.float(), group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
        parameter.add_(update.to(parameter.dtype), alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Near the orthogonal factor of a matrix's polar decomposition, by Newton-Schulz iterations: singular values of 0.7 to 1.2.

    X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, from X = matrix / its Frobenius norm (Jordan et al., 2024).
    """
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    found = matrix.T if tall else matrix
    found = found / found.norm().clamp(min=eps)
    for _ in range(steps):
        gram = found @ found.T
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found.T if tall else found


class Optimizers:
    """Torch optimizers over disjoint parameters of one model, stepped together."""

    def __init__(self, model: PreTrainedModel, config: TrainerConfig) -> None:
        hidden = _hidden_matrices(model) if config.optimizer is OptimizerKind.MUON else []
        taken = {id(parameter) for parameter in hidden}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in taken]
        groups = [
            {"params": [p for p in rest if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
        ]
        self._model = model
        self._all: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
        ]
        if hidden:
            self._all.append(Muon(hidden, lr=config.muon_lr, weight_decay=config.weight_decay))
        self._full = [config.lr, config.muon_lr]

    def step(self, lr_share: float) -> None:
        """One update, with ``lr_share`` of each optimizer's full learning rate; gradients are cleared."""
        for optimizer, full in zip(self._all, self._full, strict=False):
            for group in optimizer.param_groups:
                group["lr"] = full * lr_share
            optimizer.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        for optimizer in self._all:
            optimizer.zero_grad()

    def state_dict(self) -> list[dict[str, Any]]:
        """By the names of parameters, whole, on rank 0: the same however the model lies over ranks. Collective."""
        return [optimizer_state(self._model, optimizer) for optimizer in self._all]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Continue from :meth:`state_dict`. Collective."""
        for optimizer, state in zip(self._all, states, strict=True):
            load_optimizer_state(self._model, optimizer, state)


def _hidden_matrices(model: PreTrainedModel) -> list[Parameter]:
    """Two-dimensional weights between embedding and head."""
    ends = {id(module.weight) for module in (model.get_input_embeddings(), model.get_output_embeddings()) if module is not None}
    return [p for p in model.parameters() if p.requires_grad and p.ndim == 2 and id(p) not in ends]


def row_weights(rows: Sequence[Row], aggregation: Aggregation, micro_batches: Sequence[Sequence[int]] = ()) -> list[float]:
    """Weight of each of a row's trained tokens, such that all tokens' weights sum to 1.

    All tokens, trajectories or micro-batches (rows by index, over all ranks) weigh the same, and within one its trained tokens.
    """
    counts = [int(row.loss_mask.sum()) for row in rows]
    groups: dict[Aggregation, Callable[[], Sequence[Sequence[int]]]] = {
        Aggregation.TOKEN_MEAN: lambda: [range(len(rows))],
        Aggregation.TRAJECTORY_MEAN: lambda: grouped([row.trajectory for row in rows]),
        Aggregation.MICRO_BATCH_MEAN: lambda: micro_batches,
    }
    tokens = [(group, sum(counts[i] for i in group)) for group in groups[aggregation]()]
    trained = sum(count > 0 for _, count in tokens)
    if not trained:
        raise UserError("This batch has no token to train on: check the rows' loss masks.")
    weights = [0.0] * len(rows)
    for group, count in tokens:
        for i in group:
            weights[i] = 1.0 / (trained * count) if counts[i] else 0.0
    return weights


class NotFiniteError(UserError):
    """A loss or a gradient that no update can be made of; the weights are as they were."""


def lr_at(step: int, config: TrainerConfig) -> float:
    """The learning rate of a step, counted from 0: linear warm-up, then the schedule down to ``final_lr_share``."""
    if config.total_steps is None and (config.warmup_share or config.schedule is Schedule.COSINE):
        raise UserError("A cosine schedule and a share for warm-up need trainer.total_steps, the number of optimizer steps.")
    total = config.total_steps or 0
    warmup = math.ceil(config.warmup_share * total) or config.warmup_steps
    if step < warmup:
        return config.lr * (step + (not config.warmup_from_zero)) / warmup
    if config.schedule is Schedule.CONSTANT:
        return config.lr
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    left = 0.5 * (1.0 + math.cos(math.pi * done))
    return config.lr * (config.final_lr_share + (1.0 - config.final_lr_share) * left)


def row_logprobs(scored: TokenLogprobs, rows: Sequence[Row], config: TrainerConfig, team: Team = SOLO) -> list[FloatArray]:
    """Log-probabilities of each row's trained ids under a model, [T] with 0 where a token is not trained. Collective."""

    def line(items: Sequence[int]) -> MicroBatch:
        return collate([rows[i] for i in items] or [_idle(rows[0])], scored.model.device)

    counts = [int(row.loss_mask.sum()) for row in rows]
    passes = with_idle(_plan(rows, config, team.hands)[team.hand], team)
    whole = [np.zeros(len(row.ids)) for row in rows]
    for row, own, values in zip(rows, whole, logprobs_of(scored, counts, passes, line, config, team), strict=True):
        own[row.loss_mask] = values
    return whole


def _plan(rows: Sequence[Row], config: TrainerConfig, hands: int, *, groups: bool = True) -> list[list[list[int]]]:
    """Each hand's micro-batches: indices of the rows that it computes, of all that every rank holds."""
    parts = bundled(rows, config.micro_batch_tokens, groups=groups)
    plans = []
    for hand in deal([part.tokens for part in parts], hands):
        own = [parts[i] for i in hand]
        batches = pack([part.tokens for part in own], config.micro_batch_tokens)
        plans.append([[index for at in batch for index in own[at].rows] for batch in batches])
    return plans


def _idle(row: Row) -> Row:
    """Two tokens that count nothing, for a pass that a rank makes because others need it."""
    cut = {name: value[:2] for name in PER_TOKEN if (value := getattr(row, name)) is not None}
    return replace(row, **cut | {"loss_mask": np.array([False, True])}, trajectory="idle")


class Trainer:
    """One model, its optimizer, one step at a time. In a team all methods are collective, and handed the same on every rank."""

    def __init__(self, model: PreTrainedModel, config: TrainerConfig, team: Team = SOLO) -> None:
        self.model = model
        self.config = config
        self.team = team
        self.steps = 0
        """Optimizer steps taken."""
        economise(model, config.memory)
        self.scored = TokenLogprobs(model)
        team.prepare(self.scored)
        self.optimizer = Optimizers(model, config)

    def step(self, rows: Sequence[Row], loss: Loss) -> dict[str, float]:
        """One optimizer step over all rows; returns means over the trained tokens, and the step's figures.

        Raises UserError when the batch has nothing to train, and NotFiniteError; weights are then as they were.
        """
        began = time.perf_counter()
        # Where each micro-batch weighs the same, which rows share one changes the loss: there rollouts are not put together.
        groups = self.config.aggregation is not Aggregation.MICRO_BATCH_MEAN
        plans = _plan(rows, self.config, self.team.hands, groups=groups)
        weights = row_weights(rows, self.config.aggregation, [group for own in plans for group in own])
        lr = lr_at(self.steps, self.config)
        self.model.train()
        total, computed, sums = 0.0, 0, Counter[str]()
        bad: list[str] = []
        with packed_attention(self.model):
            for indices in with_idle(plans[self.team.hand], self.team):
                used, shares = [rows[i] for i in indices], [weights[i] for i in indices]
                value, seen, broken, ids = self._accumulate(used or [_idle(rows[0])], shares or [0.0], loss)
                total += value
                bad += broken
                if used:
                    sums.update(seen)
                    computed += ids
        # Asked of all when all have made their passes: a rank that stopped by itself would leave the others waiting.
        if found := [name for part in self.team.gather(bad) for name in part]:
            self._refuse("loss", found)
        self.team.sum_gradients(self.model)
        counts = Counter[str]()
        for part in self.team.gather({**sums, "loss": total, "computed_tokens": computed}):
            counts.update(part)
        total, computed = counts.pop("loss"), int(counts.pop("computed_tokens"))
        norm = float(whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)))
        if not math.isfinite(norm):
            self._refuse("gradient", [row.trajectory for row in rows])
        self.optimizer.step(lr / self.config.lr)
        self.model.eval()
        self.steps += 1
        trained = int(sum(row.loss_mask.sum() for row in rows))
        seconds = time.perf_counter() - began
        tokens = sum(len(row.ids) for row in rows)
        means = {name: value / trained for name, value in counts.items()}
        figures = {"loss": total, "grad_norm": norm, "lr": lr, "rows": len(rows), "tokens": tokens, "trained_tokens": trained}
        figures |= {"computed_tokens": computed, "seconds": seconds, "tokens_per_second": tokens / seconds}
        return {**means, **figures}

    def logprobs(self, rows: Sequence[Row]) -> list[FloatArray]:
        """:func:`row_logprobs` under the present weights."""
        return row_logprobs(self.scored, rows, self.config, self.team)

    def state(self) -> dict[str, Any]:
        """Collective: what a checkpoint needs beside the weights, whole on rank 0."""
        return {"optimizer": self.optimizer.state_dict(), "steps": self.steps}

    def weights(self) -> dict[str, Tensor] | None:
        """Collective: the weights by name on rank 0 where ranks share them out; None where the model holds its own."""
        return whole_weights(self.scored) if self.team.sharded else None

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`, bit for bit; the model's weights are loaded elsewhere."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = int(state["steps"])

    def _accumulate(
        self, rows: Sequence[Row], weights: Sequence[float], loss: Loss
    ) -> tuple[float, Counter[str], list[str], int]:
        """Forward and backward of a micro-batch: its loss, sums of metrics, rows that broke it, ids that this rank computed."""
        whole_batch = collate(rows, self.model.device)
        if whole_batch.target.numel() == 0 and not self.team.sharded:
            return 0.0, Counter(), [], 0
        batch = portion(whole_batch, self.team.context)
        scores = scored_tokens(self.scored, batch, self.config, self.team, entropy=self.config.entropy)
        per_row = torch.tensor(weights, dtype=torch.float32, device=batch.ids.device)
        value, metrics = loss(
            LossInputs(
                logprobs=scores.logprobs,
                weights=per_row[batch.row_index],
                advantages=per_token(batch, "advantages"),
                sampler=per_token(batch, "sampler_logprobs"),
                proximal=per_token(batch, "proximal_logprobs"),
                reference=per_token(batch, "reference_logprobs"),
                sequence=batch.row_index if self.team.context is None else None,
            )
        )
        bad: list[str] = []
        if not torch.isfinite(value):
            places = torch.unique(batch.row_index[~torch.isfinite(scores.logprobs)]).tolist()
            bad = [rows[i].trajectory for i in places or range(len(rows))]
        (value * self.team.gradient_scale).backward()
        if scores.entropy is not None:
            metrics = {**metrics, "entropy": scores.entropy}
        seen = Counter({name: float(values.sum()) for name, values in metrics.items()})
        return float(value.detach()), seen, bad, batch.ids.numel()

    def _refuse(self, what: str, trajectories: Sequence[str]) -> None:
        self.optimizer.zero_grad()
        names = [name or "unnamed" for name in trajectories]
        listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise NotFiniteError(
            f"The {what} of step {self.steps + 1} is not finite, so training stopped with the weights unchanged: "
            f"look at rows {listed}, or lower the learning rate."
        )
