"""The asynchronous loop of `gpu.py`: how busy it keeps one accelerator, and what memory it takes. Makes figures, writes none.

A randomly initialised Qwen3 is sampled in bfloat16 and trained beside it in float32 with products in bfloat16, both on one
device, through the run that `sanderling train rl` makes. What turns say is scripted and tools take drawn times, as in
`async_rl_parts.py`. Utilisation is what nvidia-smi says, twice a second, from the second step on.
"""

import asyncio
import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from async_rl_parts import PROFILE, Bytes, Directed, Sleeper
from gpu_training import LOGIT_CHUNK, QWEN3_4B, SMALL
from transformers import AutoModelForCausalLM, Qwen3Config

from sanderling.agent.agent import Agent
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import SystemClock
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.weight_sync import Copying, copied
from sanderling.rl.config import PipelineConfig, RlConfig
from sanderling.rl.rollouts import Actor, Ask
from sanderling.rl.run import run_rl
from sanderling.train.config import MemoryConfig, Precision, Recompute, TrainerConfig
from sanderling.train.fit import Shape
from sanderling.train.metrics import METRICS, read_metrics
from sanderling.train.rows import Encoding

QWEN3_06B = Shape(hidden=1024, layers=28, heads=16, kv_heads=8, head_dim=128, intermediate=3072, vocab=151_936, tied=True)
QUESTIONS = [Question(id=f"q{number}", text="Which?", answers=("yes",)) for number in range(64)]
WARM, MEASURED = 1, 3
"""Steps that are not counted, while kernels are chosen and the queue fills, and those that are."""


def write_model(shape: Shape, directory: Path, device: torch.device) -> Path:
    """Random weights as a model's directory. Its only tokenizer is `Bytes`, which is handed over."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.intermediate, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
        max_position_embeddings=65_536, tie_word_embeddings=shape.tied, eos_token_id=257, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")
    return directory


class _EnoughError(Exception):
    """As many steps as were wanted."""


class Watched:
    """Utilisation of the device while the block runs; None where nothing tells it."""

    def __init__(self, device: torch.device) -> None:
        self.shares: list[float] = []
        self._on = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True) if device.type == "cuda" else None

    def __enter__(self) -> "Watched":
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._on.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._on.wait(0.5):
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            self.shares.append(float(said.splitlines()[0]) / 100)

    def since(self, start: int) -> float | None:
        found = self.shares[start:]
        return sum(found) / len(found) if found else None


def bfloat16_twin(model: Any) -> Any:
    """What samples: its parameters alone are rounded, since a rotary frequency in 16 bits turns far positions elsewhere."""
    other = copied(model)
    for parameter in other.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return other


def settings(shape: Shape, small: bool, staleness: int) -> RlConfig:
    """Few steps of few groups: enough to see whether the device waits.

    As large as the device's memory: a session's keys and values take 115 KB a token (0.6B) and 147 KB (4B), and there is a
    slot for each of (staleness + 1) steps' rollouts, rounded up to a power of two.
    """
    large = shape == QWEN3_4B
    memory = MemoryConfig(recompute=Recompute.FULL)
    return RlConfig(
        trainer=TrainerConfig(
            lr=1e-6,
            precision=Precision.BFLOAT16,
            micro_batch_tokens=2048 if small else 16_384 if large else 65_536,
            logit_chunk=LOGIT_CHUNK,
            memory=memory,
        ),
        steps=10_000,  # the run is stopped: none of its groups is the last, so the queue never drains
        questions_per_step=2 if small or large else 4,
        group_size=4 if small else 8,
        save_every=10_000,
        pipeline=PipelineConfig(max_staleness=staleness),
    )


def loop(device: torch.device, small: bool, *, shape: Shape, staleness: int) -> dict[str, Any]:
    """One run; ``staleness`` 0 is the synchronous one to compare with."""
    config, marks = settings(shape, small, staleness), []
    sampling = PROFILE.sampling.model_copy(update={"max_tokens": 8 if small else 128})
    context = 32_768 if small else 2_000 if shape == QWEN3_4B else 4_000
    budgets = PROFILE.budgets.model_copy(update={"max_context_tokens": context})
    profile = PROFILE.model_copy(update={"sampling": sampling, "budgets": budgets})
    shape = SMALL if small else shape
    with tempfile.TemporaryDirectory() as place, Watched(device) as watched:
        base = write_model(shape, Path(place) / "base", device)

        def connect(model: Any) -> Actor:
            policy = Directed(TransformersPolicy(bfloat16_twin(model), Bytes(), max_batch=256))
            return Actor(partial(episode, policy, Sleeper(0.0 if small else 0.3), profile), Copying(policy.live))

        def heard(step: int, metrics: Mapping[str, float]) -> None:
            marks.append((time.perf_counter(), len(watched.shares)))
            if step == WARM + MEASURED:
                raise _EnoughError

        encoding = Encoding(Bytes(), profile)
        running = run_rl(config, QUESTIONS, connect, encoding, base, Path(place) / "run", progress=heard, device=device)
        with contextlib.suppress(_EnoughError):
            asyncio.run(running)
        steps = read_metrics(Path(place) / "run" / METRICS)[WARM:]
    seconds = (marks[-1][0] - marks[WARM - 1][0]) / len(steps)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return {
        "seconds_per_step": seconds,
        "peak_gib": peak,
        "utilisation": watched.since(marks[WARM - 1][1]),
        "trajectories_per_second": sum(step["rollouts"] for step in steps) / len(steps) / seconds,
        "tokens_trained_per_second": sum(step.get("tokens", 0) for step in steps) / len(steps) / seconds,
        "share_learning": sum(step["learn_seconds"] for step in steps) / len(steps) / seconds,
        "age": sum(step["age"] for step in steps) / len(steps),
    }


async def episode(policy: Directed, tool: Sleeper, profile: Profile, ask: Ask) -> Trajectory:
    """One rollout through the one loop."""
    return await Agent(policy, {"search": tool}, profile, SystemClock()).run(
        ask.question, Seeds(run=0, episode=ask.seed, attempt=ask.attempt), finish_early=ask.finish_early
    )


LOOPS: dict[str, Callable[[torch.device, bool], dict[str, Any]]] = {
    "RL 0.6B": partial(loop, shape=QWEN3_06B, staleness=2),
    "RL 0.6B, synchronous": partial(loop, shape=QWEN3_06B, staleness=0),
    "RL 4B": partial(loop, shape=QWEN3_4B, staleness=2),
}
