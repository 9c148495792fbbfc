"""Continuous batching on one event loop: requests join and leave between steps, and keep their cache between turns.

Every step computes what is new of the requests that arrived (ragged prefill), and then one token of every running request. A
step is synchronous, and decided by no thread or clock. Before it, the engine yields to the event loop until nobody submits any
more: after turns have ended it waits a fixed number of yields for their sessions to come back with their next observation. So
batches are the same in every run that makes the same calls on one event loop; tools that use threads or sockets change
batches, but the random numbers are each turn's own (`sampler`). Sessions that have gone the same way so far, as a group's
rollouts often do for whole turns, are computed as one (`twins`; on a CPU decode steps too) and drawn for one by one.

Between two steps weights may change (then ``version`` does), and the engine can be paused: inside ``async with
engine.paused()`` no step runs, so that somebody else may use the module, in another thread too. Requests wait meanwhile.

Transformers' own continuous batching (5.19, `generate_batch` and its manager) was tried first and is not used. It has no
sessions: a request is a whole prompt, and only full blocks that happen to survive in its prefix cache are spared. It
samples in a background thread under one seed, so arrival times change results. On a two-core CPU
it took 36 to 63 s over 32 prompts of 300 tokens for a model of 1M parameters, where `generate` took 1 to 2 s.

Knows ids, never text: what ends a turn besides end tokens is a function it is handed.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sanderling.core.errors import UserError
from sanderling.core.types import Sampling
from sanderling.policy.contract import Finish, PolicyOutageError
from sanderling.policy.forward import Branch, SlotForward, borrowed
from sanderling.policy.prefill import plan_prefill
from sanderling.policy.sampler import Settings, Uniforms, sample
from sanderling.policy.twins import alike
from sanderling.policy.usage import Meter, Usage

_PATIENCE = 16
"""Yields to the event loop within which a session that has just finished a turn is expected to submit its next."""


@dataclass(frozen=True)
class Sampled:
    """One turn as it was sampled; the three tuples are parallel."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    finish: Finish
    prefilled: int
    """Prompt tokens that had to be computed for it, by itself or by one that is like it."""
    seconds: float
    """Its share of the steps that it was part of."""


