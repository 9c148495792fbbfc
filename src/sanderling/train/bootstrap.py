"""Bootstrap models: a tokenizer trained on texts, and a randomly initialised Qwen3 of any size, as Hugging Face directories.

For tests, benchmarks and the tiny recipe; the real recipes load released directories instead, through the same loading code.
The tokenizer is byte-level BPE with Qwen3's control tokens. A space before a capital or a digit is a token of its own, so that
a name is spelled alike after a space, a slash or a quote: copying is then copying. Phrases handed in (protocol boilerplate)
become single tokens.
Sizes are those of the released ``config.json`` files.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import tokenizers
from pydantic import Field, model_validator
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from sanderling.core.chat import Tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import sync
from sanderling.train.config import Precision

PUBLISHED_VOCABULARY = 151_936
"""Rows of every published model's embedding; its tokenizer uses 151,669 of them."""
END_OF_TEXT = "<|endoftext|>"
IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
CONTROL_TOKENS = (END_OF_TEXT, IM_START, IM_END)
PROTOCOL_TAGS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>",
)  # fmt: skip
PARTIAL = ".bootstrap-partial"
"""Where files are until all are there; what a kill leaves in it is taken away by the next one."""
_TOKENS = ("eos_token_id", "pad_token_id", "bos_token_id")
"""What ``config.json`` says of the tokenizer."""
PIECES = r" (?=[A-Z0-9])|[A-Z][a-z]*| ?[a-z]+|\d+| ?[^\sA-Za-z0-9]+|\s+"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)


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


def train_tokenizer(texts: Iterable[str], vocab_size: int, phrases: Sequence[str] = ()) -> tokenizers.Tokenizer:
    """Byte-level BPE over ``texts``; control tokens, protocol tags and ``phrases`` are tokens of their own on top of it.

    Deterministic: the same texts in the same order give the same tokenizer.
    """
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
        vocab_size=vocab_size - len(added),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
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
    }


def check_settings(settings: Mapping[str, Any], file: Path) -> None:
    """Raises UserError where `transformers` makes no Qwen3 of what a ``config.json`` says. Imports torch and transformers."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from sanderling.policy.model_directory import quiet

    try:
        with quiet(), torch.device("meta"):
            Qwen3ForCausalLM(Qwen3Config.from_dict({**settings, **dict.fromkeys(_TOKENS), "dtype": "float32"}))
    except Exception as error:  # transformers raises many kinds; all of them mean that no model comes of this
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(f"No Qwen3 can be made of {file} ({told}): mend it there, or give --size.") from error


def write_random_model(directory: Path, tokenizer: tokenizers.Tokenizer, shape: ModelShape, seed: int) -> None:
    """A randomly initialised Qwen3 with this tokenizer, in float32, as a Hugging Face directory; see :func:`write_model`."""
    settings = model_settings(shape, tokenizer.get_vocab_size(with_added_tokens=True))
    write_model(directory, lambda place: write_tokenizer(place, tokenizer), settings, seed)


def write_model(
    directory: Path,
    add_tokenizer: Callable[[Path], object],
    settings: Mapping[str, Any],
    seed: int,
    dtype: Precision = Precision.FLOAT32,
    drawn: Callable[[int], object] = lambda numbers: None,
) -> None:
    """Random weights for what a Qwen3's ``config.json`` says, as a Hugging Face directory. Imports torch and transformers.

    ``add_tokenizer`` writes the tokenizer's files into a directory. ``config.json`` comes to its place last: where it stands,
    the directory is whole. ``drawn`` hears of the numbers of each tensor. The caller's random state is left as it was.
    """
    import torch
    from transformers import GenerationConfig, Qwen3Config

    from sanderling.train.random_weights import write_random_weights

    partial = directory / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        add_tokenizer(partial)
        own = Tokenizer(partial)
        tokens = dict(zip(_TOKENS, (own.token_id(IM_END), own.token_id(END_OF_TEXT), None), strict=True))
        made = {"architectures": ["Qwen3ForCausalLM"], "dtype": dtype.value}
        config = Qwen3Config.from_dict({**settings, **tokens, **made})
        write_random_weights(partial, config, seed, getattr(torch, dtype), drawn)
        config.save_pretrained(partial)
        GenerationConfig.from_model_config(config).save_pretrained(partial)
        for file in partial.glob("*.safetensors"):
            shutil.copymode(partial / "config.json", file)  # safetensors lets nobody but the owner read
        _put_in_place(partial, directory)
    except Exception:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _put_in_place(partial: Path, directory: Path) -> None:
    """Files to where they belong, those of a model that stood there taken away first."""
    for old in (directory / "config.json", *directory.glob("model*.safetensors*")):
        old.unlink(missing_ok=True)
    for file in sorted(partial.iterdir(), key=lambda file: file.name == "config.json"):
        sync(file)
        file.replace(directory / file.name)
    partial.rmdir()
    sync(directory)
