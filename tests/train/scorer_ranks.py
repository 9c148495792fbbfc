"""What one rank does in the tests of the scorer in a team: functions that a process of its own can be handed by name."""

from pathlib import Path

import numpy as np
import torch
from tiny_qwen3 import VOCAB, tiny_model

from sanderling.train.config import TrainerConfig
from sanderling.train.rows import ScoreRequest
from sanderling.train.scorer import ModelScorer
from sanderling.train.team import Sharded, join_team
from sanderling.train.trainer import Trainer

CONFIG = TrainerConfig(lr=3e-3, eps=1e-3, micro_batch_tokens=60, temperature=0.8)


def asked(count: int, seed: int = 0) -> list[ScoreRequest]:
    """Requests of very different lengths, with branches."""
    rng = np.random.default_rng(seed)
    requests = []
    for number in range(count):
        ids = rng.integers(0, VOCAB, 8 + 25 * number).tolist()
        other = [*ids[:5], *rng.integers(0, VOCAB, 6).tolist()]
        cuts = [3, len(ids), len(other)]
        continuations = [rng.integers(0, VOCAB, 4).tolist() for _ in cuts]
        requests.append(ScoreRequest(ids, cuts, continuations, [(1, 4)] * 3, (other,), [0, 0, 1]))
    return requests


def score(rank: int, size: int, meeting: Path, count: int, shard: bool, context: int = 1) -> tuple[list[list[np.ndarray]], int]:
    """All requests on every rank; and how many passes this rank made."""
    torch.set_num_threads(1)
    with join_team(rank, size, meeting, context=context) as joined:
        team = Sharded(joined) if shard else joined
        trainer = Trainer(tiny_model(seed=3), CONFIG, team)
        passes = []
        trainer.scored.register_forward_hook(lambda *_: passes.append(1))
        found = ModelScorer(trainer.scored, CONFIG, team).score_many(asked(count))
        return found, len(passes)


def refuse(rank: int, size: int, meeting: Path) -> None:
    """A request that no rank can score."""
    with join_team(rank, size, meeting) as joined:
        team = Sharded(joined)
        trainer = Trainer(tiny_model(seed=3), CONFIG, team)
        ModelScorer(trainer.scored, CONFIG, team).score_many([*asked(2), ScoreRequest([1], [2], [[1]], [(0, 1)])])
