"""Models of random weights: a Qwen3 of any size with a tokenizer trained on a world's pages, or copied, in a directory.

The tokenizer is byte-level BPE with Qwen3's control tokens. A space before a capital or a digit is a token of its own, so a
name is spelled alike after a space, a slash or a quote. A tensor's numbers depend on the seed and its name alone.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from pydantic import Field
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.progress import Report
from sanderling.train.checkpoint import copy_tokenizer, replacing
from sanderling.train.config import Precision
from sanderling.world.disk.store import open_world

if TYPE_CHECKING:
    import torch
    from torch import nn

TINY_VOCABULARY, PUBLISHED_VOCABULARY = 4_096, 151_936
"""Most tokens that a tiny model's tokenizer learns; rows of every published model's embedding, of which 151,669 are used."""
END_OF_TEXT = "<|endoftext|>"
IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
CONTROL_TOKENS = (END_OF_TEXT, IM_START, IM_END)
PROTOCOL_TAGS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>",
)  # fmt: skip
PIECES = r" (?=[A-Z0-9])|[A-Z][a-z]*| ?[a-z]+|\d+| ?[^\sA-Za-z0-9]+|\s+"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
_BLOCK = 1 << 24


class ModelShape(Frozen):
    """The size of a Qwen3-architecture model."""

    hidden: int = Field(default=160, ge=8)
    layers: int = Field(default=5, ge=1)
    heads: int = Field(default=5, ge=1)
    kv_heads: int = Field(default=5, ge=1)
    head_dim: int = Field(default=32, ge=2)
    intermediate: int = Field(default=448, ge=8)
    max_positions: int = Field(default=4096, ge=16)
    rope_theta: float = Field(default=10_000.0, gt=0)
    tied: bool = True
    initializer_range: float = Field(default=0.02, gt=0)


SIZES: dict[str, ModelShape] = {
    "tiny": ModelShape(
        hidden=128, layers=4, heads=4, kv_heads=2, head_dim=32, intermediate=384, max_positions=32_768, rope_theta=1e6
    )
} | {
    name: ModelShape(
        layers=layers, hidden=hidden, heads=heads, kv_heads=8, head_dim=128, intermediate=intermediate, tied=hidden < 4096,
        max_positions=262_144 if name == "4b-2507" else 40_960, rope_theta=5e6 if name == "4b-2507" else 1e6,
    )
    for name, (layers, hidden, heads, intermediate) in {
        "0.6b": (28, 1024, 16, 3072), "1.7b": (28, 2048, 16, 6144), "4b": (36, 2560, 32, 9728), "4b-2507": (36, 2560, 32, 9728),
        "8b": (36, 4096, 32, 12_288), "14b": (40, 5120, 40, 17_408), "32b": (64, 5120, 64, 25_600),
    }.items()
}  # fmt: skip
"""Qwen3's dense models; from ``4b-2507`` (Thinking, Instruct) the three systems' checkpoints descend."""


def train_tokenizer(texts: Iterable[str], vocab_size: int, phrases: Sequence[str] = ()) -> tokenizers.Tokenizer:
    """Byte-level BPE over ``texts``; control tokens, protocol tags and ``phrases`` are tokens of their own on top of it."""
    added = [AddedToken(token, special=True, normalized=False) for token in CONTROL_TOKENS]
    added += [AddedToken(token, special=False, normalized=False) for token in (*PROTOCOL_TAGS, *phrases)]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )  # pyright: ignore[reportAttributeAccessIssue]  # the stub lacks the setter
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(added), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(added[: len(CONTROL_TOKENS)])
    tokenizer.add_tokens(added[len(CONTROL_TOKENS) :])
    return tokenizer


def write_tokenizer(directory: Path, tokenizer: tokenizers.Tokenizer) -> None:
    """The tokenizer's files, as `transformers` and other engines load them."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": IM_END,
        "pad_token": END_OF_TEXT,
        "model_max_length": 1_000_000,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def model_settings(shape: ModelShape, vocabulary: int) -> dict[str, Any]:
    """What ``config.json`` says of a Qwen3 of that shape, but for its tokens."""
    return {
        "model_type": "qwen3",
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.max_positions,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "tie_word_embeddings": shape.tied,
        "initializer_range": shape.initializer_range,
    }


