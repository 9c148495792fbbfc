"""Models behind an OpenAI-compatible server.

:class:`ChatEndpointPolicy` speaks ``/chat/completions``: text-level, works with any server, ids are None. A server that keeps
reasoning apart (``reasoning`` or ``reasoning_content``) has it put back in ``<think>`` tags before the text.

:class:`CompletionEndpointPolicy` speaks ``/completions`` as vLLM (0.10.2 or later) does: the prompt is token ids, and
``return_token_ids`` gives the sampled ids, the end token included, so nothing is encoded twice. The server's prefix cache is
the session's; what it reports as cached is not counted as prefilled. vLLM reports log-probabilities *before* temperature and
cuts unless it is started with ``--logprobs-mode processed_logprobs``: training needs that switch, and no reply shows whether
it is on. Every sampling field is sent, because vLLM otherwise fills gaps from the model's ``generation_config.json``.

Its weights may change under it (`sync.vllm_server`): whoever hands them over sets ``version``, and a turn's tokens carry the
one that was set when its request was sent, the oldest that they can be of. Its ``door`` keeps turns back meanwhile.

The seed sent is a hash of the turn's key; how far a server's draws follow it is the server's business.
"""

import hashlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from sanderling.core.chat import Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role, Sampling
from sanderling.policy.branches import MessageSession, OnText, TokenSession
from sanderling.policy.contract import Completion, Finish, PolicyOutageError, SampleKey, Session
from sanderling.policy.door import Door
from sanderling.policy.http_client import HttpClient, RefusedError
from sanderling.policy.turn_text import cut_at_stop

END_TOKEN = "<|im_end|>"


class _Endpoint:
    """What both policies know of their server."""

    def __init__(self, client: HttpClient, model: str, *, context_length: int | None = None) -> None:
        self._client = client
        self._model = model
        self._context_length = context_length

    @property
    def name(self) -> str:
        return self._model

    @property
    def context_length(self) -> int | None:
        return self._context_length

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class ChatEndpointPolicy(_Endpoint):
    """Any chat model behind a URL.

    Example: ``ChatEndpointPolicy(HttpClient("http://localhost:8000/v1"), "qwen3-4b")``
    """

    @property
    def version(self) -> int:
        """Always 0: this server's weights are not ours to update."""
        return 0

    @property
    def tokenizer(self) -> None:
        """None: chat endpoints are text-level."""
        return

    def open(self, key: SampleKey) -> Session:
        return _ChatSession(self._client, self._model)


class CompletionEndpointPolicy(_Endpoint):
    """A model behind vLLM, token by token. ``tokenizer`` must be the served model's own."""

    def __init__(self, client: HttpClient, model: str, tokenizer: Tokenizer, *, context_length: int | None = None) -> None:
        super().__init__(client, model, context_length=context_length)
        self._tokenizer = tokenizer
        self.version = 0
        """Updates behind the weights that the server has; set by whoever hands it new ones."""
        self.door = Door()
        """Every turn goes through it."""

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def open(self, key: SampleKey) -> Session:
        return _CompletionSession(self, self._client, self._tokenizer)


