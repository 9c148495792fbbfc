import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_qwen3 import VOCAB, tiny_model

from sanderling.train.contract import ScoreRequest
from sanderling.train.scorer import ModelScorer

MODEL = tiny_model(seed=3).eval()
some_ids = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30)


@st.composite
def requests(draw) -> ScoreRequest:
    ids = draw(some_ids)
    cuts = draw(st.lists(st.integers(1, len(ids)), max_size=5))
    continuations = [draw(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=8)) for _ in cuts]
    spans = []
    for continuation in continuations:
        first = draw(st.integers(0, len(continuation) - 1))
        spans.append((first, draw(st.integers(first + 1, len(continuation)))))
    return ScoreRequest(ids, cuts, continuations, spans)


def naive(request: ScoreRequest) -> list[np.ndarray]:
    """One ordinary forward for each boundary."""
    found = []
    for cut, continuation, (first, end) in zip(request.cuts, request.continuations, request.answer_spans, strict=True):
        line = torch.tensor([*request.ids[:cut], *continuation])[None]
        with torch.inference_mode():
            scores = MODEL(input_ids=line).logits[0].log_softmax(-1)
        found.append(np.array([scores[cut + at - 1, continuation[at]].item() for at in range(first, end)]))
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(requests(), max_size=4), st.sampled_from([1, 40, 4096]))
def test_one_pass_agrees_with_one_forward_for_each_boundary(batch, budget):
    got = ModelScorer(MODEL, micro_batch_tokens=budget).score_many(batch)
    assert len(got) == len(batch)
    for found, request in zip(got, batch, strict=True):
        expected = naive(request)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_a_trajectory_takes_one_forward_whatever_its_boundaries():
    calls: list[int] = []
    handle = MODEL.model.embed_tokens.register_forward_hook(lambda module, args, out: calls.append(args[0].numel()))
    try:
        ids = list(range(20))
        ModelScorer(MODEL).score_many([ScoreRequest(ids, [5, 10, 20], [[1, 2, 3, 4]] * 3, [(1, 3)] * 3)])
    finally:
        handle.remove()
    assert calls == [20 + 3 * 2], "shared ids once, and each continuation up to its last answer token but one"


def test_cuts_and_spans_out_of_range_are_refused():
    for request in (
        ScoreRequest([1, 2], [3], [[1]], [(0, 1)]),
        ScoreRequest([1, 2], [0], [[1]], [(0, 1)]),
        ScoreRequest([1, 2], [1], [[1]], [(0, 2)]),
        ScoreRequest([1, 2], [1], [[1]], [(1, 1)]),
    ):
        with pytest.raises(ValueError):
            ModelScorer(MODEL).score_many([request])
