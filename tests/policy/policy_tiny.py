"""A byte-level tokenizer and a randomly initialised Qwen3 model, built in a second, for the policy's tests."""

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import tokenizers
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from sanderling.core.chat import Tokenizer
from sanderling.core.types import Sampling
from sanderling.policy.contract import Completion, Delta, SampleKey

CORPUS = ["The sanderling runs along the tide line. <answer>Paris</answer> <tool_response> 東京 é ü \U0001f426"] * 4
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@lru_cache(maxsize=1)
def model_directory() -> Path:
    """A Hugging Face directory with the tiny model and its tokenizer."""
    path = Path(mkdtemp(prefix="tiny-qwen3-"))
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIALS, initial_alphabet=alphabet)
    raw.train_from_iterator(CORPUS, trainer)
    PreTrainedTokenizerFast(tokenizer_object=raw).save_pretrained(path)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=raw.get_vocab_size(), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=512, initializer_range=0.25, tie_word_embeddings=True,
        eos_token_id=0, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(path)
    return path


def load() -> tuple[Qwen3ForCausalLM, Tokenizer]:
    """A fresh copy of the model, and its tokenizer."""
    path = model_directory()
    return Qwen3ForCausalLM.from_pretrained(path).eval(), Tokenizer(path)


def key(turn: int = 0, *, attempt: int = 0, retry: int = 0) -> SampleKey:
    return SampleKey(seed=7, question="q", attempt=attempt, turn=turn, retry=retry)


def ids(*values: int) -> Delta:
    return Delta(messages=(), token_ids=values)


GREEDY = Sampling(temperature=0.0, max_tokens=12)


def full_logits(model: Qwen3ForCausalLM, tokens: list[int]) -> torch.Tensor:
    """(T, V) float64 logits by one plain forward over the whole sequence."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double()


def said(completion: Completion) -> list[int]:
    assert completion.token_ids is not None
    return list(completion.token_ids)


def reference(logits: np.ndarray, sampling: Sampling, seen: set[int]) -> np.ndarray:
    """One row's distribution, written as its definition reads."""
    scores = logits.astype(np.float64)
    for token in seen:
        scores[token] -= sampling.presence_penalty
    scores = scores / (sampling.temperature or 1.0)
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    if sampling.temperature == 0:
        return weights
    if sampling.top_k:
        weights[weights < np.sort(weights)[::-1][min(sampling.top_k, len(weights)) - 1]] = 0.0
        weights /= weights.sum()
    if sampling.top_p < 1:
        kept, total = [], 0.0
        for token in np.argsort(-weights, kind="stable"):
            if total >= sampling.top_p:
                break
            kept.append(token)
            total += weights[token]
        weights[weights < weights[kept[-1]]] = 0.0
        weights /= weights.sum()
    return weights


def widths_of(model) -> list[int]:
    """How many tokens each row of a sampler's forward has, for those that are yet to come."""
    widths: list[int] = []

    def seen(module, arguments, inputs):
        if "input_ids" in inputs:
            widths.append(inputs["input_ids"].shape[1])

    model.register_forward_pre_hook(seen, with_kwargs=True)
    return widths
