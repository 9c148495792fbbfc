"""Comparisons of `gpu.py`: forks merged and apart, the head in chunks and whole, ours and plain transformers. Figures only.

Each is between two ways to the same numbers on the same model, so it says how far they lie apart and what each costs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gpu_training import LOGIT_CHUNK, SMALL, K, Training, clock, peak_gib, random_model, random_rows, train
from torch import Tensor
from transformers import PreTrainedModel

from sanderling.train.attention import packed_attention
from sanderling.train.config import MemoryConfig, Recompute
from sanderling.train.fit import Shape
from sanderling.train.memory import economise
from sanderling.train.packing import TokenLogprobs, collate, head_logprobs
from sanderling.train.rows import Row

CHUNKS = (16_000_000, 64_000_000, LOGIT_CHUNK, 1_600_000_000, 10**12)
"""Logits at once; the last: all."""
TRUNK, BRANCH, BRANCHES = 24 * K, 2 * K, 4
"""Tokens that branches share, tokens of each alone, and how many there are: 32K in one line, 104K apart."""


def forks(device: torch.device, shape: Shape) -> dict[str, Any]:
    """A forked trajectory, what branches share computed once, against each branch as a row of its own."""
    model = random_model(shape, device, torch.float32)
    economise(model, MemoryConfig(recompute=Recompute.FULL))
    scored = TokenLogprobs(model)
    scale = 1 if shape is not SMALL else 256
    rows = _branches(shape.vocab, TRUNK // scale, BRANCH // scale)
    apart = [[replace(row, trajectory=f"t{n}")] for n, row in enumerate(rows)]
    _pass(scored, [random_rows(shape.vocab, 64, 1)], device)
    model.zero_grad()
    peak_gib(device)
    found: dict[str, Any] = {}
    gradients: list[list[Tensor]] = []
    losses: list[float] = []
    for name, batches in (("merged", [rows]), ("apart", apart)):
        began = clock(device)
        losses.append(_pass(scored, batches, device))
        lines = sum(collate(batch).ids.numel() for batch in batches)
        found[name] = {"tokens": lines, "seconds": clock(device) - began, "peak_gib": peak_gib(device), "loss": losses[-1]}
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
        model.zero_grad()
    squares = [(float((a - b).square().sum()), float(b.square().sum())) for a, b in zip(*gradients, strict=True)]
    return {
        **found,
        "speedup": found["apart"]["seconds"] / found["merged"]["seconds"],
        "loss_gap": abs(losses[0] - losses[1]),
        "relative_gradient_gap": (sum(a for a, _ in squares) / sum(b for _, b in squares)) ** 0.5,
    }


def _branches(vocabulary: int, trunk: int, branch: int) -> list[Row]:
    """Rows of one trajectory; what they share is trained in the first only, as rows of forks are made."""
    rng = np.random.default_rng(0)
    shared = rng.integers(1, vocabulary, trunk)
    rows = []
    for number in range(BRANCHES):
        ids = np.concatenate((shared, rng.integers(1, vocabulary, branch)))
        mask = np.arange(len(ids)) % 4 == 3
        mask[:trunk] &= number == 0
        rows.append(Row(ids, mask, trajectory="forked"))
    return rows


def _pass(scored: TokenLogprobs, batches: Sequence[Sequence[Row]], device: torch.device) -> float:
    """Forward and backward of the mean loss over all trained tokens; the loss."""
    count = sum(int(row.loss_mask.sum()) for batch in batches for row in batch)
    total = 0.0
    with packed_attention(scored.model):
        for rows in batches:
            with torch.autocast(device.type, torch.bfloat16):
                logprobs, _ = scored(collate(rows, device), logit_chunk=LOGIT_CHUNK)
            loss = -logprobs.sum() / count
            loss.backward()
            total += float(loss.detach())
    return total


def head(device: torch.device, shape: Shape) -> dict[str, Any]:
    """The head alone over 32K positions, forward and backward, all logits at once and in chunks of several sizes."""
    model = random_model(replace(shape, layers=1), device, torch.bfloat16)
    positions = 32 * K if shape is not SMALL else 64
    hidden = torch.randn(positions, shape.hidden, device=device, dtype=torch.bfloat16)
    target = torch.randint(0, shape.vocab, (positions,), device=device)
    found: dict[str, Any] = {}
    for chunk in CHUNKS if shape is not SMALL else (5_000, 10**12):
        name = "whole" if chunk == 10**12 else f"{chunk:,}"
        try:
            found[name] = _head(model, hidden, target, chunk, device)
        except torch.OutOfMemoryError as error:
            found[name] = {"failed": str(error).splitlines()[0][:200]}
    return {"positions": positions, "chunks": found}


def _head(model: PreTrainedModel, hidden: Tensor, target: Tensor, chunk: int, device: torch.device) -> dict[str, Any]:
    seconds, mean = 0.0, torch.zeros(())
    for _ in range(2):  # the first chooses kernels
        own = hidden.clone().requires_grad_()
        model.zero_grad()
        peak_gib(device)
        began = clock(device)
        scores = head_logprobs(model, own, target, temperature=1.0, entropy=False, logit_chunk=chunk)
        mean = scores.logprobs.mean()
        mean.backward()
        seconds = clock(device) - began
    return {"seconds": seconds, "peak_gib": peak_gib(device), "mean_logprob": float(mean.detach())}


def plain(device: torch.device, shape: Shape) -> dict[str, Any]:
    """One step of ours on a row of 8K, and one of plain transformers: autocast, its recomputation, its loss, torch's AdamW."""
    tokens = 8 * K if shape is not SMALL else 64 * K
    theirs = _plain(device, shape, tokens if shape is not SMALL else 64)
    ours = train(Training(tokens, MemoryConfig(recompute=Recompute.FULL)), device, shape)
    return {"transformers": theirs, "ours": ours, "speedup": theirs["seconds_per_step"] / ours["seconds_per_step"]}


def _plain(device: torch.device, shape: Shape, tokens: int) -> dict[str, Any]:
    model = random_model(shape, device, torch.float32)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), weight_decay=0.01)
    (row,) = random_rows(shape.vocab, tokens, 1)
    ids = torch.from_numpy(row.ids).to(device)[None]
    labels = torch.where(torch.from_numpy(row.loss_mask).to(device)[None], ids, -100)
    peak_gib(device)
    seconds, losses = [], []
    for _ in range(4):
        began = clock(device)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        seconds.append(clock(device) - began)
    step = sorted(seconds[1:])[1]
    return {
        "tokens": tokens,
        "seconds_per_step": step,
        "tokens_per_second": tokens / step,
        "peak_gib": peak_gib(device),
        "losses": losses,
    }


CHECKS: dict[str, Callable[[torch.device, Shape], dict[str, Any]]] = {
    "forks": forks,
    "head": head,
    "plain transformers 8K": plain,
}
