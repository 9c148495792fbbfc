"""The batched sampler against a row-by-row reference in numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tiny import reference

from sanderling.core.types import Sampling
from sanderling.policy.engine import sample

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
