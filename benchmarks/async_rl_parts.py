"""What `benchmarks/async_rl.py` measures with: a real tiny model, engine and trainer; scripted words; tools that take time.

The engine samples every token with a real model, and the trainer trains on these very ids. What is scripted is how a turn
*reads*: a random model calls no tools, so the text beside its ids is a call until the trajectory has as many turns as it drew,
and then an answer, right or wrong by a draw of its own. Tools return the same bytes after a drawn time.
"""

import asyncio
import contextlib
import math
import random
import selectors
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.core.profiles import TINY, Budgets, Guards, Profile
from sanderling.core.types import Sampling, ToolSpec
from sanderling.policy.contract import Completion, Delta, SampleKey, Session, WrappedPolicy
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.weight_sync import InPlace
from sanderling.tools.contract import ToolContext, ToolResult

TURN_COUNTS = (53, 53, 53, 82, 56, 25, 18, 40, 37, 49)
"""Turns of the ten trajectories in DR-Venus' repository: five of its RL model, then five of its SFT data, in their order."""
MEDIAN_S, P99_S, TIMEOUT_S = 0.2, 20.0, 150.0
"""A tool's latency: a lognormal of this median and 99th percentile, cut at DR-Venus' tool timeout; 1.4 s in the mean."""
SIGMA = math.log(P99_S / MEDIAN_S) / 2.3263478740408408
SAMPLED, OBSERVED = 16, 16
"""Tokens of a turn, and of what a tool returns, which has a scaffold of 50 more."""
RIGHT = 0.4
"""Share of rollouts that answer right."""
VOCABULARY = 258
_GLANCE_S = 0.002
"""How long the loop sleeps at a time while a thread computes."""


class Bytes:
    """One id for each byte, and the two control tokens."""

    fingerprint = "bytes"
    vocab_size = VOCABULARY

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", errors="replace")

    def token_id(self, token: str) -> int:
        return {"<|im_start|>": 256, "<|im_end|>": 257}[token]


PROFILE: Profile = TINY.model_copy(
    update={
        "name": "async-rl",
        "sampling": Sampling(temperature=1.0, max_tokens=SAMPLED),
        "budgets": Budgets(max_turns=200, max_context_tokens=32_768, answer_reserve_tokens=64),
        "guards": Guards(max_retries=0, max_malformed=200, max_repeated_calls=200),
    }
)


