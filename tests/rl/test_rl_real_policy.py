"""The real policy, the real loop and the real trainer over one module: what was sampled is what is trained."""

import asyncio
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_base import PHRASES

from sanderling.agent.agent import Agent
from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import TINY
from sanderling.core.record import Question, Seeds, turn_indices
from sanderling.core.types import FixedClock, Sampling
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.rl.step import rl_rows
from sanderling.train.checkpoint import load_model
from sanderling.train.config import TrainerConfig
from sanderling.train.packing import TokenLogprobs
from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model
from sanderling.train.rows import Encoding
from sanderling.train.trainer import row_logprobs

PROFILE = TINY.model_copy(update={"sampling": Sampling(temperature=0.8, max_tokens=12)})
TRAINER = TrainerConfig(lr=1e-3, temperature=0.8, entropy=True)
QUESTION = Question(id="q", text="Where is the tidal flat?", answers=("Oslo", "Bergen"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "base"
    texts = ["Where is the tidal flat? That is good enough. Oslo, Bergen, search and visit."] * 50
    shape = ModelShape(hidden=32, layers=2, heads=2, kv_heads=2, head_dim=16, intermediate=48)
    write_random_model(directory, train_tokenizer(texts, 420, PHRASES), shape, seed=1)
    return directory


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_the_record_holds_log_probabilities_of_what_was_sampled_from(base: Path, top_p: float):
    """Where nothing is cut they are the trainer's own; of a nucleus they are its own less the log of its probability."""
    profile = PROFILE.model_copy(update={"sampling": PROFILE.sampling.model_copy(update={"top_p": top_p})})
    model, encoding = load_model(base).eval(), Encoding(load_tokenizer(base), profile)
    agent = Agent(TransformersPolicy(model, encoding.tokenizer), {}, profile, FixedClock(date(2026, 1, 1)))

    async def sample():
        return await asyncio.gather(*(agent.run(QUESTION, Seeds(run=0, attempt=attempt)) for attempt in range(6)))

    rows = [row for t in asyncio.run(sample()) for row in rl_rows(t, [1.0] * len(turn_indices(t)), encoding)]
    assert sum(row.loss_mask.sum() for row in rows) > 100
    for row, ours in zip(rows, row_logprobs(TokenLogprobs(model), rows, TRAINER), strict=True):
        assert row.sampler_logprobs is not None
        sampled = np.flatnonzero(row.loss_mask)
        with torch.no_grad():
            logits = model(torch.from_numpy(np.asarray(row.ids))[None].long()).logits[0, sampled - 1] / TRAINER.temperature
        chances = logits.softmax(-1).double().sort(descending=True).values
        kept = (chances * (chances.cumsum(-1) - chances < top_p)).sum(-1).numpy()
        np.testing.assert_allclose(ours[sampled] - np.log(kept), row.sampler_logprobs[sampled], atol=1e-4)
