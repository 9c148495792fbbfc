"""A policy that pays: each turn is held in a ledger before it is sampled, and settled by what it took.

How much a prompt may take is known before the call: a token of a byte-level tokenizer is at least one byte, each message adds
a little scaffold, and what the server counted for the turn before bounds what stood there. A server that counts nothing is
charged what its texts may have taken at most, and the longest reply where it was cut for its length: an estimate, marked as
one, so that a limit holds and no price is ever multiplied by 0. A cancelled turn counts in full, one that failed counts
nothing. Changes nothing of what is sampled; knows no prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sanderling.core.types import Message, Sampling
from sanderling.policy.contract import Completion, Delta, Finish, Policy, SampleKey, Session
from sanderling.policy.ledger import Ledger, Prices
from sanderling.policy.wrapped import WrappedPolicy

_SCAFFOLD = 16
"""Most tokens that a chat template puts around one message."""
_OPENING = 64
"""Most tokens that it puts before the first one: a default system prompt, a generation prompt."""


@dataclass(frozen=True)
class Till:
    """Where a model's calls are paid."""

    ledger: Ledger
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a turn took."""

    prompt_tokens: int
    sampled_tokens: int
    is_estimated: bool
    """Whether one of them is the most that its texts may have taken, since the server did not say."""


def taken_by(completion: Completion, prompt: int, sampling: Sampling) -> Taken:
    """What a turn took, after a prompt of at most so many tokens."""
    seen, spoken = completion.prompt_tokens, sampled_tokens(completion)
    if spoken or completion.token_ids is not None:
        return Taken(seen or prompt, spoken, not seen)
    text = len(completion.text.encode("utf-8", errors="replace"))
    most = sampling.max_tokens if completion.finish is Finish.LENGTH else min(sampling.max_tokens, max(text, 1))
    return Taken(seen or prompt, most, True)


def most_tokens(messages: Sequence[Message]) -> int:
    """What messages take at most, with their scaffold."""
    return sum(len(message.content.encode("utf-8", errors="replace")) + _SCAFFOLD for message in messages)


def sampled_tokens(completion: Completion) -> int:
    """Tokens that a turn sampled; 0 where a server does not say."""
    return completion.sampled_tokens if completion.token_ids is None else len(completion.token_ids)


class MeteredPolicy(WrappedPolicy):
    """Another policy, paid for."""

    def __init__(self, policy: Policy, till: Till) -> None:
        super().__init__(policy)
        self._till = till

    def open(self, key: SampleKey) -> "MeteredSession":
        return MeteredSession(self._policy.open(key), self._till)


class MeteredSession:
    """One branch, paid turn by turn."""

    def __init__(self, session: Session, till: Till) -> None:
        self._session = session
        self._till = till
        self.last: Taken | None = None
        """What the last turn took."""
        self._said: list[tuple[int, int]] = [(session.mark(), _OPENING)]
        """After each turn: the mark, and how many tokens the branch has at most up to there."""

    async def generate(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """See `contract.Session`. Raises BudgetSpentError before a turn that may lead past the limit."""
        new = most_tokens(delta.messages) if delta.token_ids is None else len(delta.token_ids)
        prompt = self._said[-1][1] + new
        prices = self._till.prices
        hold = self._till.ledger.hold(prompt + sampling.max_tokens, prices.of(prompt, sampling.max_tokens))
        try:
            done = await self._session.generate(delta, sampling, key, on_text)
        except Exception:
            hold.release()
            raise
        except BaseException:
            hold.settle(prompt + sampling.max_tokens, prices.of(prompt, sampling.max_tokens))
            raise
        taken = self.last = taken_by(done, prompt, sampling)
        tokens = taken.prompt_tokens + taken.sampled_tokens
        hold.settle(tokens, prices.of(taken.prompt_tokens, taken.sampled_tokens), is_estimated=taken.is_estimated)
        self._said.append((self._session.mark(), tokens))
        return done

    def mark(self) -> int:
        return self._session.mark()

    def rewind(self, mark: int) -> None:
        """Forget what was said after the mark; it stays paid."""
        self._session.rewind(mark)
        while len(self._said) > 1 and self._said[-1][0] > mark:
            self._said.pop()

    def close(self) -> None:
        self._session.close()
