"""Models of random weights: a Qwen3 of any size with a tokenizer trained on a world's pages, or copied, in a directory.

For tests, benchmarks, checks of hardware and the tiny recipe: such a model knows nothing. The tokenizer is byte-level BPE with
Qwen3's control tokens. A space before a capital or a digit is a token of its own, so that a name is spelled alike after a
space, a slash or a quote: copying is then copying. Phrases handed in (protocol boilerplate) become single tokens. Imports torch
only to write.

Example: ``init_model(ModelInit(out=Path("models/tiny"), world=Path("worlds/own")), report)``.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import tokenizers
from pydantic import Field, model_validator
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.progress import Report
from sanderling.train.config import Precision
from sanderling.train.shape import Shape, shape_of
from sanderling.world.disk.store import open_world

PUBLISHED_VOCABULARY = 151_936
"""Rows of every published model's embedding; its tokenizer uses 151,669 of them."""
END_OF_TEXT = "<|endoftext|>"
IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
CONTROL_TOKENS = (END_OF_TEXT, IM_START, IM_END)
PROTOCOL_TAGS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>",
)  # fmt: skip
LEAST_VOCABULARY = 256 + len(CONTROL_TOKENS) + len(PROTOCOL_TAGS)
"""Every byte, control token and tag is a token."""
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
    initializer_range: float = Field(default=0.02, gt=0)
    """Standard deviation of matrices and embedding."""

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
        "initializer_range": shape.initializer_range,
    }


def write_random_model(
    directory: Path,
    tokenizer: tokenizers.Tokenizer | Path,
    shape: ModelShape,
    seed: int,
    dtype: Precision = Precision.FLOAT32,
    *,
    vocabulary: int | None = None,
    drawn: Callable[[int], object] = lambda numbers: None,
) -> None:
    """A Qwen3 of random weights as a Hugging Face directory, in place of what stood there. Imports torch and transformers.

    ``tokenizer``: one, or the directory whose is copied. ``vocabulary``: rows of the embedding; None: as many as tokens.
    ``drawn`` hears of the numbers of each tensor. The caller's random state is left as it was. Raises UserError when the disk
    does not take it.
    """
    import torch
    from transformers import GenerationConfig, Qwen3Config

    from sanderling.train.checkpoint import copy_tokenizer, replacing
    from sanderling.train.random_weights import write_random_weights

    with replacing(directory) as partial:
        if isinstance(tokenizer, Path):
            copy_tokenizer(tokenizer, partial)
        else:
            write_tokenizer(partial, tokenizer)
        own = Tokenizer(partial)
        config = Qwen3Config.from_dict(
            model_settings(shape, own.vocab_size if vocabulary is None else vocabulary)
            | {"eos_token_id": own.token_id(IM_END), "pad_token_id": own.token_id(END_OF_TEXT), "bos_token_id": None}
            | {"architectures": ["Qwen3ForCausalLM"], "dtype": dtype.value}
        )
        write_random_weights(partial, config, seed, getattr(torch, dtype), drawn)
        config.save_pretrained(partial)
        GenerationConfig.from_model_config(config).save_pretrained(partial)


# -- the command -------------------------------------------------------------------------------------------------------------

TINY_VOCABULARY = 4_096
"""Most tokens of a tiny model's own tokenizer; its embedding has a row for each token and no more."""


class ModelInit(Frozen):
    """What ``sanderling model init`` makes."""

    out: Path
    size: str = "tiny"
    """One of :data:`SIZES`."""
    world: Path | None = None
    """On whose pages a tokenizer is trained."""
    tokenizer: Path | None = None
    """A model's directory, whose tokenizer is copied, in place of a world."""
    vocab: int | None = Field(default=None, ge=1)
    """Rows of the embedding; None: as published, and in a tiny model what the tokenizer has."""
    seed: int = Field(default=0, ge=0)
    dtype: Precision = Precision.BFLOAT16
    """What weights are stored in."""


