"""Parts of `gpu.py`: sampling, scoring, how far bfloat16's log-probabilities lie from float32's. Makes figures, writes none."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from sanderling.core.types import Sampling
from sanderling.policy.contract import Delta, SampleKey
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.train.config import Precision, TrainerConfig
from sanderling.train.packing import TokenLogprobs
from sanderling.train.rows import Row, ScoreRequest
from sanderling.train.scorer import ModelScorer
from sanderling.train.trainer import row_logprobs


@dataclass(frozen=True)
class Sizes:
    """A model's shape and the work it is given; lengths in tokens."""

    hidden: int = 2560
    intermediate: int = 9728
    layers: int = 36
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 151_936
    row: int = 16_384
    rows: int = 4
    sessions: int = 32
    prompt: int = 4_096
    observation: int = 1_024
    sampled: int = 128
    trajectory: int = 32_768
    boundaries: int = 32
    continuation: int = 64


SMALL = Sizes(64, 128, 2, 4, 2, 16, 500, 128, 3, 4, 64, 16, 8, 256, 4, 8)


class NoEnd:
    """A tokenizer whose end token is never sampled, so that every turn has its full length."""

    fingerprint = "no-end"

    def __init__(self, vocabulary: int) -> None:
        self.vocab_size = vocabulary

    def encode(self, text: str) -> list[int]:
        return [ord(character) % self.vocab_size for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token_id(self, token: str) -> int:
        return self.vocab_size


class Bench:
    """The parts, over one device and one set of sizes."""

    def __init__(self, device: torch.device, sizes: Sizes) -> None:
        self.device, self.sizes = device, sizes
        self._random = random.Random(0)

    def model(self, dtype: torch.dtype) -> PreTrainedModel:
        """The model with weights of one kind, the same whenever it is made."""
        s = self.sizes
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=s.vocabulary, hidden_size=s.hidden, intermediate_size=s.intermediate, num_hidden_layers=s.layers,
            num_attention_heads=s.heads, num_key_value_heads=s.kv_heads, head_dim=s.head_dim, max_position_embeddings=65_536,
            tie_word_embeddings=True, eos_token_id=None, bos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        with self.device:
            return AutoModelForCausalLM.from_config(config, dtype=dtype)

    def ids(self, count: int) -> tuple[int, ...]:
        """Random ids."""
        return tuple(self._random.randrange(self.sizes.vocabulary) for _ in range(count))

    def rows(self) -> list[Row]:
        """Rows of which a quarter is trained, in stretches, as an agent's turns are."""
        mask = np.arange(self.sizes.row) % 64 >= 48
        return [Row(np.array(self.ids(self.sizes.row)), mask, trajectory=f"t{n}") for n in range(self.sizes.rows)]

    def clock(self) -> float:
        """Seconds, once the device has caught up."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def peak_gb(self) -> float | None:
        """Most device memory allocated since the last call."""
        if self.device.type != "cuda":
            return None
        peak = torch.cuda.max_memory_allocated() / 1e9
        torch.cuda.reset_peak_memory_stats()
        return peak

    # -- the parts -----------------------------------------------------------------------------------------------------

    def sampling(self) -> dict[str, Any]:
        """A first turn on long prompts, and a second one on the kept cache; and `generate` on what the second turn sees."""
        s, model = self.sizes, self.model(torch.bfloat16).eval()
        policy = TransformersPolicy(
            model, NoEnd(s.vocabulary), max_batch=s.sessions, max_length=s.prompt + s.observation + 3 * s.sampled
        )
        opened = [policy.open(SampleKey(0, "q", number, 0)) for number in range(s.sessions)]
        prompts, observations = ([self.ids(n) for _ in opened] for n in (s.prompt, s.observation))

        def turn(index: int, parts: list[tuple[int, ...]], sampled: int) -> float:
            async def all_of_them() -> None:
                sampling = Sampling(max_tokens=sampled)
                jobs = [
                    session.generate(Delta((), part), sampling, SampleKey(0, "q", number, index))
                    for number, (session, part) in enumerate(zip(opened, parts, strict=True))
                ]
                await asyncio.gather(*jobs)

            began = self.clock()
            asyncio.run(all_of_them())
            return self.clock() - began

        first, second = turn(0, prompts, s.sampled), turn(1, observations, s.sampled)
        for session in opened:
            session.close()
        whole = torch.tensor(
            [(*p, *self.ids(s.sampled), *o) for p, o in zip(prompts, observations, strict=True)], device=self.device
        )
        began = self.clock()
        with torch.inference_mode():
            model.generate(
                whole, attention_mask=torch.ones_like(whole), max_new_tokens=s.sampled, min_new_tokens=s.sampled,
                do_sample=True, top_k=0, pad_token_id=0,
            )  # pyright: ignore[reportCallIssue]  # fmt: skip
        theirs = self.clock() - began
        sampled = s.sessions * s.sampled
        return {
            "first_turn_tokens_per_second": sampled / first,
            "second_turn_tokens_per_second": sampled / second,
            "generate_tokens_per_second": sampled / theirs,
            "second_turn_speedup": theirs / second,
            "peak_gb": self.peak_gb(),
        }

    def scoring(self) -> dict[str, Any]:
        """Information gain's log-probabilities at all boundaries of one trajectory: one pass, and one pass for each."""
        s = self.sizes
        scorer = ModelScorer(self.model(torch.bfloat16), TrainerConfig(micro_batch_tokens=s.trajectory))
        ids, step = self.ids(s.trajectory), s.trajectory // s.boundaries
        cuts = tuple(step * (n + 1) for n in range(s.boundaries))
        continuation, span = self.ids(s.continuation), (s.continuation // 2, s.continuation)

        def request(at: Sequence[int]) -> ScoreRequest:
            return ScoreRequest(ids, tuple(at), (continuation,) * len(at), (span,) * len(at))

        scorer.score_many([request(cuts[:1])])
        began = self.clock()
        together = scorer.score_many([request(cuts)])[0]
        one_pass = self.clock() - began
        began = self.clock()
        apart = [scorer.score_many([request([cut])])[0][0] for cut in cuts]
        passes = self.clock() - began
        gap = max(float(np.abs(a - b).max()) for a, b in zip(together, apart, strict=True))
        return {
            "one_pass_s": one_pass,
            "a_pass_each_s": passes,
            "speedup": passes / one_pass,
            "largest_gap_nats": gap,
            "peak_gb": self.peak_gb(),
        }

    def gain(self, tokens: int) -> dict[str, Any]:
        """Information gain at 200 boundaries of a long trajectory: one pass, a bare forward, and a pass each for some."""
        s = self.sizes
        tokens = min(tokens, 8 * s.trajectory)
        count = min(200, tokens // 128)
        scorer = ModelScorer(self.model(torch.bfloat16), TrainerConfig(micro_batch_tokens=1))
        ids, probe = self.ids(tokens), self.ids(18)
        cuts = [tokens * (n + 1) // count for n in range(count)]
        bare = Row(np.array(ids), np.arange(tokens) == tokens - 1, trajectory="t")

        def request(at: Sequence[int]) -> ScoreRequest:
            return ScoreRequest(ids, at, [probe] * len(at), [(12, 18)] * len(at))

        def seconds(asked: ScoreRequest) -> tuple[float, list[Any]]:
            began = self.clock()
            found = scorer.score_many([asked])[0]
            return self.clock() - began, found

        def alone(row: Row) -> float:
            began = self.clock()
            row_logprobs(scorer.scored, [row], scorer.config)
            return self.clock() - began

        seconds(request(cuts[:2]))
        self.peak_gb()
        of_bare = alone(bare)
        bare_gb = self.peak_gb()
        one_pass, together = seconds(request(cuts))
        one_pass_gb = self.peak_gb()
        some = range(count // 8, count, count // 4)
        apart = [seconds(request([cuts[at]])) for at in some]
        return {
            "tokens": tokens,
            "boundaries": count,
            "one_pass_s": one_pass,
            "one_pass_over_bare": one_pass / of_bare - 1,
            "naive_over_one_pass": sum(time for time, _ in apart) / len(apart) * count / one_pass,
            "largest_gap_nats": max(
                float(np.abs(together[at] - one[0]).max()) for at, (_, one) in zip(some, apart, strict=True)
            ),
            "bare_gb": bare_gb,
            "one_pass_gb": one_pass_gb,
        }

    def agreement(self) -> dict[str, Any]:
        """Log-probabilities of the same tokens by the trainer in bfloat16, and by float32: mean and largest gap in nats."""
        model, rows = self.model(torch.float32), self.rows()[:1]
        found = {
            precision: row_logprobs(TokenLogprobs(model), rows, TrainerConfig(precision=precision, logit_chunk=400_000_000))[0][
                rows[0].loss_mask
            ]
            for precision in Precision
        }
        gap = np.abs(found[Precision.BFLOAT16] - found[Precision.FLOAT32])
        return {
            "tokens": len(gap),
            "mean_gap_nats": float(gap.mean()),
            "largest_gap_nats": float(gap.max()),
            "peak_gb": self.peak_gb(),
        }


PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "agreement": Bench.agreement,
    "scoring": Bench.scoring,
    "gain 64K": partial(Bench.gain, tokens=65_536),
    "gain 256K": partial(Bench.gain, tokens=262_144),
    "sampling": Bench.sampling,
}
