"""Teacher-forced log-probabilities at all boundaries of a trajectory in one forward pass, over shared keys and values.

The branches of a trajectory are laid out once, as one tree. Behind it each boundary's continuation stands as a stretch of its
own, which goes on from its boundary, at positions to match, and sees nothing else. What stands behind the answer is left out;
what is asked twice at a place of the tree stands there once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from sanderling.train.attention import Span, Stretch
from sanderling.train.config import TrainerConfig
from sanderling.train.packing import (
    MicroBatch,
    TokenLogprobs,
    deal,
    joined,
    lay_out,
    logprobs_of,
    micro_batch,
    pack,
    spans,
    with_idle,
)
from sanderling.train.rows import FloatArray, IntArray, ScoreRequest
from sanderling.train.team import SOLO, Team

_DEFAULT = TrainerConfig()


class ModelScorer:
    """The :class:`sanderling.train.rows.Scorer` of a module in this process.

    In a team all methods are collective, and handed the same on every rank.
    """

    def __init__(self, model: PreTrainedModel | TokenLogprobs, config: TrainerConfig = _DEFAULT, team: Team = SOLO) -> None:
        """Log-probabilities are those of :func:`sanderling.train.trainer.row_logprobs` under these settings."""
        self.scored = model if isinstance(model, TokenLogprobs) else TokenLogprobs(model)
        """Of a sharded model the entrance that the team has prepared, `Trainer.scored`."""
        self.config, self.team = config, team

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, log-probabilities of the answer span.

        Raises ValueError for bad spans or cuts, on every rank alike.
        """
        lines = [lay_out_request(request) for request in requests]
        asking = [index for index, line in enumerate(lines) if len(line.target)]  # where nothing is asked nothing is computed
        mine = [asking[i] for i in deal([len(lines[i].ids) for i in asking], self.team.hands)[self.team.hand]]
        parts = pack([len(lines[i].ids) for i in mine], self.config.micro_batch_tokens)
        passes = with_idle([[mine[at] for at in part] for part in parts], self.team)

        def line(items: Sequence[int]) -> MicroBatch:
            return one_pass([lines[i] for i in items] or [IDLE], self.scored.model.device)

        whole = logprobs_of(self.scored, [len(one.target) for one in lines], passes, line, self.config, self.team)
        ends = [np.cumsum([end - first for first, end in request.answer_spans])[:-1] for request in requests]
        return [np.split(values, at) if len(values) else [] for values, at in zip(whole, ends, strict=True)]


@dataclass(frozen=True)
class Line:
    """A request laid out. N is the number of scored tokens."""

    ids: IntArray
    positions: IntArray
    stretches: tuple[Stretch, ...]
    source: IntArray
    """[N] where each token is predicted."""
    target: IntArray


IDLE = Line(
    ids=np.zeros(2, dtype=np.int64),
    positions=np.arange(2),
    stretches=(Stretch(2),),
    source=np.zeros(1, dtype=np.int64),
    target=np.zeros(1, dtype=np.int64),
)
"""What a rank computes because others need its part of the model."""


def lay_out_request(request: ScoreRequest) -> Line:
    """Branches up to their last boundaries as one tree; behind it what is read after each boundary, the same once.

    Raises ValueError for cuts, spans or branches out of range.
    """
    branches = [np.asarray(ids, dtype=np.int64) for ids in (request.ids, *request.others)]
    on = [0] * len(request.cuts) if request.on is None else request.on
    asked = list(zip(on, request.cuts, request.continuations, request.answer_spans, strict=True))
    _check(asked, branches)
    seen = [max((cut for branch, cut, *_ in asked if branch == number), default=0) for number in range(len(branches))]
    lines = [ids[:end] for ids, end in zip(branches, seen, strict=True)]
    tree = lay_out(lines, [range(len(lines))])
    ids, positions, stretches = [tree.ids], [tree.positions], list(tree.stretches)
    start = len(tree.ids)
    known: dict[tuple[int, ...], IntArray] = {}
    sources: list[IntArray] = []
    targets: list[IntArray] = []
    for branch, cut, continuation, (first, end) in asked:
        places = tree.where[branch][:cut]
        reads = tuple(continuation[: end - 1])  # the last answer token is predicted, never read
        key = (int(places[-1]), *reads)
        if key not in known:
            known[key] = np.concatenate((places[-1:], np.arange(start, start + len(reads))))
            start += len(reads)
            if reads:
                stretches.append(Stretch(len(reads), spans(places)))
                ids.append(np.array(reads, dtype=np.int64))
                positions.append(np.arange(cut, cut + len(reads)))
        sources.append(known[key][first:end])
        targets.append(np.asarray(continuation[first:end], dtype=np.int64))
    return Line(joined(ids), joined(positions), tuple(stretches), joined(sources), joined(targets))


def _check(asked: Sequence[tuple[int, int, Sequence[int], Span]], branches: Sequence[IntArray]) -> None:
    for branch, cut, continuation, (first, end) in asked:
        if not 0 <= branch < len(branches):
            raise ValueError(f"boundary on branch {branch} of {len(branches)}")
        if not 1 <= cut <= len(branches[branch]):
            raise ValueError(f"cut {cut} is not within 1 and {len(branches[branch])}")
        if not 0 <= first < end <= len(continuation):
            raise ValueError(f"answer span {first}:{end} is not within a continuation of {len(continuation)} tokens")


def one_pass(lines: Sequence[Line], device: torch.device | str) -> MicroBatch:
    """Lines behind each other, for one forward; its scored tokens are those of the lines in their order."""
    starts = np.cumsum([0, *(len(line.ids) for line in lines)])
    stretches = tuple(
        Stretch(one.length, tuple((first + int(by), end + int(by)) for first, end in one.prefix))
        for line, by in zip(lines, starts, strict=False)
        for one in line.stretches
    )
    source = [line.source + by for line, by in zip(lines, starts, strict=False)]
    ids, positions, target = zip(*((line.ids, line.positions, line.target) for line in lines), strict=True)
    return micro_batch(ids, positions, stretches, source, target, device)
