"""The scorer: one pass says what one forward for each boundary says, of one trajectory and of families."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scorer_ranks import refuse, score
from test_team import alone
from tiny_qwen3 import VOCAB, tiny_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.train.attention import packed_attention
from sanderling.train.config import TrainerConfig
from sanderling.train.packing import TokenLogprobs, collate
from sanderling.train.rows import Row, ScoreRequest
from sanderling.train.scorer import ModelScorer


def shaped(heads: int, kv_heads: int, head_dim: int, layers: int) -> Qwen3ForCausalLM:
    torch.manual_seed(heads + layers)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=512, initializer_range=0.3,
        tie_word_embeddings=heads % 2 == 0,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


MODEL = tiny_model(seed=3).eval()
MODELS = [MODEL, shaped(1, 1, 16, 1), shaped(4, 4, 8, 2), shaped(6, 2, 8, 3), shaped(8, 1, 4, 1)]
tokens = st.integers(0, VOCAB - 1)


@st.composite
def requests(draw) -> ScoreRequest:
    """Several branches that share a beginning, boundaries in any order, several answers at one of them."""
    branches = [draw(st.lists(tokens, min_size=1, max_size=30))]
    for _ in range(draw(st.integers(0, 2))):
        trunk = draw(st.sampled_from(branches))
        branches.append(trunk[: draw(st.integers(0, len(trunk)))] + draw(st.lists(tokens, min_size=1, max_size=12)))
    on, cuts = [], []
    for _ in range(draw(st.integers(0, 6))):
        branch = draw(st.integers(0, len(branches) - 1))
        answers = draw(st.integers(1, 3))
        on += [branch] * answers
        cuts += [draw(st.integers(1, len(branches[branch])))] * answers
    probe = draw(st.lists(tokens, max_size=4))
    continuations = [probe[: draw(st.integers(0, 4))] + draw(st.lists(tokens, min_size=1, max_size=6)) for _ in cuts]
    spans = []
    for continuation in continuations:
        first = draw(st.integers(0, len(continuation) - 1))
        spans.append((first, draw(st.integers(first + 1, len(continuation)))))
    return ScoreRequest(branches[0], cuts, continuations, spans, tuple(branches[1:]), on)


def forward(model, ids: list[int], temperature: float) -> torch.Tensor:
    """Log-probabilities of every next token."""
    with torch.inference_mode():
        return (model(input_ids=torch.tensor(ids)[None]).logits[0] / temperature).log_softmax(-1)


def naive(request: ScoreRequest, model=MODEL, temperature: float = 1.0) -> list[np.ndarray]:
    """One ordinary forward for each boundary."""
    found = []
    branches = [request.ids, *request.others]
    on = request.on or [0] * len(request.cuts)
    parts = zip(request.cuts, on, request.continuations, request.answer_spans, strict=True)
    for cut, branch, continuation, (first, end) in parts:
        scores = forward(model, [*branches[branch][:cut], *continuation], temperature)
        found.append(np.array([scores[cut + at - 1, continuation[at]].item() for at in range(first, end)]))
    return found


def close(got, expected) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@given(st.lists(requests(), max_size=4), st.sampled_from([1, 40, 4096]), st.sampled_from(MODELS), st.sampled_from([1.0, 0.8]))
def test_one_pass_agrees_with_one_forward_for_each_boundary(batch, budget, model, temperature):
    scorer = ModelScorer(model, TrainerConfig(micro_batch_tokens=budget, temperature=temperature, logit_chunk=5 * VOCAB))
    got = scorer.score_many(batch)
    assert len(got) == len(batch)
    for found, request in zip(got, batch, strict=True):
        close(found, naive(request, model, temperature))


def counted(model, work) -> list[int]:
    """Tokens of each forward that some work makes."""
    calls: list[int] = []
    handle = model.model.embed_tokens.register_forward_hook(lambda module, args, out: calls.append(args[0].numel()))
    try:
        work()
    finally:
        handle.remove()
    return calls


def test_branches_share_what_they_begin_with():
    ids, other = list(range(20)), [*range(12), 30, 31, 32]
    request = ScoreRequest(ids, [10, 14, 15], [[1, 2, 3]] * 3, [(1, 3)] * 3, (other,), [0, 0, 1])
    assert counted(MODEL, lambda: ModelScorer(MODEL).score_many([request])) == [14 + 3 + 3 * 2]


def test_cuts_spans_and_branches_out_of_range_are_refused():
    good = ScoreRequest([1, 2], [1], [[1]], [(0, 1)])
    for request in (
        ScoreRequest([1, 2], [3], [[1]], [(0, 1)]), ScoreRequest([1, 2], [0], [[1]], [(0, 1)]),
        ScoreRequest([1, 2], [1], [[1]], [(0, 2)]), ScoreRequest([1, 2], [1], [[1]], [(1, 1)]), replace(good, on=[1]),
        replace(good, others=([1, 2, 3],), on=[1], cuts=[4]), replace(good, on=[0, 0]),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            ModelScorer(MODEL).score_many([request])


def test_where_only_keys_of_the_first_layer_are_trained_forks_have_their_gradient():
    """Nothing else there asks for one: attention without gradients would lose it without a sign."""
    model = tiny_model(seed=2)
    for parameter in model.parameters():
        parameter.requires_grad = False
    weight = model.model.layers[0].self_attn.k_proj.weight.requires_grad_()
    trunk = list(range(12))
    mask = np.arange(16) > 11
    rows = [Row(np.array([*trunk, *more]), mask, trajectory="t") for more in ([1, 2, 3, 4], [5, 6, 7, 8])]
    found = []
    with packed_attention(model):
        for batches in ([rows], [rows[:1], rows[1:]]):
            model.zero_grad()
            sum(TokenLogprobs(model)(collate(batch)).logprobs.sum() for batch in batches).backward()
            found.append(weight.grad.clone())
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
    assert found[0].abs().max() > 1e-3


def test_what_is_asked_again_at_a_place_is_read_once_and_keys_are_not_copied_for_a_boundary(monkeypatch: pytest.MonkeyPatch):
    from sanderling.train import attention

    seen, real = [], attention.partial_attention

    def see(query, key, value, *, causal, scale):
        seen.append((key.untyped_storage().data_ptr(), causal))
        return real(query, key, value, causal=causal, scale=scale)

    monkeypatch.setattr(attention, "partial_attention", see)
    model = shaped(2, 2, 16, 1)
    cuts = list(range(10, 210, 10)) * 2
    request = ScoreRequest(list(range(60)) * 4, cuts, [[1, 2, 3]] * 40, [(1, 3)] * 40)
    assert counted(model, lambda: ModelScorer(model).score_many([request])) == [200 + 20 * 2]
    assert len({pointer for pointer, causal in seen if not causal}) == 1, "all look at the line's own keys"
    assert sum(not causal for _, causal in seen) == 20


# -- Two real ranks score what one process does, over shards too, whoever has work -----------------------------------------


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def all_same(ours: list[list[np.ndarray]], theirs: list[list[np.ndarray]]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        same(a, b)


@pytest.mark.parametrize("count", [0, 1, 3, 4], ids=["nothing", "an idle rank", "unequal shares", "four"])
@pytest.mark.parametrize(("shard", "context"), [(True, 1), (False, 1), (True, 2)], ids=["shards", "replicas", "shared lines"])
def test_two_ranks_score_what_one_does(pair, count: int, shard: bool, context: int):
    (first, passes), (second, others) = pair(score, count, shard, context)
    solo, alone_passes = alone(score, count, False)
    all_same(first, solo)
    all_same(second, first)
    if shard:
        assert passes == others, "a rank without work makes passes that count nothing"
    assert context > 1 or max(passes, others) < alone_passes or count < 2


def test_a_request_that_cannot_be_scored_ends_all_ranks(pair):
    errors = pair(refuse, errors=True)
    assert [type(error) for error in errors] == [ValueError, ValueError]
