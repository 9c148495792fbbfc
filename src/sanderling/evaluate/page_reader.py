"""A text-level policy as the model that reads pages: its next turn, failures in the extractor's words, parts that fit it.

How a page is read is the affair of `tools.page_reader`; whoever opens the policy closes it. Knows no command and no console.
"""

from collections.abc import Sequence

from sanderling.core.errors import UserError
from sanderling.core.types import Message, Sampling
from sanderling.policy.contract import Delta, Policy, PolicyOutageError, SampleKey
from sanderling.policy.request_client import ReplyCache
from sanderling.tools.page_reader import Complete, OnOutage, PageReader, ReaderOutageError, ReaderRefusedError, ReadingLimits

_KEY = SampleKey(seed=0, question="extract", attempt=0, turn=0)
_REPLY_TOKENS = 4_096
_TOKENS_A_WORD = 2
_PROMPT_TOKENS = 1_000


def extractor_of(policy: Policy, cache: ReplyCache, on_outage: OnOutage) -> PageReader:
    """The extractor that a policy is. Raises UserError for one that speaks tokens, or that sees too little."""
    if policy.tokenizer is not None:
        raise UserError("An extractor is asked in words: leave ?tokenizer= out of --extractor.")
    limits = reading_limits(policy.context_length)
    return PageReader(completer(policy), policy.name, cache=cache, limits=limits, on_outage=on_outage)


def completer(policy: Policy) -> Complete:
    """A text-level policy's next turn at temperature 0, with failures in the extractor's words."""
    from sanderling.policy.endpoint import RefusedError  # brings a client of HTTP

    async def complete(messages: Sequence[Message]) -> str:
        session = policy.open(_KEY)
        try:
            done = await session.generate(Delta(tuple(messages)), Sampling(temperature=0.0, max_tokens=_REPLY_TOKENS), _KEY)
        except PolicyOutageError as error:
            raise ReaderOutageError(str(error)) from error
        except RefusedError as error:
            raise ReaderRefusedError(str(error)) from error
        finally:
            session.close()
        return done.text

    return complete


def reading_limits(context_length: int | None) -> ReadingLimits:
    """Parts that leave room for prompt and reply."""
    default = ReadingLimits()
    if context_length is None:
        return default
    room = (context_length - _REPLY_TOKENS - _PROMPT_TOKENS) // _TOKENS_A_WORD
    if room < 1:
        raise UserError(
            f"context={context_length} leaves an extractor no room: it needs more than {_REPLY_TOKENS + _PROMPT_TOKENS}."
        )
    return ReadingLimits(part_words=min(default.part_words, room))
