"""Tiny models from nothing: the same files for the same seed, whole or not there, and names spelled alike everywhere."""

from pathlib import Path

import pytest
import tokenizers
import torch
from pydantic import ValidationError

from sanderling.core.chat import Tokenizer
from sanderling.train.random_model import (
    CONTROL_TOKENS,
    IM_END,
    PROTOCOL_TAGS,
    ModelShape,
    train_tokenizer,
    write_random_model,
)
from sanderling.world.encyclopedia import generate_pages

SHAPE = ModelShape(hidden=16, layers=1, heads=2, kv_heads=1, head_dim=8, intermediate=16)
PHRASE = "https://atlas.example/wiki/"


@pytest.fixture(scope="module")
def tokenizer() -> tokenizers.Tokenizer:
    return train_tokenizer((page.text for page in generate_pages(60, 1)), 600, (PHRASE,))


@pytest.fixture(scope="module")
def written(tokenizer: tokenizers.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_random_model(directory, tokenizer, SHAPE, 7)
    return directory


def test_same_texts_same_tokenizer(tokenizer: tokenizers.Tokenizer) -> None:
    again = train_tokenizer((page.text for page in generate_pages(60, 1)), 600, (PHRASE,))
    assert again.to_str() == tokenizer.to_str()
    assert tokenizer.get_vocab_size(with_added_tokens=True) == 600


def test_control_tokens_tags_and_phrases_are_one_token(tokenizer: tokenizers.Tokenizer) -> None:
    for text in (*CONTROL_TOKENS, *PROTOCOL_TAGS, PHRASE):
        assert len(tokenizer.encode(text).ids) == 1


def test_a_name_is_spelled_alike_wherever_it_stands(written: Path) -> None:
    fast = Tokenizer(written)
    name = fast.encode("Ziston")
    for before in ("", " ", "the painter ", PHRASE, '"', "_", "("):
        assert fast.encode(before + "Ziston")[-len(name) :] == name


@pytest.mark.parametrize("text", ["", "é ü 京都 \u200b\n\t  x", "<|im_end|> in a page", "1912 and 19 12", "a" * 500])
def test_text_comes_back_as_it_was(written: Path, text: str) -> None:
    fast = Tokenizer(written)
    assert fast.decode(fast.encode(text)) == text
    assert fast.token_id(IM_END) not in fast.encode(text)


def test_the_caller_s_random_numbers_are_left_alone(tokenizer: tokenizers.Tokenizer, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    write_random_model(tmp_path, tokenizer, SHAPE, 1)
    assert torch.equal(torch.rand(3), expected)


def test_heads_that_cannot_share_are_refused() -> None:
    with pytest.raises(ValidationError, match="multiple of kv_heads"):
        ModelShape(heads=5, kv_heads=2)
