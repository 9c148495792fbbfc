"""What the in-process policy costs beside `model.generate`: decode, prefill, and a second turn on a kept cache.

A randomly initialised Qwen3 of a million parameters; every session has its own prompt of 400 tokens, so nothing is shared.
Times are seconds of processor time on one thread, so that a busy machine does not blur them; each is the best of three.
`generate` gets the same prompts as one batch of equal length, which is its best case; for the second turn it computes
the whole context again, as it must without sessions.

Run: ``OMP_NUM_THREADS=1 python benchmarks/policy.py``; writes ``benchmarks/results/policy.json``.
"""

import asyncio
import datetime
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.core.types import Sampling
from sanderling.policy.contract import Delta, SampleKey
from sanderling.policy.transformers_policy import TransformersPolicy

PROMPT, OBSERVATION, SAMPLED, VOCABULARY = 400, 100, 25, 1500
BATCHES = (1, 16, 64, 128)
REPEATS = 3
OUT = Path(__file__).parent / "results" / "policy.json"


class NoEnd:
    """A tokenizer whose end token is never sampled, so that every turn has its full length."""

    fingerprint = "no-end"
    vocab_size = VOCABULARY

    def encode(self, text: str) -> list[int]:
        return [ord(character) % VOCABULARY for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token_id(self, token: str) -> int:
        return VOCABULARY


def tiny_model() -> Qwen3ForCausalLM:
    """The model of the tiny recipe's size."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).eval()


def tokens(seed: int, size: int) -> tuple[int, ...]:
    """Random ids."""
    source = random.Random(seed)
    return tuple(source.randrange(VOCABULARY) for _ in range(size))


def best(work: Callable[[], float]) -> float:
    """The least of a few repeats."""
    return min(work() for _ in range(REPEATS))


async def sessions(model: Any, batch: int) -> tuple[float, float, float]:
    """Seconds of: a first token after the prompt; a whole second turn; the decode steps of a turn."""
    policy = TransformersPolicy(model, NoEnd(), max_batch=batch)
    opened = [policy.open(SampleKey(0, "q", number, 0)) for number in range(batch)]

    async def turn(index: int, size: int, sampled: int) -> float:
        sampling = Sampling(max_tokens=sampled)
        began = time.process_time()
        await asyncio.gather(
            *(
                session.generate(Delta((), tokens(index * 1000 + number, size)), sampling, SampleKey(0, "q", number, index))
                for number, session in enumerate(opened)
            )
        )
        return time.process_time() - began

    prefill = await turn(0, PROMPT, 1)
    marks = [session.mark() for session in opened]
    second = await turn(1, OBSERVATION, SAMPLED)
    for session, mark in zip(opened, marks, strict=True):
        session.rewind(mark)
    one = await turn(1, OBSERVATION, 1)
    for session in opened:
        session.close()
    return prefill, second, (second - one) / (SAMPLED - 1)


def plain(model: Any, batch: int, size: int, sampled: int) -> float:
    """Seconds of `generate` for a batch of equal prompts' length."""
    ids = torch.tensor([tokens(number, size) for number in range(batch)])
    began = time.process_time()
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=sampled,
        min_new_tokens=sampled,
        do_sample=True,
        top_k=0,
        pad_token_id=0,
    )
    return time.process_time() - began


def measure(model: Any, batch: int) -> dict[str, float]:
    """One row of the table."""
    runs = [asyncio.run(sessions(model, batch)) for _ in range(REPEATS)]
    prefill, second, step = (min(values) for values in zip(*runs, strict=True))
    context = PROMPT + 1 + OBSERVATION
    their_prefill = best(lambda: plain(model, batch, PROMPT, 1))
    their_second = best(lambda: plain(model, batch, context, SAMPLED))
    their_one = best(lambda: plain(model, batch, context, 1))
    their_step = (their_second - their_one) / (SAMPLED - 1)
    return {
        "batch": batch,
        "decode_ms": 1e3 * step,
        "generate_decode_ms": 1e3 * their_step,
        "decode_speedup": their_step / step,
        "prefill_tokens_per_s": batch * PROMPT / prefill,
        "generate_prefill_tokens_per_s": batch * PROMPT / their_prefill,
        "prefill_speedup": their_prefill / prefill,
        "second_turn_ms": 1e3 * second,
        "generate_second_turn_ms": 1e3 * their_second,
        "second_turn_speedup": their_second / second,
    }


def _cpu() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    """Measure, print the table, write the results."""
    torch.set_num_threads(1)
    model = tiny_model()
    asyncio.run(sessions(model, 2))
    rows = [measure(model, batch) for batch in BATCHES]
    columns = list(rows[0])
    print(*(column.rjust(len(column)) for column in columns))
    for row in rows:
        print(*(f"{row[column]:{len(column)}.1f}" for column in columns))
    result = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/policy.py",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "threads_used": 1, "load_average_1m": os.getloadavg()[0]},
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "transformers": transformers.__version__},
        "model": {"parameters": sum(p.numel() for p in model.parameters()), "layers": 4, "hidden": 128, "kv_heads": 2},
        "tokens": {"prompt": PROMPT, "observation": OBSERVATION, "sampled": SAMPLED, "vocabulary": VOCABULARY},
        "timer": f"processor seconds, best of {REPEATS}",
        "rows": [{name: round(value, 3) for name, value in row.items()} for row in rows],
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
