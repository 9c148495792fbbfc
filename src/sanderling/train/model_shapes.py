"""Sizes of Qwen3's dense models: the published ones by name, and a small one for a CPU. Importable without torch.

The numbers are those of the released ``config.json`` files. Knows no weights and no tokenizer.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sanderling.core.errors import UserError

PUBLISHED_VOCABULARY = 151_936
"""Rows of every published model's embedding; its tokenizer uses 151,669 of them."""


class ModelShape(BaseModel):
    """The size of a Qwen3-architecture model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden: int = Field(default=160, ge=8)
    layers: int = Field(default=5, ge=1)
    heads: int = Field(default=5, ge=1)
    kv_heads: int = Field(default=5, ge=1)
    head_dim: int = Field(default=32, ge=2)
    intermediate: int = Field(default=448, ge=8)
    max_positions: int = Field(default=4096, ge=16)
    rope_theta: float = Field(default=10_000.0, gt=0)
    tied: bool = True
    """Whether the head is the embedding."""

    @model_validator(mode="after")
    def _heads_share(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        if self.head_dim % 2:
            raise ValueError(f"head_dim ({self.head_dim}) must be even, since positions turn pairs of its numbers")
        return self


def _published(
    layers: int, hidden: int, heads: int, intermediate: int, *, tied: bool, positions: int = 40_960, theta: float = 1e6
) -> ModelShape:
    """A released model: 8 heads of keys and values, all heads of 128."""
    return ModelShape(
        hidden=hidden, layers=layers, heads=heads, kv_heads=8, head_dim=128, intermediate=intermediate,
        max_positions=positions, rope_theta=theta, tied=tied,
    )  # fmt: skip


SIZES: dict[str, ModelShape] = {
    "tiny": ModelShape(
        hidden=128, layers=4, heads=4, kv_heads=2, head_dim=32, intermediate=384, max_positions=32_768, rope_theta=1e6
    ),
    "0.6b": _published(28, 1024, 16, 3072, tied=True),
    "1.7b": _published(28, 2048, 16, 6144, tied=True),
    "4b": _published(36, 2560, 32, 9728, tied=True),
    "4b-2507": _published(36, 2560, 32, 9728, tied=True, positions=262_144, theta=5e6),
    "8b": _published(36, 4096, 32, 12_288, tied=False),
    "14b": _published(40, 5120, 40, 17_408, tied=False),
    "32b": _published(64, 5120, 64, 25_600, tied=False),
}
"""``4b-2507``: Qwen3-4B-Thinking-2507 and Instruct-2507, from which the three systems' checkpoints descend."""


def find_size(name: str) -> ModelShape:
    """The shape of that name, in either case. Raises UserError with the names there are."""
    found = SIZES.get(name.lower())
    if found is None:
        raise UserError(f"There is no size {name!r}: choose {', '.join(SIZES)}, or give a Qwen3 config.json with --config.")
    return found
