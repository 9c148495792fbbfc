"""A decoder's sizes, as its ``config.json`` has them, and what follows: parameters, FLOPs, keys and values. Without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import read_model_config

_NEEDED = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
)  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes, as its ``config.json`` has them."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool

    @property
    def layer_parameters(self) -> int:
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def parameters(self) -> int:
        norms = self.layers * (2 * self.hidden + 2 * self.head_dim) + self.hidden
        return self.layers * self.layer_parameters + self.vocab * self.hidden * (1 if self.tied else 2) + norms

    def shared_by(self, ranks: int) -> bool:
        """Whether so many ranks can share a row (`context`): each needs as many heads, and a head of keys at least."""
        return self.heads % ranks == 0 and (self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)

    def flops(self, tokens: int, row_tokens: int, predicted: int | None = None, *, frozen: bool = False) -> float:
        """Model FLOPs of one forward and backward pass, attention causal, nothing counted twice for recomputation.

        6 per parameter and token (4 where it is ``frozen``), and 12 per token, seen token, head and head size, halved. The head
        is applied to ``predicted`` tokens (None: all).
        """
        each = 4.0 if frozen else 6.0
        per_token = self.layers * (each * self.layer_parameters + 6.0 * self.heads * self.head_dim * row_tokens)
        return tokens * per_token + each * self.vocab * self.hidden * (tokens if predicted is None else predicted)

    def kv_bytes(self, tokens: int, width: int = 2) -> int:
        """Keys and values of one session."""
        return 2 * self.layers * self.kv_heads * self.head_dim * width * tokens


def read_shape(model_dir: Path) -> Shape:
    """The sizes of the model in a directory. Raises UserError when its ``config.json`` does not say them."""
    return shape_of(read_model_config(model_dir), str(model_dir / "config.json"))


def shape_of(told: object, origin: str) -> Shape:
    """The sizes that a ``config.json`` tells. Raises UserError, naming ``origin``, when they are not all there."""
    sizes: dict[str, Any] = told.get("text_config", told) if isinstance(told, dict) else {}
    missing = [name for name in _NEEDED if not isinstance(sizes.get(name), int)]
    if missing:
        raise UserError(f"{origin} does not say {', '.join(missing)}: only decoders' sizes are understood.")
    for name in _EXPERTS:
        experts = sizes.get(name)
        if isinstance(experts, int) and experts > 1:
            raise UserError(f"{origin} is of a mixture of {experts} experts ({name}): only dense models' sizes are understood.")
    heads = sizes["num_attention_heads"]
    return Shape(
        hidden=sizes["hidden_size"],
        layers=sizes["num_hidden_layers"],
        heads=heads,
        kv_heads=sizes["num_key_value_heads"],
        head_dim=sizes.get("head_dim") or sizes["hidden_size"] // heads,
        intermediate=sizes["intermediate_size"],
        vocab=sizes["vocab_size"],
        tied=bool(sizes.get("tie_word_embeddings", False)),
    )


def lora_parameters(shape: Shape, rank: int) -> int:
    """Parameters of adapters on every linear layer of every layer: rank times both ends of each."""
    heads, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + heads) + 2 * (shape.hidden + pairs)
    return rank * shape.layers * (attention + 3 * (shape.hidden + shape.intermediate))
