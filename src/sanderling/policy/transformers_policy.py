"""Any local Hugging Face causal language model, in this process: batched sessions that keep their keys and values.

Turn k computes only what is new: its delta, and the last token of the turn before it, which was sampled but never computed. The
module can be shared with a trainer that updates its weights in place (`weight_sync`) and then calls ``bump_version``. A session
that lives on keeps its keys and values, though they are of the older weights.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self

import torch

from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.types import Sampling
from sanderling.policy.contract import END_TOKEN, Completion, Delta, Finish, OnText, SampleKey, cut_at_stop
from sanderling.policy.engine import Engine, Request, uniforms
from sanderling.policy.forward import Branch
from sanderling.policy.model_directory import check_vocabulary, load_model, positions_of

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_UNFINISHED = "\ufffd"  # what a tokenizer decodes the first bytes of a character to


class TransformersPolicy:
    """A causal language model that speaks turns: loaded from a directory, or the live module of a trainer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        name: str = "transformers",
        max_batch: int = 128,
        max_length: int | None = None,
        prefill_tokens: int = 1024,
    ) -> None:
        """Raises UserError for a model whose layers do not all attend to everything. ``prefill_tokens``: most in a forward."""
        kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"]) - {"full_attention"}
        if kinds:
            raise UserError(
                f"This model has layers of {', '.join(sorted(kinds))}: serve it with vLLM and give its endpoint's URL."
            )
        check_vocabulary(tokenizer.vocab_size, model.get_input_embeddings().weight.shape[0])
        own = max(int(model.config.max_position_embeddings), positions_of(model.config.to_dict()) or 0)
        self.context_length = own if max_length is None else min(own, max_length)
        self.name, self.tokenizer, self.model = name, tokenizer, model
        ends: set[int] = set()
        for config in (model.config, getattr(model, "generation_config", None)):
            found = getattr(config, "eos_token_id", None)
            ends.update([found] if isinstance(found, int) else found or [])
        try:
            ends.add(tokenizer.token_id(END_TOKEN))
        except UserError:
            if not ends:
                raise
        self._engine = Engine(model, frozenset(ends), max_batch, prefill_tokens)

    @classmethod
    def load(cls, path: Path, *, device: str = "cpu", dtype: str = "float32", max_batch: int = 128) -> Self:
        """Load a model directory (``config.json``, weights, ``tokenizer.json``). Raises UserError when it is not one."""
        if dtype not in _DTYPES:
            raise UserError(f"Unknown dtype {dtype!r}: use one of {', '.join(_DTYPES)}.")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise UserError("No CUDA device is available here: use device cpu.")
        model = load_model(path, _DTYPES[dtype]).to(device).eval()
        return cls(model, load_tokenizer(path), name=path.resolve().name, max_batch=max_batch)

    @property
    def version(self) -> int:
        return self._engine.version

    def bump_version(self, to: int | None = None) -> int:
        """Say that the weights were updated in place; returns the new version, the next one where ``to`` names none."""
        self._engine.version = self._engine.version + 1 if to is None else to
        return self._engine.version

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Inside, nothing is computed with the module. Nothing is awaited on the way in; the last of several opens again."""
        return self._engine.gate.closed(empty=False)

    def open(self, key: SampleKey) -> "TransformersSession":
        return TransformersSession(self, self._engine)


class TransformersSession:
    """One conversation with a model in this process."""

    def __init__(self, policy: TransformersPolicy, engine: Engine) -> None:
        self._policy, self._engine, self._branch = policy, engine, Branch()
        self._busy = self._closed = False

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """Append the delta's ids and sample one turn; nothing, and LENGTH, where the prompt leaves no room in the context."""
        if delta.token_ids is None or not (delta.token_ids or self._branch.ids):
            raise ValueError("A token-level session needs the delta's token ids: render the messages with its tokenizer.")
        if self._busy or self._closed:
            raise RuntimeError("The session is closed, or already generating.")
        before, tokenizer, stops = self.mark(), self._policy.tokenizer, sampling.stop
        prompt = before + len(delta.token_ids)
        limit = min(sampling.max_tokens, self._policy.context_length - prompt)
        self._branch.ids.extend(delta.token_ids)
        if limit <= 0:
            return Completion("", Finish.LENGTH, (), (), (), prefilled_tokens=0, prompt_tokens=prompt)
        watch = _TurnText(tokenizer, stops, on_text)
        turn = Request(self._branch, sampling, uniforms(key), limit, watch if stops or on_text is not None else None)
        self._busy = True
        try:
            await self._engine.generate(turn)
            ended = turn.finish is Finish.END
            text = tokenizer.decode(turn.ids[:-1]) if ended else cut_at_stop(tokenizer.decode(turn.ids), stops)[0]
            watch.end(text)
        except BaseException:
            self._branch.truncate(before)
            raise
        finally:
            self._busy = False
        assert turn.finish is not None, "a turn that was sampled has ended"
        return Completion(
            text=text,
            finish=turn.finish,
            token_ids=tuple(turn.ids),
            logprobs=tuple(turn.logprobs),
            versions=tuple(turn.versions),
            prefilled_tokens=max(0, turn.prefilled - delta.recalled),
            prompt_tokens=prompt,
        )

    def mark(self) -> int:
        return len(self._branch.ids)

    def rewind(self, mark: int) -> None:
        """Forget the tokens after ``mark``; keys and values before it are kept."""
        if self._busy or not 0 <= mark <= len(self._branch.ids):
            raise ValueError(f"Cannot rewind to {mark}: the session holds {len(self._branch.ids)} tokens or is generating.")
        self._branch.truncate(mark)

    def close(self) -> None:
        self._closed = True
        self._engine.free(self._branch)
        self._branch.truncate(0)


class _TurnText:
    """A turn's text while its tokens arrive: stop strings, and streaming that never splits a character."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...], on_text: OnText) -> None:
        self._tokenizer, self._stops, self._on_text = tokenizer, stops, on_text
        # Tokens that hold a stop string which the last one completes: a byte or more each, but for a few that say nothing.
        self._window = max((len(stop.encode()) for stop in stops), default=0) + 8
        self._sent = 0

    def __call__(self, ids: Sequence[int]) -> bool:
        """Whether a stop string has appeared in the turn's ids."""
        if self._on_text is not None:
            self._stream(ids, self._on_text)
        return bool(self._stops) and cut_at_stop(self._tokenizer.decode(list(ids[-self._window :])), self._stops)[1]

    def end(self, text: str) -> None:
        """Send what is left of the turn's final text."""
        if self._on_text is not None and len(text) > self._sent:
            self._on_text(text[self._sent :])

    def _stream(self, ids: Sequence[int], on_text: Callable[[str], None]) -> None:
        text = self._tokenizer.decode(list(ids))
        if text.endswith(_UNFINISHED):
            return
        kept, stopped = cut_at_stop(text, self._stops)
        # What may be the beginning of a stop string is held back.
        sizes = (size for stop in self._stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
        safe = len(kept) - (0 if stopped else max(sizes, default=0))
        if safe > self._sent:
            on_text(text[self._sent : safe])
            self._sent = safe