class _ChatSession(MessageSession):
    def __init__(self, client: HttpClient, model: str) -> None:
        super().__init__()
        self._client = client
        self._model = model

    async def _speak(self, messages: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        body = {
            "model": self._model,
            "messages": [{"role": message.role.value, "content": message.content} for message in messages],
            **_sampling_fields(sampling, key),
            **({"top_k": sampling.top_k} if sampling.top_k else {}),  # not in OpenAI's own interface: sent only when asked for
        }
        begun = any(message.role is Role.ASSISTANT for message in messages)
        reply = await _receive(self._client, "chat/completions", body, on_text, begun=begun)
        text = f"<think>\n{reply.reasoning.strip()}\n</think>\n\n{reply.text}" if reply.reasoning else reply.text
        text, cut = cut_at_stop(text, sampling.stop)
        return Completion(
            text=text,
            finish=_finish(reply, cut),
            prefilled_tokens=reply.prompt_tokens - reply.cached,
            prompt_tokens=reply.prompt_tokens,
            sampled_tokens=reply.sampled_tokens,
        )


class _CompletionSession(TokenSession):
    def __init__(self, policy: CompletionEndpointPolicy, client: HttpClient, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._policy = policy
        self._client = client
        self._tokenizer = tokenizer
        self._end = tokenizer.token_id(END_TOKEN)

    async def _speak(self, ids: Sequence[int], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        body = {
            "model": self._policy.name,
            "prompt": list(ids),
            **_sampling_fields(sampling, key),
            "top_k": sampling.top_k or -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": [self._end],
            "skip_special_tokens": False,
            "logprobs": 1,
            "return_token_ids": True,
        }
        async with self._policy.door.passing():
            version = self._policy.version
            # A session that goes on with an episode has heard nothing yet, whatever turn it is.
            reply = await _receive(self._client, "completions", body, on_text, begun=bool(self._ids) or key.turn > 0)
        if not reply.ids:
            raise UserError(f"{self._client.base_url} returned no token ids: serve the model with vLLM 0.10.2 or later.")
        if len(reply.ids) != len(reply.logprobs):
            raise PolicyOutageError(f"The server sent {len(reply.logprobs)} log-probabilities for {len(reply.ids)} tokens.")
        ended = reply.ids[-1] == self._end
        text, cut = cut_at_stop(self._tokenizer.decode(reply.ids[:-1] if ended else reply.ids), sampling.stop)
        return Completion(
            text=text,
            finish=Finish.END if ended else _finish(reply, cut),
            token_ids=tuple(reply.ids),
            logprobs=tuple(reply.logprobs),
            versions=(version,) * len(reply.ids),
            prefilled_tokens=len(ids) - reply.cached,
            prompt_tokens=len(ids),
        )


@dataclass
class _Reply:
    """What a server said, collected from one object or many events."""

    text: str = ""
    reasoning: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cached: int = 0
    """Prompt tokens the server says it did not compute."""

    def add(self, event: dict[str, Any]) -> str:
        """Take in one reply or event; returns the new text."""
        usage = event.get("usage") or {}
        if usage:
            self.prompt_tokens = int(usage.get("prompt_tokens") or 0)
            self.sampled_tokens = int(usage.get("completion_tokens") or 0)
            self.cached = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        choices = event.get("choices") or []
        if not choices:
            return ""
        choice = choices[0]
        said = choice.get("message") or choice.get("delta") or choice
        text = said.get("content") or said.get("text") or ""
        self.text += text
        self.reasoning += said.get("reasoning") or said.get("reasoning_content") or ""
        self.ids.extend(choice.get("token_ids") or [])
        logprobs = choice.get("logprobs") or {}
        self.logprobs.extend(logprobs.get("token_logprobs") or [])
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.stop_reason = choice.get("stop_reason", self.stop_reason)
        return text


async def _receive(client: HttpClient, path: str, body: dict[str, Any], on_text: OnText, *, begun: bool) -> _Reply:
    """One turn: a plain reply, or a stream when somebody listens.

    What a server refuses once a conversation has ``begun`` (it takes no longer prompt, say) ends this episode unscored; its
    siblings go on.
    """
    reply = _Reply()
    try:
        if on_text is None:
            reply.add(await client.json(path, body))
        else:
            streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
            async with aclosing(client.events(path, streamed)) as events:
                async for event in events:
                    text = reply.add(event)
                    if text:
                        on_text(text)
    except RefusedError as error:
        if begun:
            raise PolicyOutageError(str(error)) from error
        raise
    if reply.finish_reason is None:
        raise PolicyOutageError(f"{client.base_url} sent a reply without a finished choice.")
    if reply.finish_reason == "abort":
        raise PolicyOutageError(f"{client.base_url} gave up a turn under way.")
    return reply


def _sampling_fields(sampling: Sampling, key: SampleKey) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": _seed(key),
    }
    if sampling.presence_penalty:
        fields["presence_penalty"] = sampling.presence_penalty
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    return fields


def _seed(key: SampleKey) -> int:
    """31 bits of the key's hash."""
    text = "\x1f".join((str(key.seed), key.question, str(key.attempt), str(key.turn), str(key.retry)))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:4], "little") >> 1


def _finish(reply: _Reply, cut: bool) -> Finish:
    if reply.finish_reason == "length":
        return Finish.LENGTH
    return Finish.STOP if cut or isinstance(reply.stop_reason, str) else Finish.END
