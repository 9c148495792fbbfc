"""Bootstrap models: a tokenizer trained on texts, and a randomly initialised Qwen3 of any size, as Hugging Face directories.

For tests, benchmarks and the tiny recipe; the real recipes load released directories instead, through the same loading code.
The tokenizer is byte-level BPE with Qwen3's control tokens. A space before a capital or a digit is a token of its own, so that
a name is spelled alike after a space, a slash or a quote: copying is then copying. Phrases handed in (protocol boilerplate)
become single tokens. Knows nothing of worlds or trajectories.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import tokenizers
from pydantic import BaseModel, ConfigDict, Field, model_validator
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

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

    @model_validator(mode="after")
    def _heads_share(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        return self


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


def write_random_model(directory: Path, tokenizer: tokenizers.Tokenizer, shape: ModelShape, seed: int) -> None:
    """A randomly initialised Qwen3 with this tokenizer, as a Hugging Face directory. Imports torch and transformers.

    ``config.json`` is written last: where it stands, the directory is whole. The caller's random state is left as it was.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from sanderling.policy.model_directory import quiet

    write_tokenizer(directory, tokenizer)
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(with_added_tokens=True),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate,
        max_position_embeddings=shape.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.token_to_id(IM_END),
        pad_token_id=tokenizer.token_to_id(END_OF_TEXT),
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    partial = directory / "partial"
    with quiet():
        model.save_pretrained(partial)
    for file in sorted(partial.iterdir(), key=lambda file: file.name == "config.json"):
        file.replace(directory / file.name)
    partial.rmdir()
