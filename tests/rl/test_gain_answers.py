"""Which tokens are the answer's: those of the whole text's own tokenisation, and all that hold a part of the answer."""

import unicodedata

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from train_records import WordTokenizer

from sanderling.rl.gain import DR_VENUS_PROBE, PROBES, Probe, forced

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How Qwen's tokenizers cut text before they merge bytes."""
TEXTS = [
    "Now there's enough information to answer\n</think>\n<answer>\nthe U.S.\n</answer>",
    "Oslo (Norway).\nThe U.S.\n</answer> Émile, 東京 and 1,234.\n",
] * 20


class Bytes:
    """A small byte-level BPE that cuts as Qwen's do."""

    fingerprint = "qwen-like"

    def __init__(self) -> None:
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
            [
                pre_tokenizers.Split(Regex(QWEN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        made.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False))
        made.add_tokens(["</think>"])
        self.made = made
        self.vocab_size = made.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self.made.encode(text, add_special_tokens=False).ids

    def decode(self, ids) -> str:
        return self.made.decode(list(ids), skip_special_tokens=False)

    def token_id(self, token: str) -> int:
        return self.made.token_to_id(token)


BYTES = Bytes()
ANSWERS = ["Oslo", "the U.S.", "(Norway)", " Oslo", "1,234.", "Émile", "東京", "a\nb", "Oslo\n", "</answer>", "😀"]


def held(ids: list[int]) -> str:
    return BYTES.decode(ids)


@pytest.mark.parametrize("probe", [DR_VENUS_PROBE, PROBES["tiny"]])
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_ids_are_those_of_the_whole_text_and_the_span_holds_the_answer_and_no_token_more(probe: Probe, answer: str):
    ids, (first, end) = forced(BYTES, probe, answer)
    assert ids == BYTES.encode(probe.prefix + answer + probe.suffix)
    assert answer in held(ids[first:end])
    assert answer not in held(ids[first + 1 : end]) and answer not in held(ids[first : end - 1])
    before, but_one = held(ids[:first]), held(ids[: end - 1]).rstrip("\ufffd")  # a half character decodes to this
    assert probe.prefix.startswith(before) and (probe.prefix + answer).startswith(but_one)


def test_encoded_apart_is_not_always_what_a_policy_would_sample():
    probe, answer = DR_VENUS_PROBE, "the U.S."
    ids, (first, end) = forced(BYTES, probe, answer)
    apart = [i for part in (probe.prefix, answer, probe.suffix) for i in BYTES.encode(part)]
    assert ids != apart
    assert [held([i]) for i in ids[first:end]][-1].startswith(".\n"), "the full stop and the line break are one token"


@given(st.text(min_size=1, max_size=12))
def test_any_answer_is_located(answer: str):
    ids, (first, end) = forced(BYTES, DR_VENUS_PROBE, answer)
    answer = unicodedata.normalize("NFC", answer)
    text = DR_VENUS_PROBE.prefix + answer + DR_VENUS_PROBE.suffix
    assert held(ids) == text and 0 < first < end <= len(ids)
    assert DR_VENUS_PROBE.prefix.startswith(held(ids[:first]))
    assert held(ids[:end]).startswith(DR_VENUS_PROBE.prefix + answer)


@pytest.mark.parametrize("composed", ["Émile", "Ürümqi", "Đà Nẵng", "한국"])
def test_an_answer_in_decomposed_letters_is_measured_as_models_write_it(composed: str):
    decomposed = unicodedata.normalize("NFD", composed)
    assert decomposed != composed
    assert forced(BYTES, DR_VENUS_PROBE, decomposed) == forced(BYTES, DR_VENUS_PROBE, composed)


def test_where_decoding_does_not_give_the_text_back_parts_are_encoded_apart():
    class Lossy(WordTokenizer):
        def decode(self, ids) -> str:
            return super().decode(ids).lower()

    tokens, probe = Lossy(), Probe(prefix="Enough </think> <answer>", suffix="</answer>")
    ids, (first, end) = forced(tokens, probe, "New York")
    assert ids[first:end] == tokens.encode("New York") and ids[:first] == tokens.encode(probe.prefix)