def write_random_model(
    directory: Path,
    tokenizer: tokenizers.Tokenizer | Path,
    shape: ModelShape,
    seed: int,
    dtype: Precision = Precision.FLOAT32,
    *,
    least_vocabulary: int = 0,
) -> int:
    """A Qwen3 of random weights as a Hugging Face directory, in place of what stood there; returns its parameters.

    ``tokenizer``: one, or the directory whose is copied. The embedding has a row for each token, ``least_vocabulary`` at
    least. The caller's random state is left as it was. Raises UserError when the disk does not take it.
    """
    import torch
    from huggingface_hub import save_torch_state_dict
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    with replacing(directory) as partial:
        if isinstance(tokenizer, Path):
            copy_tokenizer(tokenizer, partial)
        else:
            write_tokenizer(partial, tokenizer)
        own = Tokenizer(partial)
        config = Qwen3Config.from_dict(
            model_settings(shape, max(own.vocab_size, least_vocabulary))
            | {"eos_token_id": own.token_id(IM_END), "pad_token_id": own.token_id(END_OF_TEXT), "bos_token_id": None}
            | {"architectures": ["Qwen3ForCausalLM"], "dtype": dtype.value}
        )
        with torch.device("meta"):
            model = Qwen3ForCausalLM(config)
        modules = dict(model.named_modules())
        tensors: dict[str, torch.Tensor] = {}
        for name, parameter in model.named_parameters():  # a tied head is the embedding, and drawn as one
            module, _, kind = name.rpartition(".")
            key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
            tensors[name] = _draw(modules[module], kind, parameter.shape, shape.initializer_range, (seed, key), dtype)
        save_torch_state_dict(tensors, partial, max_shard_size=2 * 10**9, metadata={"format": "pt"})
        config.save_pretrained(partial)
        GenerationConfig.from_model_config(config).save_pretrained(partial)
    return sum(tensor.numel() for tensor in tensors.values())


def _draw(
    module: "nn.Module", kind: str, shape: "torch.Size", std: float, seed: tuple[int, int], dtype: Precision
) -> "torch.Tensor":
    """Normal numbers for matrices and embedding (the padding token's row is zero), ones for norms, zeros for biases."""
    import torch

    width = getattr(torch, dtype)
    if kind == "bias" or not isinstance(module, torch.nn.Embedding | torch.nn.Linear):
        return torch.full(shape, 0.0 if kind == "bias" else 1.0, dtype=width)
    rng, flat = np.random.default_rng(seed), torch.empty(shape.numel(), dtype=width)
    for part in flat.split(_BLOCK):
        part.copy_(torch.from_numpy(rng.standard_normal(len(part), dtype=np.float32)).mul_(std))
    found = flat.view(shape)
    if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
        found[module.padding_idx] = 0
    return found


class ModelInit(Frozen):
    """What ``sanderling model init`` makes."""

    out: Path
    size: str = "tiny"
    world: Path | None = None
    tokenizer: Path | None = None
    seed: int = Field(default=0, ge=0)
    dtype: Precision = Precision.BFLOAT16


def init_model(wish: ModelInit, report: Report) -> None:
    """Write the model and say what it is. Raises UserError."""
    if wish.out.is_file() or (wish.out.is_dir() and any(wish.out.iterdir())):
        raise UserError(f"{wish.out} is not an empty directory: choose another --out, or remove it first.")
    size = wish.size.lower()
    if size not in SIZES:
        raise UserError(f"There is no size {wish.size!r}: choose {', '.join(SIZES)}.")
    rows = 0 if size == "tiny" else PUBLISHED_VOCABULARY
    tokenizer = _tokenizer(wish, rows or TINY_VOCABULARY, report)
    parameters = write_random_model(wish.out, tokenizer, SIZES[size], wish.seed, wish.dtype, least_vocabulary=rows)
    gigabytes = parameters * (2 if wish.dtype is Precision.BFLOAT16 else 4) / 1e9
    report.say(f"{wish.out} holds a Qwen3 of {parameters:,} parameters ({gigabytes:,.2f} GB), its weights random.")
    report.say(f"Train it with sanderling train sft DATA --model {wish.out} --profile PROFILE.")


def _tokenizer(wish: ModelInit, most: int, report: Report) -> tokenizers.Tokenizer | Path:
    """A tokenizer trained on a world's pages, of at most so many tokens, or the directory of one."""
    if wish.tokenizer is not None and wish.world is None:
        load_tokenizer(wish.tokenizer)
        return wish.tokenizer
    if wish.world is None or wish.tokenizer is not None:
        raise UserError("A model needs one tokenizer: give --world, whose pages one is trained on, or --tokenizer DIRECTORY.")
    world = open_world(wish.world)
    with report.task("Pages read", world.page_count) as advance:

        def texts() -> Iterator[str]:
            for page in world.all_pages():
                yield f"{page.title}\n{page.url}\n{page.text}"
                advance()

        return train_tokenizer(texts(), most)
