"""What models cost: prices, a ledger whose limit holds while calls are under way and after a kill, and a policy that pays.

Before a call its maker holds what it may cost at most; then what it did cost takes the hold's place. What a killed process had
under way, or was cancelled, counts in full, since a server may have billed it; a call that failed counts nothing. A server that
counts no tokens is charged what its texts may have taken at most.
"""

import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Self

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.types import BudgetSpentError, Sampling
from sanderling.policy.contract import (
    Completion,
    Delta,
    OnText,
    Policy,
    SampleKey,
    Session,
    WrappedPolicy,
    sampled_tokens,
)
from sanderling.runs.files import or_cannot
from sanderling.runs.run import Run, Table

SPENT = "spent"  # the table of a run's account
_ROUNDING = 1e-9  # sums of prices may differ by this much and still be equal
_SCAFFOLD = 16  # most tokens that a chat template puts around one message
_OPENING = 64  # most tokens that it puts before the first one: a default system prompt, a generation prompt


@dataclass(frozen=True)
class Prices:
    """What a model costs, per million tokens, in whatever currency the limit is in."""

    prompt: float = 0.0
    sampled: float = 0.0

    def of(self, prompt_tokens: int, sampled_tokens: int) -> float:
        """The cost of a call."""
        return (prompt_tokens * self.prompt + sampled_tokens * self.sampled) / 1_000_000

    @classmethod
    def read(cls, text: str) -> Self:
        """The prices in ``PROMPT,SAMPLED``. Raises UserError."""
        try:
            prompt, sampled = (float(part) for part in text.split(","))
        except ValueError:
            prompt = sampled = -1.0
        if not (0 <= prompt < 1e9 and 0 <= sampled < 1e9):
            raise UserError(
                f"{text!r} is no price: write what a million prompt and sampled tokens cost, for example 0.15,0.60."
            )
        return cls(prompt, sampled)


def price_table() -> Path:
    """Where a user may keep what models cost."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sanderling" / "prices.toml"


def known_price(given: str, model: str) -> Prices | None:
    """The price that is given, or that the user's table has for a model; None: unknown.

    The table has a line for each model: ``"qwen3-4b" = "0.15,0.60"``. Raises UserError for one that cannot be read.
    """
    if given:
        return Prices.read(given)
    table = price_table()
    if not table.is_file():
        return None
    with or_cannot(f"read {table}"):
        text = table.read_text(encoding="utf-8-sig", errors="replace")
    try:
        found = tomllib.loads(text).get(model)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f'{table} is not TOML ({error}): write lines like "{model}" = "0.15,0.60".') from error
    return None if found is None else Prices.read(str(found))


@dataclass(frozen=True)
class Spent:
    """Tokens and money."""

    tokens: int = 0
    cost: float = 0.0
    calls: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.calls + other.calls)


NOTHING = Spent()


class Ledger:
    """The account of a run, shared by all its models, within one process."""

    def __init__(self, *, tokens: int | None = None, cost: float | None = None) -> None:
        """``tokens``, ``cost``: the most that all runs together may spend."""
        self._limits = tokens, cost
        self._kept: Table | None = None
        self._under_way: dict[int, Spent] = {}
        self._next = 0
        self.spent = Spent()  # by all processes: without what is under way here, with what killed ones had under way
        self.here = Spent()  # by this process
        self._paid = 0.0  # by all processes, for what is no model's: that takes no tokens
        self.paid_up_to = inf  # where the money ends for what is no model's

    def keep_in(self, kept: Table) -> None:
        """From now on the account outlives this process there; what earlier ones spent is read once."""
        for number, (tokens, cost) in kept.items() if self._kept is None else ():
            self.spent += Spent(tokens, cost, 1)
            self._paid += 0.0 if tokens else cost
            self._next = max(self._next, int(number) + 1)
        self._kept = kept

    def hold(self, tokens: int, cost: float) -> int:
        """Reserve what a call may cost at most, under a number. Raises BudgetSpentError when it could lead past a limit."""
        held = sum(self._under_way.values(), self.spent)
        sums = (("tokens", held.tokens, tokens), ("money", held.cost, cost))
        for (what, before, wanted), limit in zip(sums, self._limits, strict=True):
            if limit is not None and before + wanted > limit + _ROUNDING:
                raise BudgetSpentError(
                    f"The limit of {limit:,} ({what}) is reached: {before:,.10g} are spent or under way, "
                    f"and the next call may take {wanted:,.10g}."
                )
        number, self._next = self._next, self._next + 1
        self._under_way[number] = Spent(tokens, cost, 1)
        self._keep(number, self._under_way[number])
        return number

    def settle(self, hold: int, spent: Spent) -> None:
        """The call has ended and cost this, nothing where it failed. Of several settlements of a hold the first counts."""
        if self._under_way.pop(hold, None) is not None:
            self.spent += spent
            self.here += spent
            self._keep(hold, spent)

    def pay(self, cost: float, most: float | None = None) -> bool:
        """Take what something else than a model costs; False: that would lead past a limit, and nothing was taken.

        ``most``: for all such things of the run. A cost below zero gives back.
        """
        if min(self.paid_up_to - self.spent.cost, inf if most is None else most - self._paid) + _ROUNDING < cost:
            return False
        try:
            number = self.hold(0, cost)
        except BudgetSpentError:
            return False
        self.settle(number, Spent(0, cost, 0))
        self._paid += cost
        return True

    def _keep(self, number: int, spent: Spent) -> None:
        if self._kept is not None:
            self._kept.put(str(number), [spent.tokens, spent.cost], durable=False)


class BudgetConfig(Frozen):
    """What all models of a run may take together, over all processes that work at it, and where their replies are kept."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of all models together, prompts included."""
    max_cost: float | None = Field(default=None, ge=0.0)
    """Most cost; needs the price of every model."""
    cache: Path | None = None
    """Where replies are cached; in the user's cache directory by default."""


