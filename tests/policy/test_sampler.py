"""The batched sampler against a row-by-row reference in numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tiny import reference

from sanderling.core.types import Sampling
from sanderling.policy.contract import SampleKey
from sanderling.policy.engine import sample, uniforms

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.3]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 0.99, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 20, 500]),
    presence_penalty=st.sampled_from([0.0, 1.1]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(samplings, min_size=1, max_size=6), st.integers(0, 2**32), st.sampled_from([0.3, 3.0]))
def test_draw_and_logprob_equal_the_reference(rows, seed, spread):
    random = np.random.default_rng(seed)
    logits = (random.standard_normal((len(rows), 150)) * spread).astype(np.float32)
    seen = [set(random.integers(0, 150, 20).tolist()) for _ in rows]
    mask = torch.zeros(logits.shape, dtype=torch.bool)
    for row, tokens in enumerate(seen):
        mask[row, list(tokens)] = True
    draws = random.random(len(rows))
    ids, logprobs = sample(torch.from_numpy(logits), rows, torch.from_numpy(draws), mask)
    for row, sampling in enumerate(rows):
        weights = reference(logits[row], sampling, seen[row])
        drawn = int(ids[row])
        below, above = weights[:drawn].sum(), weights[: drawn + 1].sum()
        if sampling.temperature == 0:
            assert weights[drawn] == weights.max()
        else:
            assert below - 1e-9 <= draws[row] <= above + 1e-9
        assert float(logprobs[row]) == pytest.approx(float(np.log(weights[drawn])), abs=1e-9)


def test_cut_tokens_are_never_drawn_at_the_edges():
    logits = torch.tensor([[0.0, 5.0, 4.0, -3.0]] * 2)
    rows = [Sampling(top_k=2)] * 2
    ids, logprobs = sample(logits, rows, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64))
    assert ids.tolist() == [1, 2] and torch.isfinite(logprobs).all()


def test_uniforms_are_keyed_by_every_part_of_the_key():
    keys = [SampleKey(s, q, a, t, r) for s in (0, 1) for q in ("a", "b") for a in (0, 1) for t in (0, 1) for r in (0, 1)]
    streams = []
    for key in keys:
        draw = uniforms(key)
        streams.append(tuple(draw() for _ in range(130)))
    assert len({value for stream in streams for value in stream}) == 130 * len(keys)
    again = uniforms(keys[3])
    assert tuple(again() for _ in range(130)) == streams[3]
