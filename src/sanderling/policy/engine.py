"""Continuous batching on one event loop: requests join and leave between steps, and keep their cache between turns.

Every step computes what is new of the requests that arrived (ragged prefill), and then one token of every running request. A
step is synchronous, and decided by no thread or clock: before it, the engine yields to the event loop until nobody submits any
more. So batches are the same in every run that makes the same calls on one event loop, and draws are each turn's own
whatever the batch (`uniforms`). Between two steps weights may change, or somebody else use the module, in a thread too.

Transformers' own continuous batching (5.19) has no sessions, and samples in a background thread under one seed.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sanderling.core.errors import UserError
from sanderling.core.types import Sampling
from sanderling.policy.contract import Finish, Gate, PolicyOutageError, SampleKey
from sanderling.policy.forward import Branch, SlotForward, alike, borrowed, plan_prefill

_CANDIDATES = 64  # A top-p cut usually falls among this many most likely tokens; only where it does not are all of them sorted


def uniforms(key: SampleKey) -> Callable[[], float]:
    """The turn's random numbers in [0, 1), one a call."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key.digest()[:16], "little"))).random


def sample(
    logits: torch.Tensor, rows: Sequence[Sampling], uniforms: torch.Tensor, seen: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row; returns ids (B,) and log-probabilities (B,), not numbers where the row's logits are none.

    ``logits`` (B, V); ``uniforms`` (B,) float64 in [0, 1); ``seen`` (B, V) bool, what each row's turn has sampled. In this
    order: presence penalty, temperature, top-k, top-p of what top-k left. Tokens that tie with the last one kept are kept too.
    Log-probabilities are those of exactly this distribution; at temperature 0 the likeliest token is taken, and its
    log-probability is that of temperature 1 without cuts.
    """

    def column(values: list[float], neutral: float, dtype: torch.dtype = torch.float64) -> torch.Tensor | None:
        """(B, 1), None where no row asks for anything."""
        asked = any(value != neutral for value in values)
        return torch.tensor(values, dtype=dtype, device=logits.device).unsqueeze(1) if asked else None

    greedy = [row.temperature == 0 for row in rows]
    scores = logits.to(torch.float64)
    penalty = column([row.presence_penalty for row in rows], 0.0)
    if penalty is not None and seen is not None:
        scores = scores - penalty * seen
    temperature = column([row.temperature or 1.0 for row in rows], 1.0)
    if temperature is not None:
        scores = scores / temperature
    weights = torch.softmax(scores, dim=-1)
    top_k = column([0 if row.temperature == 0 else row.top_k for row in rows], 0, torch.int64)
    if top_k is not None:
        most = min(int(top_k.max()), weights.shape[1])
        threshold = weights.topk(most, dim=-1).values.gather(1, (top_k.clamp(1, most) - 1))
        weights = weights.masked_fill((weights < threshold) & (top_k > 0), 0.0)
    top_p = column([1.0 if row.temperature == 0 else row.top_p for row in rows], 1.0)
    if top_p is not None:
        weights = _cut_top_p(weights, top_p)
    cumulative = weights.cumsum(dim=-1)
    total = cumulative[:, -1:]
    target = torch.minimum(uniforms.unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total)))
    ids = torch.searchsorted(cumulative, target, right=True).clamp_(max=weights.shape[1] - 1)
    if any(greedy):
        likeliest = weights.argmax(dim=-1, keepdim=True)
        ids = torch.where(torch.tensor(greedy, device=logits.device).unsqueeze(1), likeliest, ids)
    return ids.squeeze(1), torch.log(weights.gather(1, ids) / total).squeeze(1)


def _cut_top_p(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    wanted = top_p * weights.sum(dim=-1, keepdim=True)
    threshold = weights.amax(dim=-1, keepdim=True)
    unsure = ((threshold < wanted) & (top_p < 1.0)).squeeze(1).nonzero().squeeze(1)
    if unsure.numel():  # a trained policy is sure of most tokens: one token is then the whole nucleus
        found, sums = weights[unsure], wanted[unsure]
        best = found.topk(min(_CANDIDATES, found.shape[1]), dim=-1).values
        if bool((best.sum(dim=-1, keepdim=True) < sums).any()):
            best = found.sort(dim=-1, descending=True).values
        before = best.cumsum(dim=-1) - best
        last = (before < sums).sum(dim=-1, keepdim=True).clamp(min=1) - 1
        threshold[unsure] = best.gather(1, last)
    return weights.masked_fill((weights < threshold) & (top_p < 1.0), 0.0)


_PATIENCE = 16  # yields to the event loop within which a session that has just finished a turn is expected to submit its next


@dataclass(eq=False)
class Request:
    """A turn to be sampled: the branch's ids are its prompt. What was sampled is filled in; the three lists are parallel."""

    branch: Branch
    sampling: Sampling
    uniform: Callable[[], float]  # the turn's random numbers
    limit: int  # most tokens to sample, at least 1
    watch: Callable[[Sequence[int]], bool] | None = None  # called with the turn's ids after each; True ends the turn
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    finish: Finish | None = None
    prefilled: int = 0  # prompt tokens that had to be computed for it, by itself or by one that is like it
    seen: torch.Tensor | None = None  # (V,) tokens sampled so far; only beside somebody who asks for a presence penalty


class Engine:
    """Serves the requests of one model, on one event loop at a time; paused while ``gate`` is closed."""

    def __init__(self, model: Any, ends: frozenset[int], max_batch: int, prefill_tokens: int) -> None:
        self.version, self.model, self.gate = 0, model, Gate()
        self._ends, self._max_batch, self._prefill_tokens = ends, max_batch, prefill_tokens
        self._forward = SlotForward(model)
        self._waiting: dict[Request, asyncio.Future[None]] = {}
        self._running: dict[Request, asyncio.Future[None]] = {}
        self._runner: asyncio.Task[None] | None = None
        self._arrivals = 0
        self._expected: set[Branch] = set()

    async def generate(self, request: Request) -> None:
        """Sample one turn. Its ids are appended to the branch as they come; after an exception the caller truncates it."""
        loop = asyncio.get_running_loop()
        fresh = self._runner is None or self._runner.done()
        future = loop.create_future()
        self._waiting[request] = future
        self._arrivals += 1
        self._expected.discard(request.branch)
        if fresh:
            self._expected.add(Branch())  # others of the same batch are about to submit: wait for them once
            self._runner = loop.create_task(self._run())
        try:
            await future
        finally:
            self._waiting.pop(request, None)
            self._running.pop(request, None)

    def free(self, branch: Branch) -> None:
        """Give a branch's slot back. A request that runs on it fails."""
        its = [request for request in (*self._waiting, *self._running) if request.branch is branch]
        self._settle(its, PolicyOutageError("The session was closed while it was generating."))
        self._expected.discard(branch)
        self._forward.free(branch)

    async def _run(self) -> None:
        try:
            while self._waiting or self._running:
                await self._quiet()
                async with self.gate.passing():
                    with borrowed(self.model):
                        self._step()
        except torch.OutOfMemoryError as error:
            words = f"The model ran out of memory: use a smaller max_batch ({error})."
            self._settle([*self._waiting, *self._running], PolicyOutageError(words))
        except asyncio.CancelledError:
            words = "The engine was stopped with its event loop."
            self._settle([*self._waiting, *self._running], PolicyOutageError(words))
            raise
        except Exception as error:  # whoever waits must hear of it, and the engine must serve the next
            self._settle([*self._waiting, *self._running], error)

    async def _quiet(self) -> None:
        """Yield until nobody submits: at least once, and patiently where turns have just ended."""
        quiet = 0
        while quiet < (_PATIENCE if self._expected else 1):
            before = self._arrivals
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._arrivals == before else 0
        self._expected.clear()

    def _step(self) -> None:
        """Admit and compute what has come, and then one token of every running request."""
        admitted = list(self._waiting)[: self._max_batch - len(self._running)]
        for request in admitted:
            self._running[request] = self._waiting.pop(request)
        self._compute(admitted)
        requests = list(self._running)
        if requests:
            self._accept(requests, self._forward.decode([request.branch for request in requests]))

    def _compute(self, requests: Sequence[Request]) -> None:
        """Compute what is new in the requests' prompts, once for those that are alike, and sample one token for each."""
        for request in requests:
            if not request.branch.cached:
                request.branch.version = self.version
        groups = [[requests[index] for index in group] for group in alike([request.branch for request in requests])]
        for group in groups:
            for number, request in enumerate(group):
                branch = request.branch
                fresh = not branch.cached
                if fresh:
                    self._forward.adopt(branch)
                branch.cached = min(branch.cached, len(branch.ids) - 1)  # the last token's logits are needed
                # A turn is billed what it needs, whoever computes it; a first prompt that another one has counts as copied.
                request.prefilled += 1 if fresh and number else len(branch.ids) - branch.cached
        spans = [(group[0].branch.cached, len(group[0].branch.ids)) for group in groups]
        for parts in plan_prefill(spans, self._prefill_tokens):
            served = [groups[part.index] for part in parts]
            logits = self._forward.compute(parts, [[request.branch for request in group] for group in served])
            if parts[0].stop == spans[parts[0].index][1]:  # a part that is not the last is alone in its forward
                row = torch.tensor([at for at, group in enumerate(served) for _ in group], device=logits.device)
                self._accept([request for group in served for request in group], logits[row])

    def _accept(self, requests: list[Request], logits: torch.Tensor) -> None:
        """Draw a token for each request from its row of the logits (B, V); those that end are told."""
        draws = torch.tensor([request.uniform() for request in requests], dtype=torch.float64, device=logits.device)
        seen = None
        if any(request.sampling.presence_penalty for request in requests):
            for request in requests:
                if request.seen is None:
                    request.seen = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
            seen = torch.stack([request.seen for request in requests if request.seen is not None])
        drawn, chances = sample(logits, [request.sampling for request in requests], draws, seen)
        ids, logprobs = drawn.tolist(), chances.tolist()
        if any(map(math.isnan, logprobs)):
            raise UserError(
                "The model's logits are no numbers (NaN), so there is nothing to sample: look for such values in its weights, "
                "and train with a lower learning rate where training has made them."
            )
        for request, token, logprob in zip(requests, ids, logprobs, strict=True):
            request.branch.ids.append(token)
            request.ids.append(token)
            request.logprobs.append(logprob)
            request.versions.append(self.version)
            if request.seen is not None:
                request.seen[token] = True
            try:
                if token in self._ends:
                    request.finish = Finish.END
                elif request.watch is not None and request.watch(request.ids):
                    request.finish = Finish.STOP
                elif len(request.ids) >= request.limit:
                    request.finish = Finish.LENGTH
            except Exception as error:  # a listener's failure is that session's alone
                self._settle([request], error)
                continue
            if request.finish is not None:
                self._expected.add(request.branch)
                self._settle([request])

    def _settle(self, requests: Sequence[Request], error: Exception | None = None) -> None:
        """Hand results or an error to whoever waits for these requests, and forget them."""
        for request in requests:
            future = self._waiting.pop(request, None) or self._running.pop(request, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
