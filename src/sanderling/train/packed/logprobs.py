"""Log-probabilities of given tokens under a causal language model: one implementation for SFT, RL and the scorer.

The head is applied only where a token is asked for, and in chunks, so that [T, V] logits never exist for long T.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from sanderling.train.config import LOGIT_CHUNK
from sanderling.train.packed.packing import MicroBatch


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
        """Scores of a micro-batch's trained tokens, in its order; to be called inside `attention.packed_attention`.

        ``logit_chunk`` bounds the number of logits alive at once; beyond it chunks are recomputed in the backward pass.
        """
        hidden = hidden_states(self.model, batch)[batch.source]
        return head_logprobs(
            self.model, hidden, batch.target, temperature=temperature, entropy=entropy, logit_chunk=logit_chunk
        )


def hidden_states(model: PreTrainedModel, batch: MicroBatch) -> Tensor:
    """Final hidden states [T, H] of a line; in a context those of this rank's part of it."""
    output = model.base_model(
        input_ids=batch.ids, position_ids=batch.positions, use_cache=False, stretches=batch.stretches, context=batch.context
    )
    return output.last_hidden_state.flatten(0, 1)


def head_logprobs(
    model: PreTrainedModel, hidden: Tensor, target: Tensor, *, temperature: float, entropy: bool, logit_chunk: int
) -> TokenScores:
    """Log-probabilities of ``target`` [N] given the hidden states [N, H] that predict it."""
    weight = cast(nn.Linear, model.get_output_embeddings()).weight
    size = max(1, logit_chunk // weight.shape[0])
    if hidden.shape[0] <= size:
        return _scores(hidden, weight, target, temperature, entropy)
    # Each chunk adds to the weight's gradient: in bfloat16, hundreds of small additions to a large sum are lost by rounding.
    weight = weight.float() if weight.requires_grad and torch.is_grad_enabled() else weight
    chunks = zip(hidden.split(size), target.split(size), strict=True)
    pairs = [checkpoint(_scores, h, weight, t, temperature, entropy, use_reentrant=False) for h, t in chunks]
    return TokenScores(torch.cat([p[0] for p in pairs]), torch.cat([p[1] for p in pairs]) if entropy else None)


def _scores(hidden: Tensor, weight: Tensor, target: Tensor, temperature: float, entropy: bool) -> TokenScores:
    kind = hidden.device.type
    # Cast by hand: a cast that autocast keeps is one for all chunks, whose gradients would be summed in it.
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    logits = torch.nn.functional.linear(hidden, weight.to(narrow)).float()
    if temperature != 1.0:
        logits = logits / temperature
    logprobs = -torch.nn.functional.cross_entropy(logits, target, reduction="none")
    if not entropy:
        return TokenScores(logprobs, None)
    with torch.no_grad():
        distribution = logits.log_softmax(-1)
        return TokenScores(logprobs, -(distribution.exp() * distribution).sum(-1))
