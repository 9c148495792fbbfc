"""Log-probabilities of given tokens under a causal language model: one implementation for SFT, RL and the scorer.

The head is applied only where a token is asked for, and in chunks, so that [T, V] logits never exist for long T.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.config import LOGIT_CHUNK
from sanderling.train.packed.attention import Stretch
from sanderling.train.packed.packing import MicroBatch
from sanderling.train.parallel.context import Context


class TokenScores(NamedTuple):
    """What the model says about N given tokens; float32 [N] each."""

    logprobs: Tensor
    entropy: Tensor | None
    """Of the whole next-token distribution at each token's place, without gradient; None when not asked for."""


class TokenLogprobs(nn.Module):
    """A causal language model whose forward pass ends in log-probabilities: the one entrance that hooks of sharding watch.

    Head and embedding are used inside it, so a sharded model has them whole when they are needed.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, batch: MicroBatch, temperature: float = 1.0, entropy: bool = False, logit_chunk: int = LOGIT_CHUNK
    ) -> TokenScores:
        """:func:`token_logprobs`."""
        return token_logprobs(self.model, batch, temperature=temperature, entropy=entropy, logit_chunk=logit_chunk)


def token_logprobs(
    model: PreTrainedModel,
    batch: MicroBatch,
    *,
    temperature: float | Tensor = 1.0,
    entropy: bool = False,
    logit_chunk: int = LOGIT_CHUNK,
) -> TokenScores:
    """Log-probabilities of a micro-batch's trained tokens, in its order.

    A packed batch must run inside `attention.packed_attention`. ``logit_chunk`` bounds the number of
    logits alive at once; beyond it chunks are recomputed in the backward pass.
    """
    hidden = hidden_states(model, batch.ids, batch.positions, batch.stretches, batch.context)
    asked = distinct(batch, _head(model).shape[0])
    found = head_logprobs(
        model,
        hidden[asked.source],
        asked.target,
        temperature=temperature if asked.temperatures is None else asked.temperatures,
        entropy=entropy,
        logit_chunk=logit_chunk,
    )
    if asked.spread is None:
        return found
    # Gradients of a token that several rows train add up here.
    return TokenScores(found.logprobs[asked.spread], None if found.entropy is None else found.entropy[asked.spread])


@dataclass(frozen=True)
class Predictions:
    """What the head is applied to, each prediction once: M of a micro-batch's N."""

    source: Tensor
    """[M]"""
    target: Tensor
    """[M]"""
    temperatures: Tensor | None
    """[M], as the batch has them."""
    spread: Tensor | None
    """[N] which of them each trained token is; None: they are the batch's own."""


def distinct(batch: MicroBatch, vocabulary: int) -> Predictions:
    """A micro-batch's predictions, those that rows share once: same place, same token, same temperature."""
    key, heat = batch.source * vocabulary + batch.target, batch.temperatures
    if not len(key):  # a rank whose part of a line holds nothing that is asked
        return Predictions(batch.source, batch.target, heat, None)
    if heat is None:
        once, spread = torch.unique(key, return_inverse=True)
    else:
        kinds, kind = torch.unique(heat, return_inverse=True)
        once, spread = torch.unique(key * len(kinds) + kind, return_inverse=True)
        once, heat = once // len(kinds), kinds[once % len(kinds)]
    if len(once) == len(key):
        return Predictions(batch.source, batch.target, batch.temperatures, None)
    return Predictions(once // vocabulary, once % vocabulary, heat, spread)


def hidden_states(
    model: PreTrainedModel,
    ids: Tensor,
    positions: Tensor,
    stretches: Sequence[Stretch] | None,
    context: Context | None = None,
) -> Tensor:
    """Final hidden states of a packed line [1, T] or padded rows [B, T], flattened to [B·T, H].

    In a context ``ids`` and ``positions`` are this rank's part of the line, and ``stretches`` cover the whole of it.
    """
    if stretches is None:
        # Right padding needs no position ids, and without them no packing mask is looked for.
        return model.base_model(input_ids=ids, use_cache=False).last_hidden_state.flatten(0, 1)
    output = model.base_model(input_ids=ids, position_ids=positions, use_cache=False, stretches=stretches, context=context)
    return output.last_hidden_state.flatten(0, 1)


def head_logprobs(
    model: PreTrainedModel, hidden: Tensor, target: Tensor, *, temperature: float | Tensor, entropy: bool, logit_chunk: int
) -> TokenScores:
    """Log-probabilities of ``target`` [N] given the hidden states [N, H] that predict it; temperatures [N], or one for all."""
    weight = _head(model)
    size = max(1, logit_chunk // weight.shape[0])
    if hidden.shape[0] <= size:
        return _scores(hidden, weight, target, temperature, entropy)
    # Each chunk adds to the weight's gradient: in bfloat16, hundreds of small additions to a large sum are lost by rounding.
    weight = weight.float() if weight.requires_grad and torch.is_grad_enabled() else weight
    heats = temperature.split(size) if isinstance(temperature, Tensor) else repeat(temperature)
    chunks = zip(hidden.split(size), target.split(size), heats, strict=False)
    pairs = [checkpoint(_scores, h, weight, t, heat, entropy, use_reentrant=False) for h, t, heat in chunks]
    return TokenScores(torch.cat([p[0] for p in pairs]), torch.cat([p[1] for p in pairs]) if entropy else None)


def _head(model: PreTrainedModel) -> Tensor:
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        raise UserError("This model has no language-model head: load it as a causal language model.")
    return head.weight


def _scores(hidden: Tensor, weight: Tensor, target: Tensor, temperature: float | Tensor, entropy: bool) -> TokenScores:
    kind = hidden.device.type
    # Cast by hand: a cast that autocast keeps is one for all chunks, whose gradients would be summed in it.
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    logits = torch.nn.functional.linear(hidden, weight.to(narrow)).float()
    if isinstance(temperature, Tensor):
        logits = logits / temperature[:, None]
    elif temperature != 1.0:
        logits = logits / temperature
    logprobs = -torch.nn.functional.cross_entropy(logits, target, reduction="none")
    if not entropy:
        return TokenScores(logprobs, None)
    with torch.no_grad():
        distribution = logits.log_softmax(-1)
        return TokenScores(logprobs, -(distribution.exp() * distribution).sum(-1))