def write_model(directory: Path) -> Path:
    """A randomly initialised Qwen3: a decode step is a fixed cost and, for each session, its keys and values, as on a GPU."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        eos_token_id=257,
        bos_token_id=None,
        pad_token_id=0,
    )
    Qwen3ForCausalLM(config).save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")
    return directory


def drawn(*key: object) -> random.Random:
    """Random numbers of their own for whatever is named."""
    return random.Random("\x1f".join(map(str, key)))


def turns_of(question: str, attempt: int) -> int:
    """How many turns a trajectory has."""
    return drawn("turns", question, attempt).choice(TURN_COUNTS)


def latency(question: str, attempt: int, ordinal: int) -> float:
    """Seconds of a call."""
    source = drawn("latency", question, attempt, ordinal)
    return min(TIMEOUT_S, source.lognormvariate(math.log(MEDIAN_S), SIGMA))


class Sleeper:
    """A tool that takes as long as it drew."""

    spec = ToolSpec(name="search", description="search", parameters={"type": "object", "properties": {}})

    def __init__(self, scale: float) -> None:
        """``scale``: the tiny model's seconds to one of the figures above."""
        self._scale = scale

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        seconds = latency(context.question, context.attempt, context.ordinal)
        await asyncio.sleep(seconds * self._scale)
        return ToolResult(f"{context.ordinal:03} " + "river " * (OBSERVED // 6), latency_s=seconds)


class Directed(WrappedPolicy):
    """The engine's ids, and beside them words that go on or answer. Keeps what each trajectory's turns cost."""

    def __init__(self, policy: TransformersPolicy) -> None:
        super().__init__(policy)
        self.live = policy
        self.tokens: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        """Tokens prefilled and sampled by question and attempt."""
        self.turns = 0
        self.prefilled = self.sampled = self.again = 0
        """Tokens of all turns; prompt tokens that earlier turns had computed."""

    def open(self, key: SampleKey) -> Session:
        return _DirectedSession(self, self.live.open(key))


class _DirectedSession:
    def __init__(self, policy: Directed, session: Session) -> None:
        self._policy = policy
        self._session = session

    async def generate(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        done = await self._session.generate(delta, sampling, key, None)
        prefilled, sampled = done.prefilled_tokens, len(done.token_ids or ())
        before = self._policy.tokens[key.question, key.attempt]
        self._policy.tokens[key.question, key.attempt] = (before[0] + prefilled, before[1] + sampled)
        self._policy.sampled += sampled
        self._policy.turns += 1
        self._policy.prefilled += prefilled
        # New to a session is its delta, and the last token of the turn before.
        self._policy.again += max(0, prefilled - len(delta.token_ids or ()) - 1)
        forced = any(PROFILE.force_hint in message.content for message in delta.messages)
        return replace(done, text=said(key, forced=forced))

    def mark(self) -> int:
        return self._session.mark()

    def rewind(self, mark: int) -> None:
        self._session.rewind(mark)

    def close(self) -> None:
        self._session.close()


def said(key: SampleKey, *, forced: bool) -> str:
    """How a turn reads."""
    if not forced and key.turn + 1 < turns_of(key.question, key.attempt):
        call = f'{{"name": "search", "arguments": {{"query": ["{key.turn}"]}}}}'
        return f"go on {key.turn}\n</think>\n<tool_call>\n{call}\n</tool_call>"
    right = drawn("right", key.question, key.attempt).random() < RIGHT
    return f"done\n</think>\n<answer>{'yes' if right else 'no'}</answer>"


class Clock:
    """The device's time: seconds of processor time while it computes, and seconds in which it could not.

    What the host does beside (the agent loop, files) passes no time here, as it passes none on an accelerator; nor does what
    others do on this machine.
    """

    def __init__(self) -> None:
        self._past = self.idle = self.host = 0.0
        self._since = time.process_time()
        self._computes = False

    def now(self) -> float:
        return self._past + (time.process_time() - self._since if self._computes else 0.0)

    def compute(self, whether: bool) -> None:
        """The device begins or ends computing."""
        now = time.process_time()
        if self._computes:
            self._past += now - self._since
        else:
            self.host += now - self._since
        self._since, self._computes = now, whether

    def skip(self, seconds: float) -> None:
        """Nothing computes until a timer so far ahead."""
        self._past += seconds
        self.idle += seconds


class DeviceMeter:
    """Tells the clock when the engine computes with a model, and adds up how long its forwards take."""

    def __init__(self, model: torch.nn.Module, clock: Clock) -> None:
        self._device, self._since = clock, 0.0
        self.prefill_seconds = self.decode_seconds = 0.0
        model.register_forward_pre_hook(self._begins)
        model.register_forward_hook(self._ends, with_kwargs=True)

    def _begins(self, model: object, arguments: object) -> None:
        if torch.is_inference_mode_enabled():  # not the trainer, which may have the same module
            self._device.compute(True)
            self._since = self._device.now()

    def _ends(self, model: object, arguments: object, inputs: dict[str, Any], output: object) -> None:
        if torch.is_inference_mode_enabled():
            spent = self._device.now() - self._since
            self._device.compute(False)
            if inputs["input_ids"].shape[1] > 1:
                self.prefill_seconds += spent
            else:
                self.decode_seconds += spent


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop on such a clock: where nothing can run, it goes to the next timer at once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.threads = 0
        """How many compute something now."""
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        return self.clock.now()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """As ever, and counted."""
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._joined)
        return future

    def _joined(self, _: object) -> None:
        self.threads -= 1


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self._loop.threads:
            return super().select(min(timeout, _GLANCE_S))
        found = super().select(0)
        if not found:
            self._loop.clock.skip(timeout)
        return found


@dataclass(frozen=True)
class Moment:
    """What stood on the clocks when a version was published."""

    at: float
    idle: float
    host: float
    prefill: float
    decode: float
    paused: float
    """Seconds of updates."""
    prefilled: int
    sampled: int
    again: int


@dataclass
class Watching:
    """Weight sync in place, which notes when each version was published."""

    policy: Directed
    meter: DeviceMeter
    clock: Clock
    moments: list[Moment] = field(default_factory=list)
    paused: float = 0.0

    def __post_init__(self) -> None:
        self._sync = InPlace(self.policy.live)

    @property
    def version(self) -> int:
        return self._sync.version

    @contextlib.asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        async with self._sync.training():
            self.clock.compute(True)
            since = self.clock.now()
            try:
                yield
            finally:
                self.paused += self.clock.now() - since
                self.clock.compute(False)

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        await self._sync.publish(weights, version)
        clock, meter, policy = self.clock, self.meter, self.policy
        seconds = (meter.prefill_seconds, meter.decode_seconds, self.paused)
        tokens = (policy.prefilled, policy.sampled, policy.again)
        self.moments.append(Moment(clock.now(), clock.idle, clock.host, *seconds, *tokens))