@dataclass(eq=False)
class Request:
    """A turn to be sampled: the branch's ids are its prompt."""

    branch: Branch
    sampling: Sampling
    uniforms: Uniforms
    limit: int
    """Most tokens to sample, at least 1."""
    watch: Callable[[Sequence[int]], bool] | None = None
    """Called with the turn's ids after each; True ends the turn."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    prefilled: int = 0
    seconds: float = 0.0
    seen: torch.Tensor | None = None
    """(V,) tokens sampled so far; only where a presence penalty is asked for."""


class Engine:
    """Serves the requests of one model. One event loop at a time, which is also where it is paused."""

    def __init__(
        self,
        model: Any,
        ends: frozenset[int],
        max_batch: int,
        prefill_tokens: int,
        *,
        reprefill_stale: bool = False,
        meter: Meter | None = None,
    ) -> None:
        """``reprefill_stale``: keys and values of another version are computed again before they are used."""
        self.version = 0
        self._model = model
        self._ends = ends
        self._max_batch = max_batch
        self._prefill_tokens = prefill_tokens
        self._reprefill_stale = reprefill_stale
        self._meter = meter or Meter()
        self._holds = 0
        self._reopened = asyncio.Event()
        self._forward = SlotForward(model)
        self._waiting: dict[Request, asyncio.Future[Sampled]] = {}
        self._running: dict[Request, asyncio.Future[Sampled]] = {}
        self._runner: asyncio.Task[None] | None = None
        self._arrivals = 0
        self._expected: set[Branch] = set()

    async def generate(self, request: Request) -> Sampled:
        """Sample one turn. Its ids are appended to the branch as they come; after an exception the caller truncates it."""
        loop = asyncio.get_running_loop()
        fresh = self._runner is None or self._runner.done()
        future: asyncio.Future[Sampled] = loop.create_future()
        self._waiting[request] = future
        self._arrivals += 1
        self._expected.discard(request.branch)
        if fresh:
            self._expected.add(Branch())  # others of the same batch are about to submit: wait for them once
            self._runner = loop.create_task(self._run())
        try:
            return await future
        finally:
            self._waiting.pop(request, None)
            self._running.pop(request, None)

    def usage(self) -> Usage:
        """What its time was spent on so far."""
        return self._meter.usage()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """No step runs inside. Nothing is awaited on the way in; pauses may overlap, and the last one out opens again."""
        if not self._holds:
            self._reopened = asyncio.Event()
            self._meter.pause_begins()
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._meter.pause_ends()
                self._reopened.set()

    def free(self, branch: Branch) -> None:
        """Give a branch's slot back. A request that runs on it fails."""
        for requests in (self._waiting, self._running):
            for request in [request for request in requests if request.branch is branch]:
                _settle_future(requests.pop(request), PolicyOutageError("The session was closed while it was generating."))
        self._expected.discard(branch)
        self._forward.free(branch)

    async def _run(self) -> None:
        try:
            while self._waiting or self._running:
                await self._quiet()
                while self._holds:  # and again: whoever was told first may have closed it anew
                    await self._reopened.wait()
                with borrowed(self._model):
                    self._refresh()
                    self._prefill()
                    self._decode()
        except torch.OutOfMemoryError as error:
            self._fail(PolicyOutageError(f"The model ran out of memory: use a smaller max_batch or max_length ({error})."))
        except asyncio.CancelledError:
            self._fail(PolicyOutageError("The engine was stopped with its event loop."))
            raise
        except Exception as error:  # whoever waits must hear of it, and the engine must serve the next
            self._fail(error)

    async def _quiet(self) -> None:
        """Yield until nobody submits: at least once, and patiently where turns have just ended."""
        quiet = 0
        while quiet < (_PATIENCE if self._expected else 1):
            before = self._arrivals
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._arrivals == before else 0
        self._expected.clear()

    def _refresh(self) -> None:
        """Where it is asked for, compute again what other weights left in the cache; a turn under way goes on by a token."""
        if self._reprefill_stale:
            for request in (*self._running, *self._waiting):
                if request.branch.version != self.version:
                    request.branch.forget_cache()
            stale = [request for request in self._running if not request.branch.cached]
            for request in stale:
                request.branch.version = self.version
            self._compute(stale)

    def _prefill(self) -> None:
        """Admit waiting requests and compute their new tokens; each gets its first sampled token."""
        admitted = list(self._waiting)[: self._max_batch - len(self._running)]
        for request in admitted:
            self._running[request] = self._waiting.pop(request)
            if not request.branch.cached:
                request.branch.version = self.version
        self._compute(admitted)

    def _compute(self, requests: Sequence[Request]) -> None:
        """Compute what is new in the requests' prompts, once for those that are alike, and sample one token for each."""
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
            self._count([request.branch for request in group])
        spans = [(group[0].branch.cached, len(group[0].branch.ids)) for group in groups]
        for parts in plan_prefill(spans, self._prefill_tokens):
            since = self._meter.now()
            served = [groups[part.index] for part in parts]
            logits = self._forward.prefill(parts, [[request.branch for request in group] for group in served])
            every = [request for group in served for request in group]
            row = torch.tensor([at for at, group in enumerate(served) for _ in group], device=logits.device)
            drawn = self._draw(every, logits[row]) if parts[0].last else None  # a part that is not is alone in its forward
            spent = self._meter.prefilled(since) / sum(part.size for part in parts)
            for part, group in zip(parts, served, strict=True):
                for request in group:
                    request.seconds += spent * part.size / len(group)
            if drawn is not None:
                self._accept_all(every, *drawn)

    def _count(self, group: Sequence[Branch]) -> None:
        """What is computed once for branches that are alike."""
        branch = group[0]
        known = min(one.known for one in group)  # what one of them needs anew is not computed again
        self._meter.prompts(len(branch.ids) - branch.cached, max(0, min(known, len(branch.ids)) - branch.cached))

    def _decode(self) -> None:
        """One token of every running request."""
        requests = list(self._running)
        if not requests:
            return
        since = self._meter.now()
        drawn = self._draw(requests, self._forward.decode([request.branch for request in requests]))
        spent = self._meter.decoded(since) / len(requests)
        for request in requests:
            request.seconds += spent
        self._accept_all(requests, *drawn)

    def _draw(self, requests: list[Request], logits: torch.Tensor) -> tuple[list[int], list[float]]:
        """A token of each request, and their log-probabilities; the device has finished when this returns."""
        device = logits.device
        settings = Settings.of([request.sampling for request in requests], device)
        uniforms = torch.tensor([request.uniforms.draw() for request in requests], dtype=torch.float64, device=device)
        seen = _seen(requests, logits) if settings.penalty is not None else None
        ids, logprobs = sample(logits, settings, uniforms, seen)
        told = logprobs.tolist()
        if any(map(math.isnan, told)):
            raise UserError(
                "The model's logits are no numbers (NaN), so there is nothing to sample: look for such values in its weights, "
                "and train with a lower learning rate where training has made them."
            )
        return ids.tolist(), told

    def _accept_all(self, requests: list[Request], ids: list[int], logprobs: list[float]) -> None:
        self._meter.sampled(len(ids))
        for request, token, logprob in zip(requests, ids, logprobs, strict=True):
            self._accept(request, token, logprob)

    def _accept(self, request: Request, token: int, logprob: float) -> None:
        request.branch.ids.append(token)
        request.ids.append(token)
        request.logprobs.append(logprob)
        request.versions.append(self.version)
        if request.seen is not None:
            request.seen[token] = True
        try:
            finish = self._finish(request, token)
        except Exception as error:  # a listener's failure is that session's alone
            _settle_future(self._running.pop(request), error)
            return
        if finish is not None:
            turn = tuple(request.ids), tuple(request.logprobs), tuple(request.versions)
            self._expected.add(request.branch)
            _settle_future(self._running.pop(request), Sampled(*turn, finish, request.prefilled, request.seconds))

    def _finish(self, request: Request, token: int) -> Finish | None:
        if token in self._ends:
            return Finish.END
        if request.watch is not None and request.watch(request.ids):
            return Finish.STOP
        return Finish.LENGTH if len(request.ids) >= request.limit else None

    def _fail(self, error: Exception) -> None:
        for requests in (self._waiting, self._running):
            for future in requests.values():
                _settle_future(future, error)
            requests.clear()


def _seen(requests: Sequence[Request], logits: torch.Tensor) -> torch.Tensor:
    """(B, V) bool: which tokens each turn has sampled."""
    nothing = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
    for request in requests:
        if request.seen is None and request.sampling.presence_penalty:
            request.seen = nothing.clone()
    return torch.stack([nothing if request.seen is None else request.seen for request in requests])


def _settle_future(future: asyncio.Future[Sampled], outcome: Sampled | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