def init_model(wish: ModelInit, report: Report) -> None:
    """Write the model and say what it is. All that can be known to go wrong is said before: raises UserError."""
    if wish.out.is_file():
        raise UserError(f"{wish.out} is a file: choose another --out.")
    if held := sorted(path.name for path in wish.out.iterdir()) if wish.out.exists() else []:
        raise UserError(f"{wish.out} is not empty (it holds {held[0]}): choose another --out, or remove it first.")
    size = wish.size.lower()
    if size not in SIZES:
        raise UserError(f"There is no size {wish.size!r}: choose {', '.join(SIZES)}.")
    rows = wish.vocab or (TINY_VOCABULARY if size == "tiny" else PUBLISHED_VOCABULARY)
    _require_room(wish, _shape(size, rows))
    tokens, tokenizer = _tokenizer(wish, rows, report)
    if wish.vocab is None and size == "tiny":
        rows = tokens
    elif tokens > rows:
        raise UserError(
            f"The tokenizer has {tokens:,} tokens and the model's vocabulary {rows:,}: give --vocab {tokens} or more, or a "
            "smaller tokenizer."
        )
    shape = _shape(size, rows)
    with report.task("Millions of numbers drawn", round(shape.parameters / 1e6)) as advance:
        done, shown = 0, 0

        def drawn(numbers: int) -> None:
            nonlocal done, shown
            done += numbers
            advance(round(done / 1e6) - shown)
            shown = round(done / 1e6)

        write_random_model(wish.out, tokenizer, SIZES[size], wish.seed, wish.dtype, vocabulary=rows, drawn=drawn)
    told = f"{_gigabytes(_bytes(shape, wish.dtype))} in {wish.dtype}, {shape.vocab:,} tokens"
    report.say(f"{wish.out} holds a Qwen3 of {shape.parameters:,} parameters, {told}, its weights random (seed {wish.seed}).")
    report.say(f"Train it with sanderling train sft DATA --model {wish.out} --profile PROFILE.")


def _tokenizer(wish: ModelInit, vocabulary: int, report: Report) -> tuple[int, tokenizers.Tokenizer | Path]:
    """A tokenizer of at most so many tokens, or the directory of one; and how many it has."""
    if wish.tokenizer is not None and wish.world is None:
        return load_tokenizer(wish.tokenizer).vocab_size, wish.tokenizer
    if wish.world is None or wish.tokenizer is not None:
        raise UserError("A model needs one tokenizer: give --world, whose pages one is trained on, or --tokenizer DIRECTORY.")
    if vocabulary < LEAST_VOCABULARY:
        raise UserError(
            f"A vocabulary of {vocabulary:,} is too small for a tokenizer: give --vocab {LEAST_VOCABULARY} at least, room for "
            "every byte and the protocol's own tokens."
        )
    world = open_world(wish.world)
    with report.task("Pages read", world.page_count) as advance:

        def texts() -> Iterator[str]:
            for page in world.all_pages():
                yield f"{page.title}\n{page.url}\n{page.text}"
                advance()

        try:
            trained = train_tokenizer(texts(), vocabulary)
        except OSError as error:
            raise UserError(f"The world {wish.world} cannot be read ({error}): copy it again, or build it again.") from error
    return trained.get_vocab_size(with_added_tokens=True), trained


def _require_room(wish: ModelInit, shape: Shape) -> None:
    place = next(path for path in (wish.out.absolute(), *wish.out.absolute().parents) if path.exists())
    need, free = _bytes(shape, wish.dtype), shutil.disk_usage(place).free
    if need > free:
        raise UserError(
            f"The weights take {_gigabytes(need)} and the disk of {wish.out} has {_gigabytes(free)}: free some space, or "
            "choose another --out, a smaller --size or --dtype bfloat16."
        )


def _shape(size: str, vocabulary: int) -> Shape:
    return shape_of(model_settings(SIZES[size], vocabulary), "the model")


def _bytes(shape: Shape, dtype: Precision) -> int:
    return shape.parameters * (2 if dtype is Precision.BFLOAT16 else 4)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