class Spending:
    """What a run may spend, and has spent: its ledger, kept in the run's database."""

    def __init__(
        self,
        run: Path | None,
        config: BudgetConfig | None = None,
        *,
        private: bool = False,
        rank: int = 0,
        locked: bool = False,
    ) -> None:
        """``run``: its directory; None: nothing outlives this process. ``rank``, ``locked``: see `runs.run.Run`.

        ``private``: replies are kept for their owner alone.
        """
        self.run, self.config, self.private, self._rank, self._locked = run, config or BudgetConfig(), private, rank, locked
        self.ledger = Ledger(tokens=self.config.max_tokens, cost=self.config.max_cost)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Open the account, and keep other processes from it: each would count without the other. Raises UserError."""
        if self.run is None:
            yield
            return
        with Run(self.run, private=self.private, rank=self._rank, locked=self._locked) as run:
            self.ledger.keep_in(run.table(SPENT))
            yield

    def __str__(self) -> str:
        """One line on what models took."""
        here, everything = self.ledger.here, self.ledger.spent
        line = f"models: {here.calls:,} calls, {here.tokens:,} tokens, cost {here.cost:.4g}"
        if here == everything:
            return line
        return f"{line}; with earlier runs {everything.tokens:,} tokens, cost {everything.cost:.4g}"


def read_prices(texts: Sequence[str], models: int, max_cost: float | None = None) -> list[Prices]:
    """A price for each model; a limit of money is none without them. Raises UserError."""
    if max_cost is not None and models and not texts:
        raise UserError(
            "A limit of money needs the price of every model that is asked (0,0 for a free one): give --set agent.price, and "
            "the judges' with --judge-price where the command has it."
        )
    found = [Prices.read(text) for text in texts] or [Prices()]
    if len(found) not in (1, models):
        raise UserError(f"{len(found)} prices were given for {models} models: give one for all, or one for each.")
    return found if len(found) == models else found * models


class MeteredPolicy(WrappedPolicy):
    """Another policy, paid for: each turn is held in a ledger before it is sampled, and settled by what it took."""

    def __init__(self, policy: Policy, ledger: Ledger, prices: Prices = Prices()) -> None:
        super().__init__(policy)
        self.ledger, self.prices = ledger, prices

    def open(self, key: SampleKey) -> "MeteredSession":
        return MeteredSession(self._policy.open(key), self.ledger, self.prices)


class MeteredSession:
    """One branch, paid turn by turn."""

    def __init__(self, session: Session, ledger: Ledger, prices: Prices) -> None:
        self._session, self._ledger, self._prices = session, ledger, prices
        self._said: list[tuple[int, int]] = [(session.mark(), _OPENING)]
        """After each turn: the mark, and how many tokens the branch has at most up to there."""
        self.prompt_tokens = self.sampled_tokens = 0  # what the last turn took

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """Raises BudgetSpentError before a turn that may lead past the limit."""
        if delta.token_ids is None:
            new = sum(_bytes(one.content) + _SCAFFOLD for one in delta.messages)
        else:
            new = len(delta.token_ids)
        prompt, longest = self._said[-1][1] + new, sampling.max_tokens
        most = Spent(prompt + longest, self._prices.of(prompt, longest), 1)
        hold = self._ledger.hold(most.tokens, most.cost)
        try:
            done = await self._session.generate(delta, sampling, key, on_text)
        except BaseException as error:
            self._ledger.settle(hold, Spent() if isinstance(error, Exception) else most)
            raise
        sampled = sampled_tokens(done)
        if not sampled and done.token_ids is None:
            sampled = longest if done.is_cut else min(longest, max(_bytes(done.text), 1))
        self.prompt_tokens, self.sampled_tokens = done.prompt_tokens or prompt, sampled
        cost = self._prices.of(self.prompt_tokens, sampled)
        self._ledger.settle(hold, Spent(self.prompt_tokens + sampled, cost, 1))
        self._said.append((self._session.mark(), self.prompt_tokens + sampled))
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


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))
