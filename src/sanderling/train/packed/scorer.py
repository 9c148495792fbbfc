"""Teacher-forced log-probabilities at all boundaries of a trajectory in one forward pass, over shared keys and values.

What a trajectory's branches share, and the trajectories of a family, is laid out once; behind it stands each boundary's
continuation as a stretch of its own (`scorer_layout`), short ones attending together to the keys where they lie (`attention`):
a boundary costs what its continuation does. The same pass can return the log-probabilities of the trajectory's own trained
tokens, which training asks for anyway, and information gains with them. A team shares out lines; a sharded model is entered
where its hooks watch, and idle ranks make passes that count nothing.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.config import LOGIT_CHUNK, Packing, Precision, TrainerConfig
from sanderling.train.contract import FloatArray, Row, Scored, ScoreRequest
from sanderling.train.packed.attention import packed_attention
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.memory import in_tiles
from sanderling.train.packed.packing import deal, plan, portion
from sanderling.train.packed.scorer_layout import IDLE, Line, Part, asked, lines_of, one_pass
from sanderling.train.parallel.team import SOLO, Team


class ModelScorer:
    """The :class:`sanderling.train.contract.Scorer` of a module in this process.

    In a team all methods are collective, and handed the same on every rank (:meth:`score_own` is the exception).
    """

    def __init__(
        self,
        model: PreTrainedModel | TokenLogprobs,
        *,
        micro_batch_tokens: int = 2048,
        temperature: float = 1.0,
        logit_chunk: int = LOGIT_CHUNK,
        precision: Precision = Precision.FLOAT32,
        mlp_tile: int | None = 8192,
        team: Team = SOLO,
    ) -> None:
        self.scored = model if isinstance(model, TokenLogprobs) else TokenLogprobs(model)
        """Of a sharded model the entrance that the team has prepared, `Trainer.scored`."""
        _check_attention(self.scored.model)
        self.micro_batch_tokens = micro_batch_tokens
        """Most tokens in one pass, and in a line of several requests; a longer request runs alone."""
        self.temperature = temperature
        self.logit_chunk = logit_chunk
        self.precision = precision
        self.mlp_tile = mlp_tile
        """Tokens that an MLP looks at at once, so that what it holds does not grow with the trajectory; None: all."""
        self.team = team

    @classmethod
    def of(cls, scored: PreTrainedModel | TokenLogprobs, config: TrainerConfig, team: Team = SOLO) -> "ModelScorer":
        """A scorer whose log-probabilities are those of :func:`sanderling.train.trainer.row_logprobs`."""
        return cls(
            scored,
            micro_batch_tokens=config.micro_batch_tokens,
            temperature=config.temperature,
            logit_chunk=config.logit_chunk,
            precision=config.precision,
            team=team,
        )

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, log-probabilities of the answer span. Raises ValueError for bad spans or cuts."""
        return [one.boundaries for one in self.score_with_rows(requests, [()] * len(requests))]

    def score_own(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """As :meth:`score_many` where each rank brings requests of its own, any number, and gets their scores."""
        brought = self.team.gather(list(requests))
        first = sum(len(part) for part in brought[: self.team.rank])
        return self.score_many([one for part in brought for one in part])[first : first + len(requests)]

    def score_with_rows(self, requests: Sequence[ScoreRequest], rows: Sequence[Sequence[Row]]) -> list[Scored]:
        """Boundaries, and for each request log-probabilities of rows of its trajectory, all in the same passes.

        Raises ValueError for bad spans, cuts or rows, on every rank alike.
        """
        several = [asked(request, of_it) for request, of_it in zip(requests, rows, strict=True)]
        lines = lines_of(several, self.micro_batch_tokens, self.team.hands)
        mine = deal([len(line.ids) for _, line in lines], self.team.hands)[self.team.hand]
        groups = [
            [mine[at] for at in group]
            for group in plan([len(lines[i][1].ids) for i in mine], self.micro_batch_tokens, Packing.VARLEN)
        ]
        groups += [[]] * (self.team.passes(len(groups)) - len(groups))
        found: dict[int, FloatArray] = {}
        model = self.scored.model
        self.scored.eval()
        with torch.no_grad(), packed_attention(model), self._tiles():
            for group in groups:
                values = self._pass([lines[i][1] for i in group] or [IDLE])
                ends = np.cumsum([len(lines[i][1].target) for i in group])
                found |= dict(zip(group, np.split(values, ends), strict=False))
        whole = [np.zeros(len(line.target)) for _, line in lines]
        for part in self.team.gather(found):  # ranks that share a line have zeros at each other's tokens
            for index, values in part.items():
                whole[index] += values
        # Where nothing is asked there is nothing to compute.
        told = [Scored([], [np.zeros(len(row.ids)) for row in of_it]) for of_it in rows]
        for (members, line), values in zip(lines, whole, strict=True):
            for index, part, scores in zip(members, line.parts, line.split(values), strict=True):
                told[index] = _told(part, scores, rows[index])
        return told

    def _tiles(self) -> AbstractContextManager[None]:
        return nullcontext() if self.mlp_tile is None else in_tiles(self.scored.model, self.mlp_tile)

    def _pass(self, lines: Sequence[Line]) -> FloatArray:
        """Some lines in one forward; their scored tokens behind each other."""
        batch = one_pass(lines, self.temperature, self.scored.model.device)
        own = portion(batch, self.team.context)
        mixed = self.precision is Precision.BFLOAT16 and not self.team.sharded
        with torch.autocast(own.ids.device.type, torch.bfloat16, enabled=mixed):
            logprobs, _ = self.scored(own, self.temperature, False, self.logit_chunk)
        values = np.zeros(batch.target.numel())
        places = slice(None) if own.picked is None else own.picked.cpu().numpy()
        values[places] = logprobs.double().cpu().numpy()
        return values


def _check_attention(model: PreTrainedModel) -> None:
    """Raises UserError for layers that do not attend to everything before them: a pass has no padded form to fall back on."""
    layers = getattr(model.config, "layer_types", None)
    windows = set(layers) != {"full_attention"} if layers else getattr(model.config, "sliding_window", None) is not None
    if windows:
        raise UserError(
            "This model has layers that do not attend to everything, for which information gain cannot be measured: "
            "use an estimator without it, such as grpo, and trainer.packing=padded."
        )


def _told(part: Part, values: FloatArray, rows: Sequence[Row]) -> Scored:
    boundaries, owned = part.split(values)
    whole = [np.zeros(len(row.ids)) for row in rows]
    for row, into, scores in zip(rows, whole, owned, strict=True):
        into[row.loss_mask] = scores
    return Scored(boundaries, whole)
